"""Concat, Split, Slice, Pad, Gather, Resize, and sums that broadcast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from agreement import check
from models import ModelBuilder

from refoldc.errors import UnsupportedOp
from refoldc.fold import fold
from refoldc.importer import import_proto
from refoldc.ir import Concat, Conv, QConcat
from refoldc.onnx_pick import pick_nodes
from refoldc.verify_import import verify_import

CLOSE = 0.04
EXPORT = 0.012
"""As for element-wise operators."""

Build = Callable[[ModelBuilder], str]


def integers(b: ModelBuilder, *values: int) -> str:
    """An int64 initializer."""
    return b.const(list(values), np.int64)


def wide_and_narrow(b: ModelBuilder, axis: int = 1) -> str:
    """Three tensors whose ranges differ."""
    parts = b.conv("x", 5), b.op("Sigmoid", b.conv("x", 5)), b.conv("x", 5)
    return b.op("Concat", *parts, axis=axis)


def vectors(b: ModelBuilder) -> str:
    """A flattened image beside a pooled one, into a matrix product."""
    x = b.conv("x", 5)
    pooled = b.op("Flatten", b.op("GlobalAveragePool", x))
    return b.gemm(b.op("Concat", b.op("Flatten", x), pooled, axis=-1), 3)


def many(b: ModelBuilder) -> str:
    """More tensors than one layer joins."""
    parts = [b.conv("x", n) for n in (1, 2, 3, 1, 2, 3, 1, 2)]
    return b.conv(b.op("Concat", *parts, axis=1), 3)


def sliced(b: ModelBuilder) -> str:
    """Every axis, forwards, by steps and backwards."""
    starts, ends = integers(b, 1, 0, -1), integers(b, 4, 5, -100)
    axes, steps = integers(b, 1, 2, 3), integers(b, 1, 2, -1)
    return b.op("Slice", b.conv("x", 5), starts, ends, axes, steps)


def split(b: ModelBuilder) -> str:
    """Two halves, one through an activation."""
    first, second = "first", "second"
    node = onnx.helper.make_node(
        "Split", [b.conv("x", 6)], [first, second], axis=1, num_outputs=2
    )
    b.nodes.append(node)
    return b.op("Add", first, b.op("Relu", second))


def gathered(b: ModelBuilder) -> str:
    """A permutation of some channels."""
    return b.op("Gather", b.conv("x", 5), integers(b, 3, 1, -1), axis=1)


def padded(mode: str) -> Build:
    """Padding that no convolution can take."""

    def build(b: ModelBuilder) -> str:
        pads = integers(b, 0, 0, 1, 2, 0, 0, 1, 0)
        return b.op(
            "MaxPool", b.op("Pad", b.conv("x", 5), pads, mode=mode), kernel_shape=[2, 2]
        )

    return build


def padded_channels(b: ModelBuilder) -> str:
    """New channels of a given value, and rows cut off."""
    pads = integers(b, 0, 2, -1, 0, 0, 1, 0, 1)
    return b.op("Pad", b.conv("x", 5), pads, b.const(0.5, np.float32))


def padded_output(b: ModelBuilder) -> str:
    """Zero padding with nothing behind it."""
    return b.op("Pad", b.conv("x", 5), integers(b, 0, 0, 1, 1, 0, 0, 1, 1))


def flattened_output(b: ModelBuilder) -> str:
    """In ONNX's order, although the device holds channels last."""
    return b.op("Flatten", b.conv("x", 5))


def sum_with_channels(b: ModelBuilder) -> str:
    """One number a channel, computed."""
    x = b.conv("x", 5)
    return b.op("Add", b.op("GlobalAveragePool", x), x)


def difference_with_positions(b: ModelBuilder) -> str:
    """One number a position."""
    return b.op("Sub", b.conv("x", 1), b.conv("x", 5))


BUILDS: dict[str, Build] = {
    "concat channels": wide_and_narrow,
    "concat rows": lambda b: wide_and_narrow(b, 2),
    "concat columns": lambda b: wide_and_narrow(b, -1),
    "concat vectors": vectors,
    "concat many": many,
    "slice": sliced,
    "split": split,
    "gather": gathered,
    "pad constant": padded("constant"),
    "pad reflect": padded("reflect"),
    "pad edge": padded("edge"),
    "pad wrap": padded("wrap"),
    "pad channels": padded_channels,
    "pad output": padded_output,
    "flattened output": flattened_output,
    "add channels": sum_with_channels,
    "subtract positions": difference_with_positions,
}


@pytest.mark.parametrize("name", BUILDS)
def test_agreement(name: str, tmp_path: Path) -> None:
    """C equals the reference; int8 and export are near ONNX Runtime."""
    b = ModelBuilder((4, 7, 6), opset=20)
    found = check(b.model(BUILDS[name](b)), tmp_path)
    assert found.int8 <= CLOSE
    assert found.exported <= EXPORT


def test_equal_scales_are_joined_without_rounding(tmp_path: Path) -> None:
    """A tensor beside itself keeps every stored value."""
    b = ModelBuilder((4, 7, 6))
    x = b.conv("x", 5)
    found = check(b.model(b.op("Concat", x, x, axis=1)), tmp_path)
    layer = found.graph.layers[-1]
    assert isinstance(layer, QConcat)
    values = np.arange(-128, 128)
    for part in layer.parts:
        np.testing.assert_array_equal(
            values, (values * part.m + part.bias) >> part.shift
        )


