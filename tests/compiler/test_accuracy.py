"""The accuracy report: what it measures, and that it finds what was planted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from graphs import RELU, GraphBuilder, make_images, small_cnn
from numpy.typing import NDArray

from refoldc.accuracy import LOSSY_DB, Accuracy
from refoldc.calibrate import calibrate, device_images
from refoldc.compare import compare, decibel, layer_tensors
from refoldc.ir import Conv, Graph
from refoldc.options import CompileOptions
from refoldc.pipeline import golden
from refoldc.quantise import quantise
from refoldc.reference import Reference

TENSOR = CompileOptions(input="tensor")


def report(graph: Graph, images: NDArray[Any], choice: CompileOptions) -> Accuracy:
    """Quantise and compare on the same images."""
    options = choice.for_input(graph.shapes[graph.input])
    quantised = quantise(graph, calibrate(graph, images, options), options)
    return compare(graph, quantised, images, options)


def test_ratios() -> None:
    """Ten times the amplitude is 20 dB; nothing is infinite."""
    assert 20.0 == decibel(100.0, 1.0)
    assert 99.0 == decibel(1.0, 0.0)
    assert -99.0 == decibel(0.0, 1.0)
    assert 99.0 == decibel(1.0, 5e-324), "nor does the quotient overflow"


def test_a_layer_by_hand() -> None:
    """One 1x1 convolution: its ratio follows from the rounding of the definition."""
    b = GraphBuilder((4, 4, 2))
    b.conv("t0", 3, kernel=(1, 1), pads=(0, 0, 0, 0), bn=False)
    graph = b.graph()
    images = np.random.default_rng(5).normal(0, 1, (6, 4, 4, 2)).astype(np.float32)
    options = TENSOR.for_input((4, 4, 2))
    quantised = quantise(graph, calibrate(graph, images, options), options)
    [conv] = graph.nodes
    assert isinstance(conv, Conv)
    real = images @ conv.weights[:, 0, 0].T + conv.bias
    reference, quant = Reference(quantised), quantised.quants[conv.output]
    stored = [
        reference.trace(image)["n0"]
        for image in device_images(quantised, images, options)
    ]
    noise = quant.scale * (np.stack(stored) - float(quant.zero_point)) - real
    expected = 10 * np.log10((real**2).sum() / (noise**2).sum())
    [found] = compare(graph, quantised, images, options).layers
    assert pytest.approx(expected, abs=0.02) == found.sqnr_db
    assert found.own_sqnr_db > found.sqnr_db, "its input's rounding is not its own"
    assert 0 == found.saturated


def test_every_layer_is_reported() -> None:
    """In order, of every kind, with the float network's choice as the measure."""
    graph = small_cnn()
    found = report(graph, make_images((9, 10, 3), 16), CompileOptions())
    assert [node.name for node in graph.nodes] == [
        layer.layer for layer in found.layers
    ]
    assert 16 == found.images
    assert found.agreement >= 90
    assert all(layer.own_sqnr_db > 25 for layer in found.layers)


def planted() -> tuple[Graph, NDArray[np.float32]]:
    """Three convolutions; huge weights of the second read a channel that is 0."""
    b = GraphBuilder((8, 8, 4))
    first = b.conv("t0", 6, bounds=RELU)
    second = b.conv(first, 6, bounds=RELU)
    b.conv(second, 6, bounds=RELU)
    b.dense(b.last, 3)
    graph = b.graph()
    silent, harmed, *others = graph.nodes
    assert isinstance(silent, Conv)
    assert isinstance(harmed, Conv)
    bias, weights = silent.bias.copy(), harmed.weights.copy()
    bias[2] = -100.0
    weights[3:5, 1, 1, 2] = 60.0
    silent, harmed = replace(silent, bias=bias), replace(harmed, weights=weights)
    values = np.random.default_rng(1).normal(0, 1, (8, 8, 8, 4)).astype(np.float32)
    return replace(graph, nodes=(silent, harmed, *others)), values


def test_a_planted_fault_is_found() -> None:
    """The layer is the culprit, its channels the worst, and the loss begins there."""
    found = report(*planted(), TENSOR)
    assert "n1" == found.culprit == found.first_loss
    assert {3, 4} == set(found.layer("n1").worst_channels[:2])
    assert found.layer("n0").sqnr_db > LOSSY_DB > found.layer("n1").sqnr_db
    assert found.layer("n2").own_sqnr_db > 25, "what it inherits is not its own"


def test_saturation_is_the_share_beyond_the_range() -> None:
    """None under min-max; with percentiles about what they leave out at each end."""
    graph, images = small_cnn(), make_images((9, 10, 3), 16)
    assert {0.0} == {
        x.saturated for x in report(graph, images, CompileOptions()).layers
    }
    choice = CompileOptions(calibration="percentile:98")
    first = report(graph, images, choice).layers[0]
    assert 0.5 < first.saturated < 2.5


def test_dump_holds_both_sides() -> None:
    """Float and int8 of every layer in one layout, equal to half a step and noise."""
    graph, images = small_cnn(), make_images((9, 10, 3), 4)
    options = CompileOptions().for_input((9, 10, 3))
    quantised = quantise(graph, calibrate(graph, images, options), options)
    known = golden(quantised, device_images(quantised, images, options))
    arrays = layer_tensors(graph, known, images, options)
    assert 2 * len(graph.nodes) == len(arrays)
    for node in graph.nodes:
        quant = quantised.quants[node.output]
        stored, real = (arrays[f"{node.name}:{kind}"] for kind in ("int8", "float"))
        assert stored.shape == real.shape
        np.testing.assert_array_equal(known[node.name], stored)
        back = quant.scale * (stored.astype(float) - quant.zero_point)
        assert np.abs(back - real).max() <= 0.1 * np.abs(real).max()
