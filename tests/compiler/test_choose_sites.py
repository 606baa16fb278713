"""``--sites auto:K``: what the ranking measures, picks and leaves in an artefact."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graphs import calibrated, make_images, small_cnn

from refoldc.artefact import load_artefact
from refoldc.calibrate import float_feeds
from refoldc.choose_sites import choose_sites
from refoldc.errors import BadOptions
from refoldc.float_export import (
    before_activation,
    float_model,
    open_session,
)
from refoldc.inspection import inspect_model
from refoldc.ir import Graph, QGraph
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model
from refoldc.rank_sites import pick, rank_sites
from refoldc.site_network import Feeds, SiteNetwork

IMAGES = make_images((9, 10, 3), 8)
DARK = {"dark": IMAGES // 4, "bright": 255 - IMAGES // 4}
A = 0.75


@pytest.fixture(scope="module")
def graph() -> Graph:
    """A network with four sites."""
    return small_cnn()


@pytest.fixture(scope="module")
def quantised(graph: Graph) -> QGraph:
    """Its integer form."""
    return calibrated(graph, CompileOptions())[0]


@pytest.fixture(scope="module")
def network(graph: Graph, quantised: QGraph) -> SiteNetwork:
    """The float network whose sites can adapt."""
    return SiteNetwork(graph, quantised.sites)


@pytest.fixture(scope="module")
def x(graph: Graph) -> Feeds:
    """A batch of dark images as the float network takes them."""
    options = CompileOptions().for_input(graph.sample_shape)
    return float_feeds(graph, DARK["dark"], options)


def test_no_site_is_the_float_network(
    graph: Graph, network: SiteNetwork, x: Feeds
) -> None:
    """Without a chosen site the answers are those of the plain network."""
    (expected,) = open_session(float_model(graph)).run(None, x)
    np.testing.assert_allclose(network.answer(x, (), 1.0), expected, 1e-4, 1e-5)


def test_a_site_restores_mean_and_deviation(
    graph: Graph, quantised: QGraph, network: SiteNetwork, x: Feeds
) -> None:
    """The first site's output has the moments that the shrinkage leaves it."""
    site, node = quantised.sites[0], graph.nodes[0]
    name = before_activation(node)
    plain = open_session(float_model(graph, [name]))
    before = plain.run([name], x)[0].astype(float)
    index = network._kept.index(f"{name}:measured")
    kept = network._run(network._kept, x, (0,), A)
    np.testing.assert_allclose(kept[index], before, 1e-4, 1e-5)
    mean, spread = before.mean((0, 2, 3)), before.var((0, 2, 3))
    target = site.sigma**2
    variance = np.maximum(target + A * (spread - target), target / 256)
    gain = np.sqrt((target + 1e-5) / (variance + 1e-5))
    centre = site.beta + A * (mean - site.beta)
    column = (1, -1, 1, 1)
    shifted = (before - centre.reshape(column)) * gain.reshape(column)
    after = np.maximum(shifted + site.beta.reshape(column), 0)
    reads = [next(i for i in ins if i != "refold:shrinkage") for ins in network._reads]
    found = dict(zip(network._kept, kept, strict=True))
    assert f"{name}:measured" == reads[0]
    np.testing.assert_allclose(found[node.output], after, 1e-3, 1e-4)


def test_a_tail_gives_what_the_whole_network_gives(
    network: SiteNetwork, x: Feeds
) -> None:
    """What lies before a candidate may be computed once."""
    tails = dict(network.answers(x, (1,), A, (0, 2, 3)))
    assert [0, 2, 3] == list(tails)
    for site, found in tails.items():
        np.testing.assert_allclose(network.answer(x, (1, site), A), found, 1e-4, 1e-5)


def test_doubt_is_decided_by_cost() -> None:
    """The cheapest of what may be best wins; a clear difference is no doubt."""
    best = np.zeros(100)
    doubtful = np.tile([-0.98, 1.0], 50)
    worse = np.full(100, 0.1)
    losses = {0: best, 1: doubtful, 2: worse}
    assert 1 == pick(losses, [300, 200, 100])
    assert 0 == pick(losses, [200, 200, 100])


def test_a_ranking_is_what_the_network_measures(
    graph: Graph, quantised: QGraph
) -> None:
    """Every site once; losses fall from off; the first site's is its own alone."""
    told: list[str] = []
    options = CompileOptions().for_input(graph.sample_shape)
    ranking = rank_sites(graph, quantised, IMAGES, DARK, options, told.append)
    assert [0, 1, 2, 3] == sorted(found.site for found in ranking.sites)
    assert (8, ("dark", "bright")) == (ranking.images, ranking.corruptions)
    first = ranking.sites[0]
    assert first.loss <= first.alone < ranking.off
    shrinkages = [found.shrinkage for found in ranking.sites]
    assert sorted(shrinkages, reverse=True) == shrinkages
    assert "rank sites: 4 of 4" == told[-1]
    assert ((first.site,), first.shrinkage) == ranking.first(1)
    assert (0, 1, 2, 3) == ranking.first(4)[0]
    with pytest.raises(ValueError, match="auto:1 to auto:4"):
        ranking.first(5)


@pytest.mark.parametrize(
    ("choice", "corrupted", "message"),
    [
        ("auto:5", DARK, "ranked are 4; give a smaller K"),
        ("auto:2", None, "corrupted=.* or name the sites"),
    ],
)
def test_impossible_choices(
    choice: str, corrupted: Any, message: str, graph: Graph, quantised: QGraph
) -> None:
    """More sites than there are, or nothing to rank them on."""
    options = CompileOptions(sites=choice).for_input(graph.sample_shape)
    with pytest.raises(BadOptions, match=message):
        choose_sites(graph, quantised, IMAGES, corrupted, options, progress=print)


def test_an_artefact_keeps_ranking_and_choice(repo_root: Path, tmp_path: Path) -> None:
    """The digits network: the best sites adapt by default, with their shrinkage."""
    model = repo_root / "models/digits.onnx"
    images = make_images(inspect_model(model).input_shape, 16)
    compile_model(
        model,
        images,
        tmp_path / "out",
        options=CompileOptions(sites="auto:2"),
        corrupted={"dark": images // 4},
    )
    artefact = load_artefact(tmp_path / "out")
    ranking = artefact.manifest.ranking
    assert ranking is not None
    chosen, shrinkage = ranking.first(2)
    on = [i for i, site in enumerate(artefact.manifest.sites) if site.default_on]
    assert list(chosen) == on
    assert shrinkage == artefact.manifest.shrinkage == artefact.qgraph.shrinkage
    text = (tmp_path / "out/model.c").read_text()
    written = re.search(r"\.default_shrinkage = (\S+)f,", text)
    assert written is not None
    assert np.float32(shrinkage) == float.fromhex(written[1])
