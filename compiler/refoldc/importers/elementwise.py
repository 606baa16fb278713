"""Operators that keep the shape: activations, sums and pass-throughs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.errors import BadModel
from refoldc.importers.builder import Builder, OnnxNode, Value
from refoldc.importers.registry import operator
from refoldc.ir import Add, Bounds, Clamp, Conv, Dense, Softmax


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
    """min(max(x, 0), high): ReLU6 and its like."""
    low, high = (_limit(builder, node, i) for i in (0, 1))
    if low == -np.inf and high == np.inf:
        builder.alias(node, builder.value(node))
        return
    if low != 0.0 or not high > 0.0:  # NaN is refused, too
        raise node.refuse(
            f"clips to [{low:g}, {high:g}]",
            "refold compiles clips to [0, x], such as ReLU6",
        )
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
    builder.emit(clamp, node.outputs[0], value.dims, order=value.order)


@operator("Add")
def import_add(builder: Builder, node: OnnxNode) -> None:
    """Two tensors of one shape, or a bias for the weights before it."""
    for tensor, constant in ((0, 1), (1, 0)):
        if builder.is_constant(node.input(constant)):
            _add_bias(builder, node, tensor, constant)
            return
    a, b = builder.value(node, 0), builder.value(node, 1)
    if a.dims != b.dims or a.order != b.order:
        raise node.refuse(
            f"adds tensors of shapes {list(a.dims)} and {list(b.dims)}",
            "refold adds tensors of one shape, in one order, without broadcasting",
        )
    add = Add(
        name=builder.node_name(node),
        inputs=(a.name, b.name),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
    )
    builder.emit(add, node.outputs[0], a.dims, order=a.order)


def _add_bias(builder: Builder, node: OnnxNode, tensor: int, constant: int) -> None:
    """Merge a constant into the bias of the layer that feeds only this node."""
    value = builder.value(node, tensor)
    offset = builder.weights(node, constant, "constant")
    producer = builder.sole_producer(node.input(tensor))
    vector = _as_channels(offset, value)
    if not isinstance(producer, (Conv, Dense)) or vector is None:
        raise node.refuse(
            f"adds a constant of shape {list(offset.shape)} to a tensor that is no "
            "convolution's or matrix product's own output",
            "refold adds one constant a channel, directly behind such a layer",
        )
    with np.errstate(over="ignore"):  # judged by builder.extend
        bias = (producer.bias.astype(np.float64) + vector).astype(np.float32)
    builder.extend(producer, node, bias=bias)


def _as_channels(offset: NDArray[Any], value: Value) -> NDArray[Any] | None:
    """One number a channel, if numpy broadcasting means that; else None."""
    dims = (1, *value.dims)
    shape = (1,) * (len(dims) - offset.ndim) + offset.shape
    per_channel = (1, value.dims[0], *(1,) * (len(dims) - 2))
    if len(shape) != len(dims):
        return None
    if any(
        have not in (1, want) for have, want in zip(shape, per_channel, strict=True)
    ):
        return None
    return np.broadcast_to(offset.reshape(-1), (value.dims[0],))


@operator("Softmax")
def import_softmax(builder: Builder, node: OnnxNode) -> None:
    """Over the channels; ``fold`` allows it only at the end."""
    value = builder.value(node)
    rank = len(value.dims) + 1
    default = 1 if builder.opset < 13 else -1
    axis = int(node.attributes.get("axis", default)) % rank
    if axis != 1 or any(d != 1 for d in value.dims[1:]):
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
    builder.emit(softmax, node.outputs[0], value.dims, order=value.order)
