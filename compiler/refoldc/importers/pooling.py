"""Max and average pools; global pools and spatial means are one window."""

from __future__ import annotations

from typing import Literal

from refoldc.errors import BadModel
from refoldc.importers.builder import Builder, OnnxNode, Value
from refoldc.importers.geometry import Window, window
from refoldc.importers.registry import operator
from refoldc.importers.reshape import flatten
from refoldc.ir import Pool


@operator("MaxPool")
def import_max_pool(builder: Builder, node: OnnxNode) -> None:
    """Padding never wins, so ceil_mode is padding at the end."""
    if any(node.outputs[1:]):
        raise node.refuse("returns indices", "refold computes the maxima only")
    value = builder.image(node)
    _emit(builder, node, value, "max", _window(node, value))


@operator("AveragePool")
def import_average_pool(builder: Builder, node: OnnxNode) -> None:
    """With or without the padding counted."""
    value = builder.image(node)
    include_pad = node.flag("count_include_pad")
    frame = _window(node, value)
    if include_pad and frame.covered(value.spatial) != frame.pads:
        raise node.refuse(
            "combines ceil_mode with count_include_pad, and a window passes the edge",
            "choose sizes that divide, or export with ceil_mode=False",
        )
    _emit(builder, node, value, "average", frame, include_pad)


@operator("GlobalAveragePool")
def import_global_average_pool(builder: Builder, node: OnnxNode) -> None:
    """The mean over height and width."""
    value = builder.image(node)
    _emit(builder, node, value, "average", _whole(value))


@operator("GlobalMaxPool")
def import_global_max_pool(builder: Builder, node: OnnxNode) -> None:
    """The maximum over height and width."""
    value = builder.image(node)
    _emit(builder, node, value, "max", _whole(value))


@operator("ReduceMean")
def import_reduce_mean(builder: Builder, node: OnnxNode) -> None:
    """Over height and width, with or without those axes kept."""
    value = builder.image(node)
    axes = node.attributes.get("axes")
    if axes is None:
        given = builder.constant(node, 1, "axes")
        axes = [] if given is None else given.reshape(-1)
    if sorted(int(a) % 4 for a in axes) != [2, 3]:
        raise node.refuse(
            f"averages over axes {[int(a) for a in axes]}",
            "refold compiles means over height and width (axes 2 and 3)",
        )
    _emit(builder, node, value, "average", _whole(value))
    if not node.flag("keepdims", default=True):
        flatten(builder, node, builder.values[node.outputs[0]])


def _window(node: OnnxNode, value: Value) -> Window:
    frame = window(node, value.spatial)
    if frame.dilation != (1, 1):
        raise node.refuse(
            f"is dilated by {list(frame.dilation)}", "refold compiles undilated pools"
        )
    before, after = frame.pads[:2], frame.pads[2:]
    if any(p >= k for p, k in zip(before + after, frame.kernel * 2, strict=True)):
        raise BadModel(
            f"{node.where}: pads {list(frame.pads)} must be smaller than the kernel "
            f"{list(frame.kernel)}"
        )
    return frame


def _whole(value: Value) -> Window:
    return Window(value.spatial, (1, 1), (1, 1), (0, 0, 0, 0))


def _emit(
    builder: Builder,
    node: OnnxNode,
    value: Value,
    kind: Literal["max", "average"],
    frame: Window,
    include_pad: bool = False,
) -> None:
    height, width = frame.output(value.spatial)
    pool = Pool(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
        kind=kind,
        kernel=frame.kernel,
        stride=frame.stride,
        pads=frame.covered(value.spatial),
        include_pad=include_pad,
    )
    builder.emit(pool, node.outputs[0], (value.dims[0], height, width))
