"""Bias correction and equalisation: what they must keep, and what they win."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import LINEAR, RELU, RELU6, GraphBuilder, make_images, small_cnn

from refoldc.calibrate import calibrate, device_images
from refoldc.compare import compare
from refoldc.correct_bias import correct_biases
from refoldc.equalise import equalise
from refoldc.float_export import channels_first, float_model, open_session
from refoldc.input_spec import normalised
from refoldc.ir import Bounds, Conv, Graph, QConv
from refoldc.options import CompileOptions
from refoldc.quantise import quantise
from refoldc.reference import Reference

SHAPE = (9, 10, 3)
OPTIONS = CompileOptions().for_input(SHAPE)
IMAGES, FRESH = make_images(SHAPE, 24), make_images(SHAPE, 24, seed=7)


def uneven(bounds: Bounds) -> Graph:
    """Convolution, depthwise, convolution; channels between differ up to 40 times."""
    b = GraphBuilder(SHAPE, seed=3)
    b.conv("t0", 12, bounds=bounds)
    b.depthwise(b.last, bounds=bounds)
    b.conv(b.last, 8, bounds=RELU)
    b.dense(b.last, 5)
    first, middle, last, head = b.graph().nodes
    assert isinstance(first, Conv)
    assert isinstance(last, Conv)
    spread = np.geomspace(0.05, 2, 12).astype(np.float32)
    first = replace(
        first,
        weights=first.weights * spread[:, None, None, None],
        bias=first.bias * spread,
    )
    last = replace(last, weights=last.weights / spread)
    return replace(b.graph(), nodes=(first, middle, last, head))


def run(graph: Graph) -> np.ndarray:
    """The float answers to fresh images."""
    x = channels_first(normalised(FRESH, (0.0,) * 3, (1.0,) * 3))
    answers: np.ndarray = open_session(float_model(graph)).run(None, {graph.input: x})[
        0
    ]
    return answers


# --- bias correction ---------------------------------------------------------


def test_corrected_means_are_those_of_the_float_network() -> None:
    """Of each convolution without an activation, over the images it was made from."""
    b = GraphBuilder(SHAPE, seed=2)
    for _ in range(3):
        b.conv(b.last, 8, bounds=LINEAR)
    b.dense(b.last, 4)
    graph = b.graph()
    calibration = calibrate(graph, IMAGES, OPTIONS)
    plain = quantise(graph, calibration, OPTIONS)
    corrected = quantise(
        correct_biases(graph, plain, IMAGES, OPTIONS), calibration, OPTIONS
    )
    received = device_images(plain, IMAGES, OPTIONS)
    off = {}
    for name, network in (("plain", plain), ("corrected", corrected)):
        traces = [Reference(network).trace(image)["n2"] for image in received]
        quant = network.quants["t3"]
        real = quant.scale * (np.stack(traces) - float(quant.zero_point))
        wanted = calibration.moments["n2"][0]
        off[name] = np.abs(real.mean(axis=(0, 1, 2)) - wanted).max() / quant.scale
    assert off["corrected"] < 0.1 < off["plain"]


def test_correction_helps_on_images_it_has_not_seen() -> None:
    """More signal to noise at the output."""
    graph = uneven(RELU)
    calibration = calibrate(graph, IMAGES, OPTIONS)
    plain = quantise(graph, calibration, OPTIONS)
    better = quantise(
        correct_biases(graph, plain, IMAGES, OPTIONS), calibration, OPTIONS
    )
    before, after = (compare(graph, q, FRESH, OPTIONS) for q in (plain, better))
    assert after.output_db > before.output_db


def test_correction_moves_the_clean_mean_of_a_site_along() -> None:
    """In accumulator units the target follows the bias, so the output's stays."""
    graph = small_cnn()
    calibration = calibrate(graph, IMAGES, OPTIONS)
    plain = quantise(graph, calibration, OPTIONS)
    better = quantise(
        correct_biases(graph, plain, IMAGES, OPTIONS), calibration, OPTIONS
    )
    for old, new in zip(plain.layers, better.layers, strict=True):
        if not isinstance(old, QConv) or old.site is None:
            continue
        assert isinstance(new, QConv)
        assert new.site is not None
        np.testing.assert_array_equal(old.site.beta, new.site.beta)
        unit = plain.quants[old.inputs[0]].scale * old.weight_scale
        unit = unit * 2.0**old.site.stat_shift
        expected = old.site.mean - (new.bias - old.bias) / unit
        np.testing.assert_allclose(expected, new.site.mean, rtol=1e-3, atol=0.05)


