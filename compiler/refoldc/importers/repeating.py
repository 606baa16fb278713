"""Operators that only say where each element comes from: views, moved when read."""

from __future__ import annotations

import numpy as np

from refoldc.errors import BadModel
from refoldc.importers.builder import Builder
from refoldc.importers.registry import operator
from refoldc.importers.values import OnnxNode, Value
from refoldc.ir import I64
from refoldc.verify import check_sizes


@operator("Expand")
def import_expand(builder: Builder, node: OnnxNode) -> None:
    """Axes of one element repeated."""
    value = builder.without_pads(builder.view(node))
    target = _list(builder, node, "shape")
    places = value.places()[np.newaxis]
    try:
        shape = np.broadcast_shapes(places.shape, tuple(target))
    except ValueError:
        raise BadModel(
            f"{node.where}: {['N', *value.dims]} does not broadcast to {target}: the "
            "model contradicts itself"
        ) from None
    if len(shape) == places.ndim and shape[0] in (1, builder.batch):
        shape = (1, *shape[1:])
    check_sizes(node.where, (), shape)
    _seen(builder, node, value, np.broadcast_to(places, shape))


@operator("Tile")
def import_tile(builder: Builder, node: OnnxNode) -> None:
    """The tensor side by side with itself, along any axes but the batch."""
    value = builder.without_pads(builder.view(node))
    repeats = _list(builder, node, "repeats")
    if len(repeats) != len(value.dims) + 1 or min(repeats) < 1:
        raise BadModel(f"{node.where}: repeats {repeats} for {['N', *value.dims]}")
    dims = zip((1, *value.dims), repeats, strict=True)
    check_sizes(node.where, (), tuple(n * many for n, many in dims))
    _seen(builder, node, value, np.tile(value.places()[np.newaxis], repeats))


@operator("DepthToSpace", "SpaceToDepth")
def import_depth(builder: Builder, node: OnnxNode) -> None:
    """Blocks of pixels to channels and back."""
    value = builder.without_pads(builder.view(node))
    block = int(node.attributes.get("blocksize", 0))
    places = value.places()
    try:
        if node.op == "SpaceToDepth":
            moved = _to_depth(places, block)
        else:
            moved = _to_space(places, block, node.attributes.get("mode", "DCR"))
    except (ValueError, ZeroDivisionError):
        raise BadModel(
            f"{node.where}: blocks of {block} do not divide {['N', *value.dims]}: the "
            "model contradicts itself"
        ) from None
    builder.alias(node, value.seen_as(moved, node))


def _to_depth(places: I64, block: int) -> I64:
    channels, height, width = places.shape
    split = places.reshape(channels, height // block, block, width // block, block)
    moved = split.transpose(2, 4, 0, 1, 3)
    return moved.reshape(-1, height // block, width // block)


def _to_space(places: I64, block: int, mode: str) -> I64:
    channels, height, width = places.shape
    rest = channels // block**2
    if mode == "CRD":
        split = places.reshape(rest, block, block, height, width)
        moved = split.transpose(0, 3, 1, 4, 2)
    else:
        split = places.reshape(block, block, rest, height, width)
        moved = split.transpose(2, 3, 0, 4, 1)
    return moved.reshape(rest, height * block, width * block)


def _list(builder: Builder, node: OnnxNode, what: str) -> list[int]:
    given = builder.constant(node, 1, what)
    if given is None or not given.size:
        raise BadModel(f"{node.where} has no {what}: the model is incomplete")
    return [int(n) for n in given.reshape(-1)]


def _seen(builder: Builder, node: OnnxNode, value: Value, places: I64) -> None:
    if places.shape[0] != 1:
        raise node.refuse("repeats the batch", "refold keeps the batch apart")
    if places.shape[1:] == value.dims:
        builder.alias(node, value)
    else:
        builder.alias(node, value.seen_as(places[0], node))
