"""Recalibration sites: which layers, which targets, in which units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import GraphBuilder, calibrated, small_cnn

from refoldc.ir import BnShape, Conv
from refoldc.options import CompileOptions
from refoldc.sites import choose_targets, feeds_output, site_nodes, stat_shift


def test_layers_that_feed_the_output_are_no_sites() -> None:
    """Through sums and pools, up to the last layers with weights."""
    b = GraphBuilder((6, 6, 3))
    first = b.conv("t0", 4)
    left = b.conv(first, 4)
    b.add(left, first)
    b.global_pool(b.last)
    graph = b.graph()
    assert {first, left, "t3", "t4"} == feeds_output(graph)
    assert () == site_nodes(graph)


def test_convolutions_with_batch_norm_are_sites() -> None:
    """Those whose BatchNorm was folded, in layer order."""
    names = [node.name for node in site_nodes(small_cnn())]
    assert ["n0", "n1", "n2", "n8"] == names


def test_rule_mix_replaces_what_calibration_contradicts() -> None:
    """Deviation within a factor of two and mean within one deviation, else moments."""
    bn = BnShape(np.zeros(5), np.ones(5), "exact")
    moments = np.array([0.9, 1.1, 0.0, 0.0, 0.0]), np.array([1.0, 1.0, 0.4, 2.1, 1.9])
    (mean, deviation), replaced = choose_targets(bn, moments, "mix")
    assert [False, True, True, True, False] == replaced.tolist()
    assert [0.0, 1.1, 0.0, 0.0, 0.0] == mean.tolist()
    assert [1.0, 1.0, 0.4, 2.1, 1.0] == deviation.tolist()


@pytest.mark.parametrize(("rule", "origin"), [("bn", "exact"), ("mix", "estimated")])
def test_targets_that_stay(rule: str, origin: str) -> None:
    """Rule bn keeps BatchNorm's; estimated targets are the moments already."""
    bn = BnShape(np.zeros(1), np.ones(1), origin)  # type: ignore[arg-type]
    (mean, _), replaced = choose_targets(bn, (np.ones(1) * 9, np.ones(1)), rule)  # type: ignore[arg-type]
    assert ([0.0], [False]) == (mean.tolist(), replaced.tolist())


@pytest.mark.parametrize(
    ("peak", "shift"), [(0, 0), (4096, 0), (4097, 1), (8192, 1), (2**31 - 1, 19)]
)
def test_stat_shift_leaves_eightfold_room(peak: int, shift: int) -> None:
    """8 * peak >> k is the least that fits int16."""
    assert shift == stat_shift(peak)


def test_constants_invert_to_the_targets() -> None:
    """mu0, v0, G and O are the targets in accumulator units and output steps."""
    options = CompileOptions()
    graph, calibration = calibrated(small_cnn(), options)
    site = graph.sites[0]
    layer = next(n for n in graph.layers if n.name == site.layer)
    unit = (
        graph.quants[layer.inputs[0]].scale
        * layer.weight_scale  # type: ignore[attr-defined]
        * 2.0**site.stat_shift
    )
    mean, deviation = calibration.moments[site.layer]
    out = graph.quants[layer.output]
    bias = layer.bias  # type: ignore[attr-defined]
    np.testing.assert_allclose(site.mean * unit + bias, mean, atol=1e-5)
    np.testing.assert_allclose(np.sqrt(site.variance) * unit, deviation, rtol=1e-5)
    np.testing.assert_allclose(
        site.offset, mean / out.scale + out.zero_point + 0.5, 1e-5
    )
    np.testing.assert_allclose(
        site.gain * out.scale, np.hypot(deviation, 1e-5**0.5), 1e-5
    )
    assert ("exact", 0, 90) == (site.origin, site.calibrated_channels, site.pixels)


def test_dead_channels_are_not_scored() -> None:
    """A channel without weights has a floored variance and does not count."""
    b = GraphBuilder((6, 6, 1))
    b.conv("t0", 3)
    b.dense(b.last, 2)
    node = b.nodes[0]
    assert isinstance(node, Conv)
    weights = node.weights.copy()
    weights[1] = 0
    b.nodes[0] = replace(node, weights=weights)
    graph, _ = calibrated(b.graph(), CompileOptions())
    site = graph.sites[0]
    assert [True, False, True] == site.live.tolist()
    assert np.float32(0.02**2) == site.variance[1]
    assert np.all(site.variance[[0, 2]] > 1)


def test_one_position_an_image_is_off_by_default() -> None:
    """A 1x1 output has no spread within an image."""
    b = GraphBuilder((3, 3, 2))
    b.conv("t0", 4)
    b.conv(b.last, 4, pads=(0, 0, 0, 0))
    b.dense(b.last, 2)
    graph, _ = calibrated(b.graph(), CompileOptions())
    assert [True, False] == [site.default_on for site in graph.sites]
