"""What exporters write beyond plain chains: C, int8 network and export agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from agreement import check
from models import ModelBuilder
from onnx import helper

from refoldc.errors import UnsupportedOp
from refoldc.fold import fold
from refoldc.importer import import_proto
from refoldc.ir import Conv, Graph, Pick
from refoldc.ports import Output
from refoldc.sites import site_nodes
from refoldc.verify_import import TOLERANCE, verify_import

CLOSE, EXPORT = 0.06, 0.02
"""Of the largest output: int8 against ONNX Runtime, and against the QDQ export."""

Build = Callable[[ModelBuilder], list[str]]


def integers(b: ModelBuilder, *values: int) -> str:
    """An int64 initializer."""
    return b.const(values, np.int64)


def deconvolutions(b: ModelBuilder) -> list[str]:
    """Overlapping, grouped and dilated, with BatchNorm and output padding."""
    y = b.op("ConvTranspose", b.conv("x", 4), b.random(4, 6, 2, 2), strides=[2, 2])
    y = b.op("Relu", b.batch_norm(y))
    weights, bias = b.random(6, 2, 3, 3), b.random(4)
    attributes = {"strides": [2, 1], "pads": [1, 0, 1, 2], "output_padding": [1, 0]}
    y = b.op("ConvTranspose", y, weights, bias, group=2, **attributes)
    weights = b.random(4, 3, 2, 3)
    return [b.op("ConvTranspose", y, weights, dilations=[2, 1], pads=[3, 3, 3, 3])]


def deconvolved_signal(b: ModelBuilder) -> list[str]:
    """One dimension, padded to a multiple of the stride."""
    y = b.op("Conv", "x", b.random(4, 3, 3), pads=[1, 1])
    weights = b.random(4, 5, 3)
    return [b.op("ConvTranspose", y, weights, strides=[2], auto_pad="SAME_UPPER")]


def sequence(b: ModelBuilder) -> list[str]:
    """Products by constants from both sides, with a bias for each position."""
    y = b.op("Transpose", b.op("Conv", "x", b.random(6, 3, 3)), perm=[0, 2, 1])
    y = b.op("Add", b.op("MatMul", y, b.random(6, 4)), b.random(4))
    y = b.op("Relu", b.op("Add", y, b.random(1, 8, 4)))
    return [b.op("MatMul", b.random(5, 8), y)]


def shuffled(b: ModelBuilder) -> list[str]:
    """ShuffleNet's channels, then ESPCN's pixels."""
    y = b.op("Reshape", b.conv("x", 8), integers(b, 0, 2, 4, 4, 5))
    y = b.op("Transpose", y, perm=[0, 2, 1, 3, 4])
    y = b.conv(b.op("Reshape", y, integers(b, 0, 8, 4, 5)), 8, 1, groups=4)
    y = b.op("DepthToSpace", y, blocksize=2, mode="CRD")
    return [b.op("SpaceToDepth", b.op("DepthToSpace", y, blocksize=1), blocksize=2)]


def attention(b: ModelBuilder) -> list[str]:
    """ECA: a signal of channels gates an image; CBAM: maps over channels do."""
    x = b.op("Relu", b.conv("x", 6))
    pooled = b.op("GlobalAveragePool", x)
    y = b.op("Transpose", b.op("Squeeze", pooled, integers(b, 3)), perm=[0, 2, 1])
    y = b.op("Conv", y, b.random(1, 1, 3), pads=[1, 1])
    y = b.op("Unsqueeze", b.op("Transpose", y, perm=[0, 2, 1]), integers(b, 3))
    x = b.op("Mul", x, b.op("Expand", b.op("Sigmoid", y), integers(b, 1, 6, 4, 5)))
    maps = [
        b.op("ReduceMean", x, axes=[1], keepdims=1),
        b.op("ReduceMax", x, axes=[1], keepdims=1),
    ]
    gate = b.op("Sigmoid", b.conv(b.op("Concat", *maps, axis=1), 1, pads=[1] * 4))
    return [b.op("Mul", x, gate)]


def layouts(b: ModelBuilder) -> list[str]:
    """A tensor plus itself transposed, joined, and convolved channels-last."""
    x = b.conv("x", 4)
    moved = b.op("Transpose", x, perm=[0, 1, 3, 2])
    y = b.op("Add", x, moved)
    y = b.op("Concat", y, b.op("Transpose", y, perm=[0, 2, 1, 3]), axis=1)
    y = b.op("Transpose", y, perm=[0, 2, 3, 1])
    return [b.op("Conv", y, b.random(2, 4, 1, 1))]


def constants(b: ModelBuilder) -> list[str]:
    """Operands of every shape that broadcasts, several of them, and repeats."""
    x = b.conv("x", 4)
    y = b.op("Mul", x, b.random(1, 4, 4, 5))
    y = b.op("Sub", b.random(5), b.op("Sum", x, y, b.random(4, 1)))
    y = b.op("Div", y, b.const(np.full((4, 4, 1), 2), np.float32))
    row = b.op("ReduceSum", y, integers(b, 2), keepdims=1)
    y = b.op("Mul", b.op("Tile", row, integers(b, 1, 1, 4, 1)), y)
    column = b.op("ReduceMax", x, axes=[3])
    return [b.op("Add", y, b.op("Mul", row, column))]


def two_heads(b: ModelBuilder) -> list[str]:
    """A detector: scores per anchor, boxes by priors, and the classes as logits."""
    x = b.op("Relu", b.conv("x", 8))
    scores = b.op("Transpose", b.conv(x, 6, 1), perm=[0, 2, 3, 1])
    scores = b.op("Softmax", b.op("Reshape", scores, integers(b, 0, -1, 3)), axis=2)
    boxes = b.op("Transpose", b.conv(x, 4, 1), perm=[0, 2, 3, 1])
    boxes = b.op("Reshape", boxes, integers(b, 0, -1, 2))
    boxes = b.op("Add", b.op("Mul", boxes, b.random(1, 40, 2)), b.random(1, 40, 2))
    logits = b.gemm(b.op("Flatten", b.op("GlobalMaxPool", x)), 7)
    return [scores, boxes, b.op("LogSoftmax", logits, axis=1), x]


CASES: dict[str, tuple[tuple[int, ...], Build]] = {
    "deconvolutions": ((3, 6, 5), deconvolutions),
    "deconvolved signal": ((3, 9), deconvolved_signal),
    "sequence": ((3, 10), sequence),
    "shuffled": ((3, 6, 7), shuffled),
    "attention": ((3, 6, 7), attention),
    "layouts": ((3, 6, 6), layouts),
    "constants": ((3, 6, 7), constants),
    "two heads": ((3, 6, 7), two_heads),
}


def with_outputs(b: ModelBuilder, names: list[str]) -> onnx.ModelProto:
    """The model that ends at several tensors."""
    model = b.model(names[0])
    del model.graph.output[:]
    for name in names:
        choice = name.startswith("argmax")
        kind = onnx.TensorProto.INT64 if choice else onnx.TensorProto.FLOAT
        model.graph.output.append(helper.make_tensor_value_info(name, kind, None))
    return model


@pytest.mark.parametrize("name", CASES)
def test_agreement(name: str, tmp_path: Path) -> None:
    """C equals the reference; int8 and export are near ONNX Runtime."""
    shape, build = CASES[name]
    b = ModelBuilder(shape, opset=13)
    found = check(with_outputs(b, build(b)), tmp_path)
    assert found.int8 <= CLOSE
    assert found.exported <= EXPORT


def two_inputs() -> onnx.ModelProto:
    """An image and a vector, joined before the classes."""
    b = ModelBuilder((3, 6, 6), opset=13)
    pooled = b.op("GlobalAveragePool", b.op("Relu", b.batch_norm(b.conv("x", 5))))
    y = b.op("Concat", b.op("Flatten", pooled), "v", axis=1)
    y = b.op("Gemm", y, b.random(12, 4))
    model = b.model(y)
    vector = helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, ["N", 7])
    model.graph.input.append(vector)
    return model


def test_two_inputs(tmp_path: Path) -> None:
    """Both reach the device, each at a multiple of 16 bytes."""
    found = check(two_inputs(), tmp_path)
    assert ["x", "v"] == [tensor.name for tensor in found.graph.inputs]
    assert (3 * 36 + 7,) == found.graph.sample_shape
    assert found.int8 <= CLOSE
    assert found.exported <= EXPORT


def imported(build: Build, shape: tuple[int, ...] = (3, 6, 6)) -> Graph:
    """Folded, and equal to the original as floats."""
    b = ModelBuilder(shape, opset=13)
    model = with_outputs(b, build(b))
    graph = fold(import_proto(model, "net"))
    assert verify_import(model, graph) <= TOLERANCE
    return graph


def test_arg_max_leaves_the_scores() -> None:
    """Along the classes of a vector and of a map, axis kept or not."""

    def build(b: ModelBuilder) -> list[str]:
        x = b.conv("x", 4)
        logits = b.gemm(b.op("Flatten", b.op("GlobalAveragePool", x)), 5)
        return [b.op("ArgMax", logits, axis=1, keepdims=0), b.op("ArgMax", x, axis=1)]

    graph = imported(build)
    vector, image = graph.outputs
    assert Output("gemm3", "argmax4", (0,), "ArgMax") == vector
    assert ("ArgMax", 2) == (image.ending, image.ending_axis)
    assert (5,) == graph.shapes[graph.output]


def test_last_of_equal_scores() -> None:
    """An ArgMax that prefers the last one contradicts the contract."""

    def build(b: ModelBuilder) -> list[str]:
        return [b.op("ArgMax", b.conv("x", 4), axis=1, select_last_index=1)]

    with pytest.raises(UnsupportedOp, match="prefers the last"):
        imported(build)


def test_an_output_that_is_the_input() -> None:
    """A second output that nothing computes is named."""

    def build(b: ModelBuilder) -> list[str]:
        return [b.conv("x", 4), b.op("Identity", "x")]

    with pytest.raises(UnsupportedOp, match="output 'identity1' is the input 'x'"):
        imported(build)


def test_layers_that_feed_any_output_are_no_sites() -> None:
    """Normalising what an output shows would normalise its answer away."""

    def build(b: ModelBuilder) -> list[str]:
        first = b.op("Relu", b.batch_norm(b.conv("x", 4)))
        second = b.op("Relu", b.batch_norm(b.conv(first, 4)))
        return [b.conv(second, 2, 1), second]

    graph = imported(build)
    assert ["/conv0"] == [node.name for node in site_nodes(graph)]


def test_a_transposed_convolution_is_a_site() -> None:
    """Its BatchNorm is folded into the convolution behind the spread pixels."""

    def build(b: ModelBuilder) -> list[str]:
        y = b.op("ConvTranspose", "x", b.random(3, 4, 2, 2), strides=[2, 2])
        return [b.conv(b.op("Relu", b.batch_norm(y)), 2)]

    graph = imported(build)
    spread, conv = graph.nodes[:2]
    assert isinstance(spread, Pick)
    assert isinstance(conv, Conv)
    assert conv.bn is not None


def test_views_cost_nothing_where_axes_describe_them() -> None:
    """Reshapes to and fro, through five axes, leave no layer behind."""

    def build(b: ModelBuilder) -> list[str]:
        y = b.op("Reshape", b.conv("x", 8), integers(b, 0, 2, 4, 2, 8))
        for _ in range(2):
            y = b.op("Transpose", y, perm=[0, 2, 1, 4, 3])
        return [b.conv(b.op("Reshape", y, integers(b, 0, 8, 4, 4)), 2)]

    assert ["Conv", "Conv"] == [type(node).__name__ for node in imported(build).nodes]
