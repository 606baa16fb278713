"""Operators that keep the shape: clamps, softmax and pass-throughs."""

from __future__ import annotations

import numpy as np

from refoldc.errors import BadModel
from refoldc.formula import Call, X, constant
from refoldc.importers.builder import Builder, OnnxNode, elements
from refoldc.importers.pointwise import apply
from refoldc.importers.registry import operator
from refoldc.ir import Bounds, Clamp, Softmax


@operator("Identity")
def import_identity(builder: Builder, node: OnnxNode) -> None:
    """Nothing; constants behind one were followed before."""
    builder.alias(node, builder.padded_value(node))


@operator("Dropout")
def import_dropout(builder: Builder, node: OnnxNode) -> None:
    """Nothing, in inference."""
    training = builder.constant(node, 2, "training_mode")
    if any(node.outputs[1:]) or (training is not None and training.any()):
        raise node.refuse(
            "is in training mode", "call model.eval() before exporting the model"
        )
    builder.alias(node, builder.padded_value(node))


@operator("Relu")
def import_relu(builder: Builder, node: OnnxNode) -> None:
    """max(x, 0)."""
    _clamp(builder, node, Bounds(0.0, np.inf))


@operator("Clip")
def import_clip(builder: Builder, node: OnnxNode) -> None:
    """min(max(x, low), high): ReLU6 and its like, or any other as a table."""
    low, high = (_limit(builder, node, i) for i in (0, 1))
    if low == -np.inf and high == np.inf:
        builder.alias(node, builder.value(node))
        return
    if low != 0.0 or not high > 0.0:
        apply(builder, node, Call("Clip", (X, constant(low), constant(high))))
        return
    _clamp(builder, node, Bounds(low, high))


def _limit(builder: Builder, node: OnnxNode, index: int) -> float:
    """Lower (0) or upper (1) limit: an attribute up to opset 10, then an input."""
    name, unlimited = (("min", -np.inf), ("max", np.inf))[index]
    if builder.opset < 11:
        limit = float(node.attributes.get(name, unlimited))
    else:
        given = builder.optional_weights(node, index + 1, f"{name} limit")
        if given is not None and given.size != 1:
            raise BadModel(
                f"{node.where}: its {name} limit has shape {list(given.shape)}, "
                "expected one number: the model contradicts itself"
            )
        limit = unlimited if given is None else float(given.item())
    largest = float(np.finfo(np.float32).max)  # how exporters write "no limit"
    return unlimited if abs(limit) >= largest else limit


def _clamp(builder: Builder, node: OnnxNode, bounds: Bounds) -> None:
    value = builder.value(node)
    clamp = Clamp(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
        bounds=bounds,
    )
    builder.emit(clamp, node.outputs[0], value.dims, order=value.order, axes=value.axes)


@operator("Softmax")
def import_softmax(builder: Builder, node: OnnxNode) -> None:
    """At the end only, over the channels: reports apply it."""
    value = builder.value(node)
    rank = len(value.dims) + 1
    default = 1 if builder.opset < 13 else -1
    axis = int(node.attributes.get("axis", default)) % rank
    if axis == 0 or value.dims[axis - 1] != elements(value.dims):
        raise node.refuse(
            f"works along axis {axis} of {list(value.dims)}",
            "refold computes a softmax over the classes of one vector",
        )
    softmax = Softmax(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
    )
    builder.emit(
        softmax, node.outputs[0], value.dims, order=value.order, axes=value.axes
    )