# --- equalisation ------------------------------------------------------------


def test_equalisation_keeps_the_function_and_levels_the_ranges() -> None:
    """Answers are equal to rounding; channels between come closer together."""
    graph = uneven(RELU)
    calibration = calibrate(graph, IMAGES, OPTIONS)
    levelled, moved = equalise(graph, calibration)
    np.testing.assert_allclose(run(graph), run(levelled), rtol=1e-4, atol=1e-5)

    def spread(high: np.ndarray, live: np.ndarray) -> float:
        return float(high[live].max() / high[live].min())

    for name in ("n0", "n1"):
        before, after = calibration.spans[name][1], moved.spans[name][1]
        live = before > 0.02  # a channel that ReLU silences has no range to level
        assert spread(after, live) < 0.5 * spread(before, live)


def test_moved_calibration_is_what_calibrating_gives() -> None:
    """Ranges, moments and peaks need no second pass over the images."""
    graph = uneven(RELU)
    levelled, moved = equalise(graph, calibrate(graph, IMAGES, OPTIONS))
    fresh = calibrate(levelled, IMAGES, OPTIONS)
    for tensor, span in fresh.ranges.items():
        assert pytest.approx(span, rel=1e-4, abs=1e-5) == moved.ranges[tensor]
    for name, moments in fresh.moments.items():
        np.testing.assert_allclose(moments, moved.moments[name], rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(fresh.peak[name], moved.peak[name], rtol=1e-4)


def test_targets_move_with_their_channels() -> None:
    """Both moments of BatchNorm are divided by what the channel is divided by."""
    graph = uneven(RELU)
    levelled, _ = equalise(graph, calibrate(graph, IMAGES, OPTIONS))
    first, other = graph.nodes[0], levelled.nodes[0]
    assert isinstance(first, Conv)
    assert isinstance(other, Conv)
    assert first.bn is not None
    assert other.bn is not None
    s = first.bias / other.bias
    assert s.max() / s.min() > 3
    np.testing.assert_allclose(first.bn.beta / s, other.bn.beta, rtol=1e-5)
    np.testing.assert_allclose(first.bn.sigma / s, other.bn.sigma, rtol=1e-5)


def test_relu6_and_shared_outputs_are_left_alone() -> None:
    """What clips at 6, or is read by a sum, cannot be scaled."""
    for graph in (uneven(RELU6), small_cnn()):
        calibration = calibrate(graph, IMAGES, OPTIONS)
        levelled, _ = equalise(graph, calibration)
        for old, new in zip(graph.nodes, levelled.nodes, strict=True):
            if isinstance(old, Conv):
                assert isinstance(new, Conv)
                np.testing.assert_array_equal(old.weights, new.weights)


def test_equalisation_helps_where_channels_are_uneven() -> None:
    """More signal to noise at the output, on images it has not seen."""
    graph = uneven(RELU)
    calibration = calibrate(graph, IMAGES, OPTIONS)
    levelled, moved = equalise(graph, calibration)
    before = compare(graph, quantise(graph, calibration, OPTIONS), FRESH, OPTIONS)
    after = compare(levelled, quantise(levelled, moved, OPTIONS), FRESH, OPTIONS)
    assert after.output_db > before.output_db + 3
