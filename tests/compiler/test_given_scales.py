"""Models that are quantised already keep their scales, or say why not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from agreement import check
from models import ModelBuilder
from numpy.typing import NDArray

from refoldc.given_scales import activation_quant, weight_scale, without_pairs
from refoldc.ir import QConv, QDense, QLayer, Quant

INPUT, INNER, OUTPUT = Quant(0.03, -7), Quant(0.05, -128), Quant(0.04, 3)


def pair(b: ModelBuilder, x: str, quant: Quant, *, unsigned: bool = False) -> str:
    """Quantised and back, as exporters spell it."""
    kind, shift = (np.uint8, 128) if unsigned else (np.int8, 0)
    scale = b.const(np.float32(quant.scale))
    zero = b.const(np.array(quant.zero_point + shift, kind))
    return b.op("DequantizeLinear", b.op("QuantizeLinear", x, scale, zero), scale, zero)


@pytest.mark.parametrize("scale", [-0.1, 0.0, np.nan, np.inf])
def test_scales_that_mean_nothing_are_not_taken_over(scale: float) -> None:
    """Of activations and of weights: refold chooses its own."""
    found = np.float32(scale).reshape(1)
    assert activation_quant(found, np.int8([0])) is None
    assert weight_scale(np.float32([0.1, scale]), np.int8([0, 0])) is None


def weights(
    b: ModelBuilder,
    stored: NDArray[np.integer],
    scale: NDArray[np.float32],
    **axis: int,
) -> str:
    """Stored in 8 bits, dequantised by the model."""
    zero = np.zeros(scale.shape, stored.dtype)
    operands = b.const(stored), b.const(scale), b.const(zero)
    return b.op("DequantizeLinear", *operands, **axis)


def stored_weights(*shape: int) -> NDArray[np.int8]:
    """None of them at 127, so that their largest value says nothing of the scale."""
    return np.random.default_rng(3).integers(-99, 100, shape).astype(np.int8)


def network(*, unsigned: bool = False) -> onnx.ModelProto:
    """Two convolutions with pairs around each, weights a channel and a tensor."""
    b = ModelBuilder((3, 6, 6), opset=13)
    x = pair(b, "x", INPUT, unsigned=unsigned)
    scale = np.linspace(0.002, 0.004, 4).astype(np.float32)
    y = b.op("Conv", x, weights(b, stored_weights(4, 3, 3, 3), scale, axis=0))
    y = pair(b, b.op("Relu", y), INNER, unsigned=unsigned)
    one = np.float32(0.004).reshape(())
    y = b.op("Conv", y, weights(b, stored_weights(2, 4, 1, 1), one))
    return b.model(pair(b, y, OUTPUT, unsigned=unsigned))


def stored(layer: QLayer) -> NDArray[np.int8]:
    """Weights in ONNX's order."""
    assert isinstance(layer, (QConv, QDense))
    return np.moveaxis(layer.weights, -1, 1)


def test_the_integer_network_is_the_models_own(tmp_path: Path) -> None:
    """Scales, zero points and weights are equal; answers to a step of the output."""
    found = check(network(), tmp_path)
    graph = found.graph
    tensors = [graph.input, *(layer.output for layer in graph.layers)]
    assert [INPUT, INNER, OUTPUT] == [
        Quant(round(graph.quants[name].scale, 6), graph.quants[name].zero_point)
        for name in tensors
    ]
    np.testing.assert_array_equal(stored_weights(4, 3, 3, 3), stored(graph.layers[0]))
    np.testing.assert_array_equal(stored_weights(2, 4, 1, 1), stored(graph.layers[1]))
    assert any("3 of its 3 tensor scales" in notice for notice in graph.notices)


def test_unsigned_activations_are_the_same_128_lower(tmp_path: Path) -> None:
    """uint8 and int8 pairs give one network."""
    unsigned, signed = (check(network(unsigned=u), tmp_path) for u in (True, False))
    assert [signed.graph.quants[name] for name in signed.graph.quants] == [
        unsigned.graph.quants[name] for name in unsigned.graph.quants
    ]


def test_asymmetric_weights_are_quantised_anew(tmp_path: Path) -> None:
    """Their values are kept, their scale is not, and the node is named."""
    b = ModelBuilder((3, 6, 6), opset=13)
    levels = (stored_weights(4, 3, 3, 3).astype(np.int16) + 128).astype(np.uint8)
    operands = [b.const(levels), b.const(np.float32(0.003)), b.const(np.uint8(128))]
    y = b.op("Conv", pair(b, "x", INPUT), b.op("DequantizeLinear", *operands))
    found = check(b.model(pair(b, y, INNER)), tmp_path)
    told = [text for text in found.graph.notices if "not symmetric int8" in text]
    assert 1 == len(told)
    assert "node '/conv3'" in told[0]


def test_folded_batch_norm_keeps_the_stored_weights(tmp_path: Path) -> None:
    """Only signs may change: gamma goes into the scale."""
    b = ModelBuilder((3, 6, 6), opset=13)
    scale = np.full(4, 0.003, np.float32)
    y = b.op("Conv", "x", weights(b, stored_weights(4, 3, 3, 3), scale, axis=0))
    y = b.op("Relu", b.batch_norm(y))
    found = check(b.model(b.conv(y, 2, 1)), tmp_path)
    np.testing.assert_array_equal(
        np.abs(stored_weights(4, 3, 3, 3)), np.abs(stored(found.graph.layers[0]))
    )


def test_the_float_twin_has_no_pairs_left() -> None:
    """Those of weights stay: they are how the model says its constants."""
    model = network()
    plain = without_pairs(model)
    kinds = [node.op_type for node in plain.graph.node]
    assert "QuantizeLinear" not in kinds
    assert 2 == kinds.count("DequantizeLinear")
    assert len(model.graph.node) == len(kinds)