def test_many_tensors_are_joined_in_groups() -> None:
    """No layer joins more than four."""
    b = ModelBuilder((4, 7, 6))
    graph = fold(import_proto(b.model(many(b)), "net"))
    joined = [len(n.inputs) for n in graph.nodes if isinstance(n, Concat)]
    assert [4, 4, 2] == joined


def test_padding_before_a_convolution_stays_free() -> None:
    """Zero padding moves into the convolution, other padding does not."""
    b = ModelBuilder((4, 7, 6))
    pads = integers(b, 0, 0, 1, 2, 0, 0, 1, 0)
    graph = fold(import_proto(b.model(b.conv(b.op("Pad", "x", pads), 3)), "net"))
    (conv,) = graph.nodes
    assert isinstance(conv, Conv)
    assert (1, 2, 1, 0) == conv.pads


def test_padding_outside_the_range_is_refused(tmp_path: Path) -> None:
    """The value and the range are named."""
    b = ModelBuilder((4, 7, 6))
    pads = integers(b, 0, 0, 1, 1, 0, 0, 1, 1)
    y = b.op("Pad", b.op("Sigmoid", "x"), pads, b.const(-9.0, np.float32))
    with pytest.raises(UnsupportedOp, match="pads with -9, outside the range"):
        check(b.model(b.conv(y, 2)), tmp_path)


@pytest.mark.parametrize(
    "where", ["asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel"]
)
@pytest.mark.parametrize(
    "rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]
)
@pytest.mark.parametrize("size", [(10, 8), (9, 7), (3, 1)])
def test_resize(where: str, rounding: str, size: tuple[int, int]) -> None:
    """Every rule of nearest neighbour, up and down, equals ONNX Runtime."""
    b = ModelBuilder((2, 5, 4), opset=19)
    target = integers(b, 1, 2, *size)
    y = b.op(
        "Resize",
        *("x", "", "", target),
        coordinate_transformation_mode=where,
        nearest_mode=rounding,
    )
    model = b.model(y)
    assert verify_import(model, import_proto(model, "net")) == 0.0


@pytest.mark.parametrize("opset", [7, 9, 10, 13])
def test_upsampling_of_every_opset(opset: int) -> None:
    """Upsample by attribute and input, Resize with two and three inputs."""
    b = ModelBuilder((2, 5, 4), opset=opset)
    factors = [1.0, 1.0, 2.0, 3.0]
    if opset == 7:
        y = b.op("Upsample", "x", scales=factors)
    else:
        operands = ("", b.const(factors, np.float32))[opset < 11 :]
        y = b.op("Upsample" if opset == 9 else "Resize", "x", *operands)
    model = b.model(b.conv(y, 2))
    assert verify_import(model, import_proto(model, "net")) <= 1e-6


def test_bilinear_resize_is_refused() -> None:
    """With what is compiled instead."""
    b = ModelBuilder((2, 5, 4))
    y = b.op("Resize", "x", "", b.const([1, 1, 2, 2], np.float32), mode="linear")
    with pytest.raises(UnsupportedOp, match=r"'linear'.*nearest neighbour only"):
        import_proto(b.model(y), "net")


@pytest.mark.parametrize("opset", [11, 18, 20])
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize(
    ("kernel", "stride", "pads"),
    [
        ([3, 3], [2, 2], [0, 0, 0, 0]),
        ([3, 3], [2, 2], [1, 1, 1, 1]),
        ([2, 3], [3, 2], [1, 0, 1, 1]),
        ([3, 3], [3, 3], [1, 1, 0, 0]),
    ],
)
def test_ceil_mode_is_that_of_onnx_runtime(
    opset: int,
    kind: str,
    counted: int,
    kernel: list[int],
    stride: list[int],
    pads: list[int],
) -> None:
    """Sizes and divisors, whatever the window covers at the end."""
    b = ModelBuilder((3, 8, 9), opset=opset)
    extra = {"count_include_pad": counted} if kind == "AveragePool" else {}
    window = {"kernel_shape": kernel, "strides": stride, "pads": pads}
    model = b.model(b.op(kind, "x", ceil_mode=1, **window, **extra))
    assert verify_import(model, import_proto(model, "net")) <= 1e-6


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
def test_averages_in_ceil_mode(pads: list[int], tmp_path: Path) -> None:
    """C, reference and export agree on windows that pass the padding."""
    b = ModelBuilder((4, 8, 9), opset=20)
    window = {"kernel_shape": [3, 3], "strides": [3, 3], "pads": pads}
    y = b.op("AveragePool", b.conv("x", 5), ceil_mode=1, count_include_pad=1, **window)
    found = check(b.model(y), tmp_path)
    assert found.int8 <= CLOSE
    assert found.exported <= EXPORT


def test_nothing_to_pick_is_the_identity() -> None:
    """A pick of every position is one Identity."""
    nodes, constants = pick_nodes("a", "b", (np.arange(3),), (3,), 0.0)
    assert ["Identity"] == [node.op_type for node in nodes]
    assert not constants
