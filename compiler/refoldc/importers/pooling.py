"""Max and average pools; global pools and spatial means are one window."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from refoldc.errors import BadModel
from refoldc.formula import Call, X, constant
from refoldc.importers.builder import Builder
from refoldc.importers.geometry import Window, window
from refoldc.importers.pointwise import apply
from refoldc.importers.registry import operator
from refoldc.importers.values import CHANNELS, NO_PADS, VECTOR, OnnxNode, Value
from refoldc.ir import Pads, Pool


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
    # What a window of ceil_mode covers beyond the pads never counts.
    pads = frame.pads if include_pad else None
    _emit(builder, node, value, "average", frame, include_pad, pads)


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


@operator("ReduceMean", "ReduceMax", "ReduceSum")
def import_reduce(builder: Builder, node: OnnxNode) -> None:
    """Over one or two axes, with or without those axes kept."""
    value = builder.value(node)
    dims = _reduced(builder, node, value)
    value = _off_channels(builder, node, value, dims)
    stored = {value.layout[d] for d in dims if value.dims[d] > 1}
    height, width = (n if i in stored else 1 for i, n in enumerate(value.spatial))
    frame = Window((height, width), (1, 1), (1, 1), NO_PADS)
    kind: Literal["max", "average"] = "max" if node.op == "ReduceMax" else "average"
    source = node
    if node.op == "ReduceSum":
        source = replace(node, outputs=(f"{node.outputs[0]}:mean",))
    _emit(builder, source, value, kind, frame)
    if node.op == "ReduceSum":
        mean = replace(node, inputs=source.outputs)
        apply(builder, mean, Call("Mul", (X, constant(height * width))))
    if not node.flag("keepdims", default=True):
        made = builder.values[node.outputs[0]]
        kept = [i for i in range(len(made.dims)) if i not in dims]
        left = tuple(made.dims[i] for i in kept)
        axes_left = tuple(made.layout[i] for i in kept)
        builder.alias(node, replace(made, dims=left, axes=axes_left))


def _reduced(builder: Builder, node: OnnxNode, value: Value) -> set[int]:
    """Which of ``value.dims``: an attribute in older opsets, then an input."""
    axes = node.attributes.get("axes")
    if axes is None:
        given = builder.constant(node, 1, "axes")
        axes = [] if given is None else given.reshape(-1)
    dims = {int(a) % (len(value.dims) + 1) - 1 for a in axes}
    longer = [d for d, n in enumerate(value.dims) if n > 1]
    if -1 in dims or not dims or value.layout == VECTOR or dims.issuperset(longer):
        raise node.refuse(
            f"reduces the axes {[int(a) for a in axes]} of {['N', *value.dims]}",
            "refold keeps the batch and at least one axis: reduce fewer",
        )
    return dims


def _off_channels(
    builder: Builder, node: OnnxNode, value: Value, dims: set[int]
) -> Value:
    """``value`` so that what is reduced is not stored as channels."""
    stored = {value.layout[d] for d in dims if value.dims[d] > 1}
    if CHANNELS not in stored:
        return value
    kept = max(set(range(len(value.dims))) - dims, key=lambda d: value.dims[d])
    others = iter((0, 1) if len(value.dims) > 2 else (1,))
    axes = tuple(
        CHANNELS if d == kept else next(others) for d in range(len(value.dims))
    )
    return builder.settled(value, (axes,))


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
    pads: Pads | None = None,
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
        pads=pads or frame.covered(value.spatial),
        include_pad=include_pad,
    )
    dims = value.like(value.channels, (height, width))
    builder.emit(pool, node.outputs[0], dims, axes=value.axes)
