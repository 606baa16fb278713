"""Flatten, Reshape to two dimensions, and the shapes computed for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from refoldc.errors import BadModel
from refoldc.importers.builder import Builder
from refoldc.importers.registry import operator
from refoldc.importers.values import (
    DEFAULT_AXES,
    UNSTORED,
    VECTOR,
    OnnxNode,
    Value,
    elements,
)
from refoldc.ir import Flatten, Shape


@operator("Flatten")
def import_flatten(builder: Builder, node: OnnxNode) -> None:
    """All axes but the batch become one."""
    value = _view(builder, node)
    axis = int(node.attributes.get("axis", 1))
    if axis % (len(value.dims) + 1) != 1:
        raise node.refuse(
            f"flattens from axis {axis}", "refold keeps the batch apart: use axis 1"
        )
    flatten(builder, node, value)


@operator("Reshape")
def import_reshape(builder: Builder, node: OnnxNode) -> None:
    """Free where elements keep their places, else moved where they are read."""
    value = _view(builder, node)
    given = builder.constant(node, 1, "target shape")
    if given is None:
        raise BadModel(f"{node.where} has no target shape: the model is incomplete")
    zero_copies = not node.flag("allowzero")
    target = _resolve(builder, node, value, given.reshape(-1).tolist(), zero_copies)
    if target == value.dims:
        builder.alias(node, value)
    else:
        reshape(builder, node, value, target)


def reshape(builder: Builder, node: OnnxNode, value: Value, dims: Shape) -> None:
    """Let the node's output be ``value`` in another shape."""
    simple = value.positions is None and value.layout != VECTOR
    if simple and len(dims) == 1:
        flatten(builder, node, value)
    elif simple and len(dims) in DEFAULT_AXES and _longer(dims) == _longer(value.dims):
        longer = (a for n, a in zip(value.dims, value.layout, strict=True) if n > 1)
        axes = tuple(next(longer) if n > 1 else UNSTORED for n in dims)
        builder.alias(node, replace(value, dims=dims, axes=axes))
    else:
        builder.alias(node, value.seen_as(value.places().reshape(dims), node))


def _view(builder: Builder, node: OnnxNode) -> Value:
    return builder.without_pads(builder.view(node))


def _longer(dims: Shape) -> list[int]:
    return [n for n in dims if n > 1]


def _resolve(
    builder: Builder,
    node: OnnxNode,
    value: Value,
    target: list[int],
    zero_copies: bool,
) -> tuple[int, ...]:
    """The target without its batch, which the model may have baked in."""
    have = (1, *value.dims)
    dims = [
        have[i] if d == 0 and zero_copies and i < len(have) else int(d)
        for i, d in enumerate(target)
    ]
    if dims and dims[0] == builder.batch:
        dims[0] = 1
    if dims.count(-1) == 1:
        known = elements([d for d in dims if d != -1])
        dims[dims.index(-1)] = elements(have) // known if known > 0 else -1
    if len(dims) < 2 or dims[0] != 1 or elements(dims) != elements(have):
        raise node.refuse(
            f"reshapes {list(value.dims)} to {target}, which mixes images of a batch",
            "refold keeps the batch apart: reshape to (batch, -1)",
        )
    return tuple(dims[1:])


@operator("Shape")
def import_shape(builder: Builder, node: OnnxNode) -> None:
    """A constant, since every shape is known once the batch is one image."""
    value = _view(builder, node)
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    dims = np.array((1, *value.dims), np.int64)
    builder.constants[node.outputs[0]] = dims[start:end]


@operator("Squeeze", "Unsqueeze")
def import_squeeze(builder: Builder, node: OnnxNode) -> None:
    """Axes of one element come and go."""
    value = _view(builder, node)
    if builder.opset < 13:
        axes = node.attributes.get("axes")
    else:
        axes = builder.constant(node, 1, "axes")
    dims = [1, *value.dims]
    if node.op == "Unsqueeze":
        count = len(dims) + len(np.ravel(axes if axes is not None else []))
        new = {int(a) % count for a in np.ravel(axes if axes is not None else [])}
        old = iter(dims)
        target = [1 if i in new else next(old) for i in range(count)]
    else:
        listed = [i for i, n in enumerate(dims) if n == 1 and i]
        gone = listed if axes is None else [int(a) % len(dims) for a in np.ravel(axes)]
        target = [n for i, n in enumerate(dims) if i not in gone]
        if 0 in gone or any(dims[i] != 1 for i in gone):
            raise node.refuse(
                f"removes axes {gone} of {dims}", "refold keeps the batch apart"
            )
    reshape(builder, node, value, tuple(target[1:]))


@operator("Transpose")
def import_transpose(builder: Builder, node: OnnxNode) -> None:
    """Another view of the stored tensor, which itself stays channels last."""
    value = _view(builder, node)
    rank = len(value.dims) + 1
    perm = list(node.attributes.get("perm", range(rank)[::-1]))
    if perm[0] != 0:
        raise node.refuse("moves the batch", "refold keeps the batch apart")
    if value.positions is not None or value.order is not None:
        moved = value.places().transpose([p - 1 for p in perm[1:]])
        builder.alias(node, value.seen_as(moved, node))
        return
    dims = tuple(value.dims[p - 1] for p in perm[1:])
    axes = tuple(value.layout[p - 1] for p in perm[1:])
    builder.alias(node, replace(value, dims=dims, axes=axes))


def flatten(builder: Builder, node: OnnxNode, value: Value) -> None:
    """Make the node's output a vector; remember where its order changed."""
    if value.positions is not None:
        reshape(builder, node, value, (elements(value.dims),))
        return
    if value.layout == VECTOR:
        builder.alias(node, value)
        return
    longer = [a for n, a in zip(value.dims, value.layout, strict=True) if n > 1]
    same_order = longer == sorted(longer)
    flat = Flatten(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
    )
    dims = (elements(value.dims),)
    order = None if same_order else (value.dims, value.layout)
    builder.emit(flat, flat.output, dims, order=order)
