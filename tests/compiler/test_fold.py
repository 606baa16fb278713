"""Folding: exact targets recorded, nothing folded where it may not be."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from models import ModelBuilder, small_classifier
from onnx import numpy_helper

from refoldc.errors import BadModel, UnsupportedOp
from refoldc.fold import fold
from refoldc.fold_affine import LEAST_SIGMA
from refoldc.importer import import_proto
from refoldc.ir import BnShape, Bounds, Clamp, Conv, Dense, Graph, Pool
from refoldc.ports import Output
from refoldc.verify_import import TOLERANCE, verify_import


def folded(model: onnx.ModelProto) -> Graph:
    """Import and fold, compared with the original."""
    graph = fold(import_proto(model, "net"))
    assert verify_import(model, graph) <= TOLERANCE
    return graph


def convs(graph: Graph) -> list[Conv]:
    """Return the convolutions."""
    return [node for node in graph.nodes if isinstance(node, Conv)]


def shape_of(layer: Conv | Dense) -> BnShape:
    """Return what BatchNorm gave the layer."""
    assert layer.bn is not None
    return layer.bn


def parameters(model: onnx.ModelProto, name: str) -> dict[str, np.ndarray]:
    """Scale, bias, mean and variance of a BatchNormalization."""
    arrays = {w.name: numpy_helper.to_array(w) for w in model.graph.initializer}
    node = next(n for n in model.graph.node if n.output[0] == name)
    names = ("gamma", "beta", "mean", "variance")
    return {key: arrays[w] for key, w in zip(names, node.input[1:], strict=True)}


@pytest.mark.parametrize(("channels", "groups"), [(8, 1), (8, 2), (4, 4)])
def test_targets_are_exact(channels: int, groups: int) -> None:
    """Plain, grouped and depthwise: beta and |gamma| of the BatchNormalization."""
    b = ModelBuilder((4, 6, 6))
    norm = b.batch_norm(b.conv("x", channels, groups=groups))
    model = b.model(b.conv(b.op("Relu", norm), 2, 1))
    layer = convs(folded(model))[0]
    want = parameters(model, norm)
    np.testing.assert_array_equal(want["beta"].astype(np.float64), shape_of(layer).beta)
    np.testing.assert_array_equal(
        np.abs(want["gamma"]).astype(np.float64), shape_of(layer).sigma
    )
    assert "exact" == shape_of(layer).origin
    assert Bounds(0.0) == layer.bounds


def test_weights_are_folded_in_double_precision() -> None:
    """W' = W gamma / sqrt(var + eps), b' = beta + (b - mean) gamma / sqrt(...)."""
    b = ModelBuilder((1, 1, 1))
    weights, bias = b.const([[[[2.0]]]], np.float32), b.const([3.0], np.float32)
    four = [b.const([v], np.float32) for v in (0.5, 7.0, 1.0, 3.75)]
    conv = b.op("Conv", "x", weights, bias)
    norm = b.op("BatchNormalization", conv, *four, epsilon=0.25)
    layer = convs(folded(b.model(b.conv(norm, 1, 1))))[0]
    assert 2.0 * 0.5 / 2.0 == layer.weights.item()
    assert 7.0 + (3.0 - 1.0) * 0.5 / 2.0 == layer.bias.item()


def test_a_dead_channel_keeps_a_least_deviation() -> None:
    """gamma = 0 gives zero weights and a deviation that is not zero."""
    b = ModelBuilder((1, 3, 3))
    four = [b.const([v], np.float32) for v in (0.0, 7.0, 1.0, 2.0)]
    norm = b.op("BatchNormalization", b.conv("x", 1), *four)
    layer = convs(folded(b.model(b.conv(norm, 1, 1))))[0]
    assert LEAST_SIGMA == shape_of(layer).sigma.item()
    assert not layer.weights.any()
    assert 7.0 == layer.bias.item()


def test_gemm_takes_its_batch_norm() -> None:
    """The moments are recorded there too."""
    b = ModelBuilder((5,))
    norm = b.batch_norm(b.gemm("x", 4))
    graph = folded(b.model(b.gemm(b.op("Relu", norm), 3)))
    assert [Dense, Dense] == [type(node) for node in graph.nodes]
    first = graph.nodes[0]
    assert isinstance(first, Dense)
    assert "exact" == shape_of(first).origin


def test_shared_weights_are_folded_apart() -> None:
    """Two convolutions on one tensor each get their own copy."""
    b = ModelBuilder((2, 5, 5))
    weights = b.random(2, 2, 1, 1)
    first = b.batch_norm(b.op("Conv", "x", weights))
    second = b.batch_norm(b.op("Conv", first, weights))
    graph = folded(b.model(b.conv(second, 2, 1)))
    one, two = convs(graph)[:2]
    assert not np.array_equal(one.weights, two.weights)


def test_several_readers_of_a_convolution() -> None:
    """The plain output stays; the BatchNorm gets a convolution of its own."""
    b = ModelBuilder((4, 5, 5))
    plain = b.conv("x", 4, 1)
    total = b.op("Add", b.batch_norm(plain), plain)
    graph = folded(b.model(b.conv(total, 2, 1)))
    assert [False, True, False] == [conv.bn is not None for conv in convs(graph)]


@pytest.mark.parametrize("before", ["Relu", "GlobalAveragePool"])
def test_batch_norm_behind_no_convolution(before: str) -> None:
    """It becomes a scale and offset per channel, no site, and the user is told."""
    b = ModelBuilder((4, 5, 5))
    norm = b.batch_norm(b.op(before, b.conv("x", 4)))
    graph = folded(b.model(b.conv(norm, 2, 1, pads=[1, 1, 1, 1])))
    affine = convs(graph)[1]
    assert affine.depthwise
    assert (4, 1, 1, 1) == affine.weights.shape
    assert not any(conv.bn or conv.estimate for conv in convs(graph))
    assert 1 == len(graph.notices)
    assert "no recalibration site" in graph.notices[0]


def test_batch_norm_between_dense_layers() -> None:
    """Behind an activation it goes forward into the product, which has no padding."""
    b = ModelBuilder((2, 3, 3))
    hidden = b.op("Relu", b.gemm(b.op("Flatten", "x"), 6))
    graph = folded(b.model(b.gemm(b.batch_norm(hidden), 3)))
    assert [Dense, Dense] == [type(node) for node in graph.nodes]


def test_batch_norm_on_a_vector_nobody_can_take() -> None:
    """It is refused by name."""
    b = ModelBuilder((6,))
    model = b.model(b.batch_norm(b.op("Relu", b.gemm("x", 4))))
    with pytest.raises(UnsupportedOp, match="normalises a vector"):
        fold(import_proto(model, "net"))


def test_overflow_is_refused() -> None:
    """A variance of almost nothing does not become infinite weights."""
    b = ModelBuilder((1, 3, 3))
    four = [b.const([v], np.float32) for v in (3e38, 0.0, 0.0, 1e-30)]
    norm = b.op("BatchNormalization", b.conv("x", 1), *four, epsilon=0.0)
    with pytest.raises(BadModel, match="become NaN or infinite"):
        fold(import_proto(b.model(norm), "net"))


def test_activations_compose() -> None:
    """ReLU and a clip on it become one pair of bounds."""
    b = ModelBuilder((1, 3, 3))
    y = b.clip(b.op("Relu", b.conv("x", 2)), 0.0, 6.0)
    (conv,) = folded(b.model(y)).nodes
    assert isinstance(conv, Conv)
    assert Bounds(0.0, 6.0) == conv.bounds


def test_an_activation_with_another_reader_stays_apart() -> None:
    """A convolution whose plain output is needed keeps it."""
    b = ModelBuilder((1, 3, 3))
    conv = b.conv("x", 2)
    graph = folded(b.model(b.op("Add", b.op("Relu", conv), conv)))
    assert Clamp in {type(node) for node in graph.nodes}


def test_names_are_those_of_the_last_node_merged() -> None:
    """A tensor of the folded graph can be looked up in the original."""
    b = ModelBuilder((1, 3, 3))
    last = b.op("Relu", b.batch_norm(b.conv("x", 2)))
    (conv,) = folded(b.model(last)).nodes
    assert last == conv.output
    assert ("/conv0", "/batchnormalization1", "/relu2") == conv.onnx_nodes


def test_softmax_is_left_to_the_reports() -> None:
    """The graph ends in the logits and remembers the Softmax."""
    b = ModelBuilder((4,))
    logits = b.gemm("x", 3)
    graph = folded(b.model(b.op("Softmax", logits, axis=1)))
    assert Output(logits, "softmax1", (0,), "Softmax") == graph.main


def test_without_batch_norm_sites_are_estimated() -> None:
    """Convolutions with an activation, also behind a sum, and a notice."""
    graph = folded(small_classifier(batch_norm=False))
    assert [True, True] == [conv.estimate for conv in convs(graph)]
    assert "TrainingMode.PRESERVE" in graph.notices[0]


def test_the_last_convolution_is_no_site() -> None:
    """What becomes the output, also through a pool, is never estimated."""
    b = ModelBuilder((1, 6, 6))
    hidden = b.op("Relu", b.conv("x", 4))
    classes = b.op("Relu", b.conv(hidden, 3))
    graph = folded(b.model(b.op("GlobalAveragePool", classes)))
    assert [True, False] == [conv.estimate for conv in convs(graph)]
    assert isinstance(graph.nodes[-1], Pool)


@pytest.mark.parametrize("kind", ["Identity", "Dropout"])
def test_targets_stay_exact_through_what_computes_nothing(kind: str) -> None:
    """Before and behind the BatchNormalization, and before its activation."""
    b = ModelBuilder((4, 6, 6))
    norm = b.batch_norm(b.op(kind, b.conv("x", 8)))
    model = b.model(b.conv(b.op("Relu", b.op(kind, norm)), 2, 1))
    layer = convs(folded(model))[0]
    want = parameters(model, norm)
    assert "exact" == shape_of(layer).origin
    np.testing.assert_array_equal(want["beta"].astype(np.float64), shape_of(layer).beta)
    assert Bounds(0.0) == layer.bounds


def test_targets_stay_exact_through_a_dropout_that_names_its_mask() -> None:
    """Old exporters name the mask, which nothing reads; that is no training."""
    b = ModelBuilder((4, 6, 6), opset=11)
    dropped = b.op("Dropout", b.conv("x", 8))
    b.nodes[-1].output.append("mask")
    layer = convs(folded(b.model(b.conv(b.batch_norm(dropped), 2, 1))))[0]
    assert "exact" == shape_of(layer).origin
