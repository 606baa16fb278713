"""Element-wise functions and arithmetic: whatever becomes a table or a product."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from refoldc.errors import UnsupportedOp
from refoldc.formula import Call, Constant, Formula, X, constant
from refoldc.importers.builder import Builder
from refoldc.importers.registry import operator
from refoldc.importers.values import UNSTORED, VECTOR, OnnxNode, Value, reorder
from refoldc.importers.views import LAYOUTS
from refoldc.ir import F32, Add, Mul, Pointwise, Stored


@operator(
    *("Abs", "Celu", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish"),
    *("LeakyRelu", "Mish", "Neg", "Selu", "Sigmoid", "Softplus", "Softsign"),
    *("Tanh", "ThresholdedRelu"),
)
def import_function(builder: Builder, node: OnnxNode) -> None:
    """A function of one number: 256 table entries."""
    apply(builder, node, Call(node.op, (X,), node.attributes))


@operator("PRelu")
def import_prelu(builder: Builder, node: OnnxNode) -> None:
    """One slope, or one a channel; one table a channel then."""
    value = builder.value(node)
    slope = builder.weights(node, 1, "slope")
    apply(builder, node, Call("PRelu", (X, _required(node, slope, value))))


@operator("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Sum")
def import_arithmetic(builder: Builder, node: OnnxNode) -> None:
    """With a constant, a function of one number; else of two or more tensors."""
    op = "Add" if node.op == "Sum" else node.op
    if len(node.inputs) == 1:
        builder.alias(node, builder.view(node))
    elif len(node.inputs) == 2:
        _binary(builder, replace(node, op=op))
    else:
        _chain(builder, replace(node, op=op))


def _chain(builder: Builder, node: OnnxNode) -> None:
    """More than two operands, one after the other."""
    total, *others = node.inputs
    for number, name in enumerate(others, start=1):
        last = number == len(others)
        output = node.outputs[0] if last else f"{node.outputs[0]}:first{number + 1}"
        _binary(builder, replace(node, inputs=(total, name), outputs=(output,)))
        total = output


def _binary(builder: Builder, node: OnnxNode) -> None:
    known = [builder.is_constant(name) for name in node.inputs]
    if not any(known):
        _two_tensors(builder, node, builder.value(node, 0), builder.value(node, 1))
        return
    if all(known):
        raise node.refuse("combines constants", "leave the constants out, or sum them")
    tensor = known.index(False)
    value = builder.value(node, tensor)
    number = builder.weights(node, 1 - tensor, "constant")
    other = as_channels(number, value)
    if other is not None:
        operands: tuple[Formula, ...] = (X, other) if tensor == 0 else (other, X)
        apply(builder, node, Call(node.op, operands), tensor)
        return
    if node.op not in _WITH_STORED or (node.op == "Div" and tensor == 1):
        raise _misfit(node, number, value)
    if node.op == "Div":
        node, number = replace(node, op="Mul"), _reciprocal(node, number)
    value = builder.in_order(value)
    made = stored(builder, node, number, value)
    pair = (value, made) if tensor == 0 else (made, value)
    _two_tensors(builder, node, *pair)


_WITH_STORED = frozenset({"Add", "Sub", "Mul", "Div"})
"""That take a constant of any shape as a second tensor."""


def _reciprocal(node: OnnxNode, array: F32) -> F32:
    with np.errstate(divide="ignore"):
        inverse = np.asarray(1 / array, np.float32)
    if not np.isfinite(inverse).all():
        raise node.refuse("divides by zero", "check the constant")
    return inverse


def stored(builder: Builder, node: OnnxNode, array: F32, other: Value) -> Value:
    """A constant of any shape that broadcasts to ``other`` as a tensor."""
    rank = len(other.dims)
    shape = (1,) * (rank + 1 - array.ndim) + array.shape
    pairs = zip(shape[1:], other.dims, strict=False)
    if (
        len(shape) != rank + 1
        or shape[0] != 1
        or any(1 not in p and p[0] != p[1] for p in pairs)
    ):
        raise _misfit(node, array, other)
    output = f"{node.outputs[0]}:constant"
    axes = other.layout if UNSTORED not in other.layout else LAYOUTS[rank][0]
    value = Value(output, shape[1:], axes=axes)
    values = np.empty(array.size, np.float32)
    values[value.places().reshape(-1)] = array.reshape(-1)
    made = Stored(
        name=builder.node_name(node),
        inputs=(),
        output=output,
        onnx_nodes=(node.name,),
        values=values.reshape(value.shape),
    )
    builder.emit(made, output, value.dims, axes=axes)
    return builder.values[output]


def apply(builder: Builder, node: OnnxNode, formula: Call, index: int = 0) -> None:
    """Make the node's output a function of each element of operand ``index``."""
    value = builder.value(node, index)
    made = Pointwise(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
        formula=formula,
    )
    builder.emit(made, node.outputs[0], value.dims, order=value.order, axes=value.axes)


def _required(node: OnnxNode, array: NDArray[np.float32], value: Value) -> Constant:
    found = as_channels(array, value)
    if found is None:
        raise _misfit(node, array, value)
    return found


