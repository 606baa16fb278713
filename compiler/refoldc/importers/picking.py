"""Operators that move elements: Pad, Slice, Split, Gather and Resize.

Each is, axis by axis, a list of positions to read, where -1 stands for padding.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.errors import BadModel
from refoldc.importers.builder import Builder
from refoldc.importers.registry import operator
from refoldc.importers.values import OnnxNode, Value
from refoldc.ir import I64

PADDING = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
"""ONNX pad modes by their name in NumPy."""


@operator("Pad")
def import_pad(builder: Builder, node: OnnxNode) -> None:
    """Zero padding of height and width is left to a convolution behind it."""
    mode = node.attributes.get("mode", "constant")
    fill = _pad_value(builder, node)
    value = builder.padded_value(node)
    before, after = _pad_amounts(builder, node, value)
    sides = (*before, *after)
    if mode == "constant" and not fill and min(sides) >= 0 and value.is_image:
        top, left, bottom, right = value.pads
        above, below = ((0, *side[1:])[-2:] for side in (before, after))
        if not (before[0] or after[0]):
            pads = top + above[0], left + above[1], bottom + below[0], right + below[1]
            builder.alias(node, builder.with_pads(value, pads, node.name))
            return
    value = builder.value(node)
    index = {
        axis: _padded(mode, size, before[axis], after[axis], node)
        for axis, size in enumerate(value.dims)
        if before[axis] or after[axis]
    }
    builder.pick(node, value, index, fill=fill)


def _padded(mode: str, size: int, before: int, after: int, node: OnnxNode) -> I64:
    here = np.arange(max(0, -before), size - max(0, -after))
    width = max(0, before), max(0, after)
    if mode == "constant":
        return np.pad(here, width, constant_values=-1)
    if mode not in PADDING or (mode == "reflect" and max(width) >= size):
        raise node.refuse(f"pads {width} with mode '{mode}'", "expected a smaller pad")
    return np.asarray(np.pad(here, width, mode=PADDING[mode]))  # type: ignore[call-overload]


def _pad_value(builder: Builder, node: OnnxNode) -> float:
    if builder.opset < 11:
        return float(node.attributes.get("value", 0.0))
    fill = builder.constant(node, 2, "padding value")
    return 0.0 if fill is None or not fill.size else float(fill.reshape(-1)[0])


def _pad_amounts(
    builder: Builder, node: OnnxNode, value: Value
) -> tuple[list[int], list[int]]:
    """Elements before and after, for each axis but the batch; negative ones crop."""
    rank = len(value.dims) + 1
    pads = _integers(builder, node, 1, "pads", attribute=builder.opset < 11) or []
    axes = _integers(builder, node, 3, "axes")
    which = list(range(rank)) if axes is None else [a % rank for a in axes]
    if len(pads) != 2 * len(which):
        raise BadModel(f"{node.where}: {len(pads)} pads for {len(which)} axes")
    before, after = [0] * rank, [0] * rank
    for axis, first, last in zip(which, pads, pads[len(which) :], strict=False):
        before[axis], after[axis] = first, last
    if before[0] or after[0]:
        raise node.refuse(f"its pads are {pads}", "refold keeps the batch apart")
    return before[1:], after[1:]


@operator("Slice")
def import_slice(builder: Builder, node: OnnxNode) -> None:
    """Any axes but the batch, any step."""
    value = builder.without_pads(builder.view(node))
    rank = len(value.dims) + 1
    old = builder.opset < 10
    starts = _integers(builder, node, 1, "starts", attribute=old) or []
    ends = _integers(builder, node, 2, "ends", attribute=old) or []
    axes = _integers(builder, node, 3, "axes", attribute=old)
    axes = list(range(len(starts))) if axes is None else [a % rank for a in axes]
    steps = None if old else _integers(builder, node, 4, "steps")
    steps = [1] * len(starts) if steps is None else steps
    index: dict[int, I64] = {}
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = (builder.batch, *value.dims)[axis]
        taken = np.arange(size)[_bounds(start, end, step, size)]
        if axis:
            index[axis - 1] = taken
        elif len(taken) != size:
            raise node.refuse("slices the batch", "refold keeps the batch apart")
    builder.pick(node, value, index)


def _bounds(start: int, end: int, step: int, size: int) -> slice:
    """ONNX's limits as Python's: going down, -size-1 means past the first."""
    if step < 0 and end <= -size - 1:
        return slice(start, None, step)
    return slice(start, end, step)


@operator("Split")
def import_split(builder: Builder, node: OnnxNode) -> None:
    """Each output is a range of one axis."""
    value = builder.without_pads(builder.view(node))
    axis = int(node.attributes.get("axis", 0)) % (len(value.dims) + 1)
    if axis == 0:
        raise node.refuse("splits the batch", "refold keeps the batch apart")
    size, parts = value.dims[axis - 1], len(node.outputs)
    sizes = _integers(builder, node, 1, "split", attribute=builder.opset < 13)
    if sizes is None:
        chunk = -(-size // parts)
        sizes = [chunk] * (parts - 1) + [size - chunk * (parts - 1)]
    if sum(sizes) != size or len(sizes) != parts:
        raise BadModel(f"{node.where}: cannot split {size} elements into {sizes}")
    first = 0
    for output, count in zip(node.outputs, sizes, strict=True):
        if output:
            part = np.arange(first, first + count)
            builder.pick(node, value, {axis - 1: part}, output=output)
        first += count


@operator("Gather")
def import_gather(builder: Builder, node: OnnxNode) -> None:
    """Positions known at compile time, along any axis but the batch."""
    value = builder.without_pads(builder.view(node))
    axis = int(node.attributes.get("axis", 0)) % (len(value.dims) + 1)
    positions = builder.constant(node, 1, "indices")
    if axis == 0 or positions is None or positions.ndim != 1:
        raise node.refuse(
            f"gathers along axis {axis}", "expected a list of positions in one axis"
        )
    size = value.dims[axis - 1]
    if positions.size and not -size <= positions.min() <= positions.max() < size:
        raise BadModel(f"{node.where}: reads outside an axis of {size} elements")
    builder.pick(node, value, {axis - 1: positions.astype(np.int64) % size})


# --- Resize ------------------------------------------------------------------


@operator("Resize", "Upsample")
def import_resize(builder: Builder, node: OnnxNode) -> None:
    """Nearest neighbour, by factors or to a size, as ONNX Runtime rounds."""
    value = builder.value(node)
    mode = node.attributes.get("mode", "nearest")
    if mode != "nearest" or node.attributes.get("axes") is not None:
        raise node.refuse(
            f"resizes with mode '{mode}'", "refold compiles nearest neighbour only"
        )
    sizes, scales = _target(builder, node, value)
    if (sizes[0], scales[0]) != (1, 1.0):
        raise node.refuse("resizes the batch", "refold keeps the batch apart")
    index = {
        axis: _nearest(node, value.dims[axis], sizes[axis + 1], scales[axis + 1])
        for axis in range(len(value.dims))
        if sizes[axis + 1] != value.dims[axis]
    }
    builder.pick(node, value, index)


def _target(
    builder: Builder, node: OnnxNode, value: Value
) -> tuple[list[int], list[float]]:
    """Size and factor of each axis, the batch included."""
    dims = (1, *value.dims)
    where = {7: 0, 9: 1, 10: 1}.get(builder.opset, 1 if builder.opset < 11 else 2)
    given: NDArray[Any] | list[float] | None
    if node.op == "Upsample" and builder.opset < 9:
        given = node.attributes.get("scales")
    else:
        given = builder.constant(node, where, "scales")
    sizes = _integers(builder, node, 3, "sizes")
    if given is not None and len(given) == len(dims):
        scales = [float(s) for s in given]
        return [int(d * s) for d, s in zip(dims, scales, strict=True)], scales
    if sizes is None or len(sizes) != len(dims):
        raise BadModel(f"{node.where}: needs scales or sizes for {len(dims)} axes")
    sizes = [1, *sizes[1:]] if sizes[0] == builder.batch else sizes
    return sizes, [n / d for n, d in zip(sizes, dims, strict=True)]


def _nearest(node: OnnxNode, size: int, out: int, scale: float) -> I64:
    """The input position that each output position takes."""
    modern = node.op == "Resize" and len(node.inputs) > 2
    default = "half_pixel" if modern else "asymmetric"
    where = node.attributes.get("coordinate_transformation_mode", default)
    x = np.arange(out, dtype=np.float64)
    if where == "asymmetric":
        x = x / scale
    elif where == "align_corners":
        x = x * (size - 1) / max(out - 1, 1)
    elif where == "half_pixel" or (where == "pytorch_half_pixel" and out > 1):
        x = (x + 0.5) / scale - 0.5
    elif where == "pytorch_half_pixel":
        x = np.zeros(1)
    else:
        raise node.refuse(
            f"has coordinates '{where}'", "expected asymmetric or half_pixel"
        )
    rounding = node.attributes.get(
        "nearest_mode", "round_prefer_floor" if modern else "floor"
    )
    rounded = {
        "floor": np.floor(x),
        "ceil": np.ceil(x),
        "round_prefer_floor": np.ceil(x - 0.5),
        "round_prefer_ceil": np.floor(x + 0.5),
    }[rounding]
    return np.clip(rounded, 0, size - 1).astype(np.int64)


def _integers(
    builder: Builder, node: OnnxNode, index: int, what: str, *, attribute: bool = False
) -> list[int] | None:
    """A list that older opsets give as an attribute, newer ones as an input."""
    if attribute:
        given = node.attributes.get(what)
    else:
        given = builder.constant(node, index, what)
    return None if given is None else [int(i) for i in np.ravel(given)]
