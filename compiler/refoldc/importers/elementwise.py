"""Operators that keep the shape: clamps, pass-throughs, and last operators."""

from __future__ import annotations

import numpy as np
import onnx

from refoldc.errors import BadModel
from refoldc.formula import Call, X, constant
from refoldc.importers.builder import Builder
from refoldc.importers.pointwise import apply
from refoldc.importers.registry import operator
from refoldc.importers.values import UNSTORED, VECTOR, OnnxNode, Value, elements
from refoldc.ir import Bounds, Clamp, Final
from refoldc.ports import Ending


@operator("Identity")
def import_identity(builder: Builder, node: OnnxNode) -> None:
    """Nothing; constants behind one were followed before."""
    builder.alias(node, builder.view(node))


@operator("Dropout")
def import_dropout(builder: Builder, node: OnnxNode) -> None:
    """Nothing, in inference."""
    training = builder.constant(node, 2, "training_mode")
    if training is not None and training.any():
        raise node.refuse(
            "is in training mode", "call model.eval() before exporting the model"
        )
    builder.alias(node, builder.view(node))


@operator("Cast")
def import_cast(builder: Builder, node: OnnxNode) -> None:
    """Nothing, from float to float."""
    if node.attributes.get("to") != onnx.TensorProto.FLOAT:
        raise node.refuse(
            "makes a computed tensor another type than float32",
            "refold computes in int8: export the model in float32 throughout",
        )
    builder.alias(node, builder.view(node))


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


@operator("Softmax", "LogSoftmax")
def import_softmax(builder: Builder, node: OnnxNode) -> None:
    """At the end only, along one axis: reports apply it."""
    value = builder.ordered(node)
    old = builder.opset < 13
    axis = _axis(node, value, 1 if old else -1)
    normalised = value.dims[axis:] if old else (value.dims[axis],)
    longest = axis + normalised.index(max(normalised))
    if old and elements(normalised) != value.dims[longest]:
        raise node.refuse(
            f"normalises the {elements(normalised)} elements from axis {axis + 1} on",
            "refold computes it along one axis: export with opset_version=13 or later",
        )
    _final(builder, node, value, longest)


@operator("ArgMax")
def import_arg_max(builder: Builder, node: OnnxNode) -> None:
    """At the end only: the device answers with the scores; ties to the lowest."""
    if node.flag("select_last_index"):
        raise node.refuse("prefers the last of equal scores", "export without it")
    value = builder.ordered(node)
    _final(builder, node, value, _axis(node, value, 0))


def _axis(node: OnnxNode, value: Value, default: int) -> int:
    """Which of ``value.dims`` the node's axis is."""
    axis = int(node.attributes.get("axis", default)) % (len(value.dims) + 1)
    if axis == 0:
        raise node.refuse("works along the batch", "refold keeps the batch apart")
    return axis - 1


def _final(builder: Builder, node: OnnxNode, value: Value, dim: int) -> None:
    stored = value.layout[dim]
    if stored == UNSTORED:
        raise node.refuse(
            f"works along an axis of one element of {list(value.dims)}",
            "it computes a constant: end the model before it",
        )
    kind: Ending = node.op  # type: ignore[assignment]  # the names registered above
    final = Final(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
        kind=kind,
        axis=-1 if value.layout == VECTOR else stored,
    )
    builder.emit(final, node.outputs[0], value.dims, axes=value.axes)
