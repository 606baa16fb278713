"""Flatten, Reshape to two dimensions, and the shapes computed for it."""

from __future__ import annotations

import numpy as np

from refoldc.errors import BadModel
from refoldc.importers.builder import Builder, OnnxNode, Value, elements
from refoldc.importers.registry import operator
from refoldc.ir import Flatten


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
    """To batch x features, whichever way the target spells it."""
    value = builder.value(node)
    given = builder.constant(node, 1, "target shape")
    if given is None:
        raise BadModel(f"{node.where} has no target shape: the model is incomplete")
    zero_copies = not node.flag("allowzero")
    target = _resolve(builder, node, value, given.reshape(-1).tolist(), zero_copies)
    if target == value.dims:
        builder.alias(node, value)
    elif target == (elements(value.dims),):
        flatten(builder, node, value)
    else:
        raise node.refuse(
            f"reshapes {list(value.dims)} to {given.tolist()}",
            "refold compiles reshapes to batch x features only",
        )


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


def flatten(builder: Builder, node: OnnxNode, value: Value) -> None:
    """Make the node's output a vector; remember where its order changed."""
    if len(value.dims) == 1:
        builder.alias(node, value)
        return
    channels, height, width = value.dims
    same_order = channels == 1 or height * width == 1
    output = node.outputs[0]
    if output == value.name:  # ReduceMean without keepdims: the pool took the name
        output = f"{output}:flat"
    flat = Flatten(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=output,
        onnx_nodes=(node.name,),
    )
    builder.emit(
        flat,
        node.outputs[0],
        (elements(value.dims),),
        order=None if same_order else value.dims,
    )
