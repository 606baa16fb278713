"""Window sizes: those of ONNX Runtime, ceil_mode included."""

from __future__ import annotations

import onnx
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from models import ModelBuilder

from refoldc.importers.builder import OnnxNode
from refoldc.importers.geometry import window

SIZES = st.tuples(st.integers(1, 9), st.integers(1, 9))
KERNELS = st.tuples(st.integers(1, 4), st.integers(1, 4))


@settings(max_examples=100, deadline=None)
@given(size=SIZES, kernel=KERNELS, stride=KERNELS, data=st.data())
def test_output_size_is_that_of_onnx_runtime(
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    data: st.DataObject,
) -> None:
    """Pools of any size give as many steps as ONNX Runtime takes."""
    pads = [data.draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4)]
    reach = [size[i] + pads[i] + pads[i + 2] - kernel[i] for i in (0, 1)]
    assume(min(reach) >= 0)
    b = ModelBuilder((1, *size))
    output = b.op(
        "MaxPool",
        "x",
        kernel_shape=kernel,
        strides=stride,
        pads=pads,
        ceil_mode=data.draw(st.integers(0, 1)),
    )
    frame = window(OnnxNode.unpack(b.nodes[0]), size)
    assert b.dims(output)[1:] == frame.output(size)


def test_covered_reaches_the_last_window() -> None:
    """ceil_mode becomes padding at the end, never at the start."""
    node = onnx.helper.make_node(
        "MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1
    )
    frame = window(OnnxNode.unpack(node), (6, 7))
    assert (3, 3) == frame.output((6, 7))
    assert (0, 0, 1, 0) == frame.covered((6, 7))