def _misfit(node: OnnxNode, array: F32, value: Value) -> UnsupportedOp:
    return node.refuse(
        f"combines a constant of shape {list(array.shape)} with a tensor of "
        f"shape {['N', *value.dims]}",
        "refold compiles one number, or one a channel; Add, Sub, Mul and Div also "
        "take a tensor that broadcasts over one image",
    )


def as_channels(array: NDArray[np.float32], value: Value) -> Constant | None:
    """One number, or one a channel, if broadcasting means that; else None."""
    dims, channel = (1, *value.dims), value.channel_dim
    shape = (1,) * (len(dims) - array.ndim) + array.shape
    wanted = [1] * len(dims)
    if channel is not None:
        wanted[channel + 1] = value.dims[channel]
    if len(shape) != len(dims):
        return None
    if any(have not in (1, want) for have, want in zip(shape, wanted, strict=True)):
        return None
    if array.size == 1:
        return constant(array.reshape(()))
    return constant(reorder(array.reshape(-1), value.order))


# --- two tensors -------------------------------------------------------------


def _two_tensors(builder: Builder, node: OnnxNode, a: Value, b: Value) -> None:
    if a.order != b.order:
        a, b = builder.in_order(a), builder.in_order(b)
    a, b = _alike(builder, a, b)
    if node.op == "Mul":
        _multiply(builder, node, a, b)
    elif node.op == "Add":
        _add(builder, node, a, b)
    elif node.op == "Sub":
        _add(builder, node, a, _negated(builder, node, b))
    else:
        raise node.refuse(
            "combines two computed tensors",
            "refold compiles sums, differences and products of two",
        )


def _alike(builder: Builder, a: Value, b: Value) -> tuple[Value, Value]:
    """Both with the axes that are longer than 1 stored alike."""
    pairs = zip(
        a.dims[::-1], a.layout[::-1], b.dims[::-1], b.layout[::-1], strict=False
    )
    if not any(p > 1 and q > 1 and i != j for p, i, q, j in pairs):
        return a, b
    if len(a.dims) == 1:
        return builder.settled(a, (VECTOR,)), builder.settled(b, (VECTOR,))
    layout = a.layout if UNSTORED not in a.layout else LAYOUTS[len(a.dims)][0]
    if len(b.dims) != len(a.dims):
        return a, b  # refused for their shapes
    return builder.settled(a, (layout,)), builder.settled(b, (layout,))


def _add(builder: Builder, node: OnnxNode, a: Value, b: Value) -> None:
    a, b = _stretched(builder, node, a, b, 0), _stretched(builder, node, b, a, 1)
    made = Add(
        name=builder.node_name(node),
        inputs=(a.name, b.name),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
    )
    builder.emit(made, node.outputs[0], a.dims, order=a.order, axes=a.axes)


def _stretched(
    builder: Builder, node: OnnxNode, value: Value, other: Value, index: int
) -> Value:
    """``value`` repeated along the axes in which only ``other`` is longer."""
    joint = tuple(map(max, value.dims, other.dims))
    if len(value.dims) != len(other.dims) or any(
        have not in (1, want) for have, want in zip(value.dims, joint, strict=True)
    ):
        raise node.refuse(
            f"combines tensors of shapes {list(value.dims)} and {list(other.dims)}",
            "expected one shape, or one that broadcasts to the other",
        )
    if value.dims == joint:
        return value
    repeats = {
        axis: np.zeros(size, np.int64)
        for axis, size in enumerate(joint)
        if size != value.dims[axis]
    }
    output = f"{node.outputs[0]}:stretched{index}"
    builder.pick(node, value, repeats, output=output)
    return builder.values[output]


def _negated(builder: Builder, node: OnnxNode, value: Value) -> Value:
    name = f"{node.outputs[0]}:negated"
    made = Pointwise(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=name,
        onnx_nodes=(node.name,),
        formula=Call("Neg", (X,)),
    )
    builder.emit(made, name, value.dims, order=value.order, axes=value.axes)
    return builder.values[name]


def _multiply(builder: Builder, node: OnnxNode, a: Value, b: Value) -> None:
    """Gates such as squeeze-and-excite: the second may be one number a channel."""
    if len(a.dims) != len(b.dims):
        raise node.refuse(
            f"multiplies tensors of shapes {list(a.dims)} and {list(b.dims)}",
            "give both the same number of dimensions",
        )
    joint = tuple(map(max, a.dims, b.dims))
    a, b = (a, b) if a.dims == joint else (b, a)
    channel = a.channel_dim
    over_channels = tuple(n if i == channel else 1 for i, n in enumerate(joint))
    over_positions = tuple(1 if i == channel else n for i, n in enumerate(joint))
    allowed = (joint, over_channels, over_positions, (1,) * len(joint))
    if a.dims != joint or b.dims not in allowed:
        a, b = _stretched(builder, node, a, b, 0), _stretched(builder, node, b, a, 1)
    made = Mul(
        name=builder.node_name(node),
        inputs=(a.name, b.name),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
    )
    builder.emit(made, node.outputs[0], joint, order=a.order, axes=a.axes)
