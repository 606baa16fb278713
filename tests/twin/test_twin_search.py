"""PACE as the C computes it: features that return, results accepted, old domains."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from small_model import make_images, write_data

from refoldc.adapt import AdaptConfig, AdaptMethod
from refoldc.artefact import Artefact
from refoldc.ir import QDense
from refoldc.reference import Reference

from refold.errors import UserError
from refold.runner import RunOptions, run
from refold.twin import Twin

WINDOW, POPULATION, DIMENSION = 4, 5, 12
PACE = AdaptConfig(
    method="pace",
    sigma=0.3,
    weight=0,
    window=WINDOW,
    population=POPULATION,
    generations=0,
    shift=1000,
)
STATISTICS_BYTES = 56 + 3 * 4 * 6 + 4
"""Of FORGE's record of six channels, which the search's follows."""
HEADER_BYTES = 88
NOTHING = np.zeros(DIMENSION, np.float32)


def dark(count: int, seed: int = 5) -> NDArray[np.uint8]:
    """A stream that has shifted."""
    return make_images(count, seed=seed) // 4


def bright(count: int, seed: int = 6) -> NDArray[np.uint8]:
    """One that has shifted the other way."""
    return (192 + make_images(count, seed=seed) // 4).astype(np.uint8)


def logits(twin: Twin, images: NDArray[Any]) -> list[list[int]]:
    """The answers to a stream."""
    return [twin.infer(image).logits.tolist() for image in images]


def returned(artefact: Artefact, images: NDArray[Any]) -> list[list[int]]:
    """The static network's answers with features that return, in NumPy."""
    graph = artefact.qgraph
    last = cast("QDense", graph.layers[-1])
    reference = Reference(graph)

    def features(image: NDArray[Any]) -> NDArray[Any]:
        return reference.tensors(image)[last.inputs[0]].reshape(-1)

    clean = np.stack([features(image) for image in make_images(64)])
    source = clean.mean(axis=0).astype(np.float32)
    mean, answers = source.copy(), []
    for image in images:
        now = features(image)
        mean += np.float32(1 / 160) * (now - mean)
        move = np.floor((source - mean) + np.float32(0.5))
        moved = np.clip(now + move, -128, 127).astype(np.int8)
        answers.append(reference._dense(last, moved).reshape(-1).tolist())
    return answers


def test_features_return_to_the_source(twin: Twin, artefact: Artefact) -> None:
    """They do from the first image on, by the running mean that includes it."""
    images = dark(16)
    twin.configure(replace(PACE, window=16, source=True))
    found = logits(twin, images)
    assert returned(artefact, images) == found
    twin.configure(replace(PACE, window=16))
    assert found != logits(twin, images)


def test_features_stay_behind_a_closed_gate(twin: Twin) -> None:
    """While it is closed the static network runs, bit for bit."""
    images = make_images(12)
    twin.configure(AdaptConfig(method="off"))
    off = logits(twin, images)
    twin.configure(replace(PACE, method="forge+pace", source=True))
    assert off == logits(twin, images)


def test_what_does_not_improve_is_not_used(twin: Twin) -> None:
    """At the highest demand the targets stay the model's, while searches go on."""
    images = dark(6 * WINDOW)
    twin.configure(AdaptConfig(method="off"))
    off = logits(twin, images)
    twin.configure(replace(PACE, accept=100))
    found = [twin.infer(image) for image in images]
    assert off == [outcome.logits.tolist() for outcome in found]
    search = 1 + (POPULATION + 2) * WINDOW
    assert search == found[WINDOW].forward_passes


def test_what_improves_is_used(twin: Twin) -> None:
    """At a demand next to nothing some result comes into force, and not every one."""
    images, changed = dark(12 * WINDOW), []
    twin.configure(replace(PACE, accept=1e-6))
    for image in images[::WINDOW]:
        before = in_force(twin)
        for _ in range(WINDOW):
            twin.infer(image)
        changed.append(before != in_force(twin))
    assert {True, False} == set(changed)


@pytest.mark.parametrize("method", ["pace", "forge+pace"])
def test_state_goes_on_elsewhere(
    library: Path, artefact: Artefact, method: AdaptMethod
) -> None:
    """A record holds what is in force and the features' running mean."""
    config = replace(
        PACE, method=method, gate=False, accept=0.5, source=True, shift=0.2
    )
    first, second = (Twin(library, artefact.qgraph) for _ in range(2))
    images = dark(6 * WINDOW)
    first.configure(config)
    logits(first, images[: 2 * WINDOW])
    second.configure(config)
    second.load_state(first.save_state())
    rest = images[2 * WINDOW :]
    assert logits(first, rest) == logits(second, rest)
    assert first.save_state() == second.save_state()


def record(twin: Twin) -> NDArray[np.float32]:
    """The floats of the search's record."""
    saved = twin.save_state()
    return np.frombuffer(saved[STATISTICS_BYTES + HEADER_BYTES : -4], "<f4")


def mean_of(twin: Twin) -> NDArray[np.float32]:
    """Where the search's distribution is."""
    return record(twin)[3 : 3 + DIMENSION]


def in_force(twin: Twin) -> list[float]:
    """What is in force: the point before the features' six means."""
    return record(twin)[-6 - DIMENSION : -6].tolist()


def test_a_domain_that_returns_finds_its_vector(twin: Twin) -> None:
    """The search begins where it ended in the same domain, not at zero or elsewhere."""
    twin.configure(replace(PACE, sigma=0.1, weight=1, shift=3))
    ends = [NOTHING]
    for domain in (dark(40 * WINDOW), bright(40 * WINDOW)):
        logits(twin, domain)
        ends.append(mean_of(twin))
    for domain, expected in (
        (dark(2 * WINDOW, seed=9), 1),
        (bright(2 * WINDOW, seed=8), 2),
    ):
        logits(twin, domain)
        apart = [float(np.linalg.norm(mean_of(twin) - end)) for end in ends]
        assert expected == int(np.argmin(apart))
        assert 2 * apart[expected] < min(np.delete(apart, expected))


def test_features_that_are_not_known_are_refused(
    artefact: Artefact, tmp_path: Path
) -> None:
    """Where the last layer is no dense one the keys to add are named."""
    other = shutil.copytree(artefact.path, tmp_path / "other.refold")
    manifest = json.loads((other / "refold.json").read_text())
    manifest["search"]["features"] = 0
    (other / "refold.json").write_text(json.dumps(manifest))
    options = RunOptions(data=write_data(tmp_path / "data.npz"), adapt="pace:k=8")
    with pytest.raises(UserError, match="lambda=0;source=off"):
        run(other, options)
