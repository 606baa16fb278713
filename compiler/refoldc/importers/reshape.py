"""Flatten, Reshape to two dimensions, and the shapes computed for it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from refoldc.errors import BadModel
from refoldc.importers.builder import (
    DEFAULT_AXES,
    UNSTORED,
    VECTOR,
    Builder,
    OnnxNode,
    Value,
    elements,
)
from refoldc.importers.registry import operator
from refoldc.ir import Flatten, Shape


@operator("Flatten")
def import_flatten(builder: Builder, node: OnnxNode) -> None:
    """All axes but the batch become one."""
    value = builder.value(node)
    axis = int(node.attributes.get("axis", 1))
    if axis % (len(value.dims) + 1) != 1:
        raise node.refuse(
            f"flattens from axis {axis}", "refold keeps the batch apart: use axis 1"
        )
    flatten(builder, node, value)


@operator("Reshape")
def import_reshape(builder: Builder, node: OnnxNode) -> None:
    """To at most three axes behind the batch; free where only axes of 1 change."""
    value = builder.value(node)
    given = builder.constant(node, 1, "target shape")
    if given is None:
        raise BadModel(f"{node.where} has no target shape: the model is incomplete")
    zero_copies = not node.flag("allowzero")
    target = _resolve(builder, node, value, given.reshape(-1).tolist(), zero_copies)
    if target == value.dims:
        builder.alias(node, value)
    elif _longer(target) == _longer(value.dims) and len(target) > 1:
        _relabel(builder, node, value, target)
    elif len(target) in DEFAULT_AXES:
        if len(target) == 1:
            flatten(builder, node, value)
        else:
            flat = flattened(builder, node, value, f"{node.outputs[0]}:flat")
            builder.unflatten(node, flat, target)
    else:
        raise node.refuse(
            f"reshapes {list(value.dims)} to {given.tolist()}",
            "refold compiles reshapes to at most batch and three axes",
        )


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
    value = builder.value(node)
    start, end = node.attributes.get("start", 0), node.attributes.get("end")
    dims = np.array((1, *value.dims), np.int64)
    builder.constants[node.outputs[0]] = dims[start:end]


@operator("Squeeze", "Unsqueeze")
def import_squeeze(builder: Builder, node: OnnxNode) -> None:
    """Axes of one element come and go."""
    value = builder.value(node)
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
    _relabel(builder, node, value, tuple(target[1:]))


@operator("Transpose")
def import_transpose(builder: Builder, node: OnnxNode) -> None:
    """Another view of the stored tensor, which itself stays channels last."""
    value = builder.value(node)
    rank = len(value.dims) + 1
    perm = list(node.attributes.get("perm", range(rank)[::-1]))
    if perm[0] != 0:
        raise node.refuse("moves the batch", "refold keeps the batch apart")
    value = builder.in_order(value)
    dims = tuple(value.dims[p - 1] for p in perm[1:])
    axes = tuple(value.layout[p - 1] for p in perm[1:])
    builder.alias(node, replace(value, dims=dims, axes=axes))


def _relabel(builder: Builder, node: OnnxNode, value: Value, dims: Shape) -> None:
    """Let axes of one element come and go; the others keep their places."""
    if value.layout == VECTOR:
        if len(dims) not in DEFAULT_AXES:
            raise node.refuse(f"gives {len(dims)} axes", "refold has at most three")
        builder.unflatten(node, value, dims)
        return
    longer = (a for n, a in zip(value.dims, value.layout, strict=True) if n > 1)
    axes = tuple(next(longer) if n > 1 else UNSTORED for n in dims)
    builder.alias(node, replace(value, dims=dims, axes=axes))


def flatten(builder: Builder, node: OnnxNode, value: Value) -> None:
    """Make the node's output a vector; remember where its order changed."""
    builder.alias(node, flattened(builder, node, value, node.outputs[0]))


def flattened(builder: Builder, node: OnnxNode, value: Value, output: str) -> Value:
    """``value`` as a vector called ``output``."""
    if value.layout == VECTOR:
        return value
    longer = [a for n, a in zip(value.dims, value.layout, strict=True) if n > 1]
    same_order = longer == sorted(longer)
    flat = Flatten(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=output,
        onnx_nodes=(node.name,),
    )
    builder.emit(
        flat,
        output,
        (elements(value.dims),),
        order=None if same_order else (value.dims, value.layout),
    )
    return builder.values[output]
