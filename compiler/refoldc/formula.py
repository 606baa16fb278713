"""Functions of one number, kept as expressions until they become tables.

A formula is the variable, a constant (one number, or one a channel), or an ONNX
operator applied to formulas. What an operator means is the onnx package's word:
it evaluates formulas, and ONNX Runtime those of the exported models.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import ArrayLike, NDArray
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

OPSET = 20
"""In which formulas, and the float graph around them, are spelled as ONNX."""
LARGEST = 64
"""Operators in one formula; more are left to a second table."""


@dataclass(frozen=True)
class Variable:
    """What the formula is a function of."""


@dataclass(frozen=True, eq=False)
class Constant:
    """A number, or one a channel; float32 of shape () or (C,)."""

    value: F32


@dataclass(frozen=True, eq=False)
class Call:
    """An element-wise ONNX operator; attributes that keep their default are absent."""

    op: str
    operands: tuple[Formula, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)


Formula = Variable | Constant | Call
X = Variable()


def constant(value: ArrayLike) -> Constant:
    """A number, or one a channel."""
    return Constant(np.asarray(value, np.float32))


def substitute(call: Call, inner: Formula) -> Call:
    """``call`` with ``inner`` for its variable.

    >>> substitute(Call("Relu", (X,)), Call("Neg", (X,))).operands[0].op
    'Neg'
    """

    def put(part: Formula) -> Formula:
        if isinstance(part, Variable):
            return inner
        return substitute(part, inner) if isinstance(part, Call) else part

    return Call(call.op, tuple(map(put, call.operands)), call.attributes)


def _walk(formula: Formula) -> Iterator[Formula]:
    yield formula
    if isinstance(formula, Call):
        for operand in formula.operands:
            yield from _walk(operand)


def size(formula: Formula) -> int:
    """How many operators it applies."""
    return sum(isinstance(part, Call) for part in _walk(formula))


def channels(formula: Formula) -> int:
    """How many channels its constants tell apart; 1 where all share them."""
    parts = [part for part in _walk(formula) if isinstance(part, Constant)]
    return max((part.value.size for part in parts), default=1)


@dataclass(frozen=True, eq=False)
class Affine:
    """``y = scale * x + offset``; numbers, or one a channel."""

    scale: F64
    offset: F64


def as_affine(formula: Formula) -> Affine | None:
    """Recognise sums and products with constants.

    >>> found = as_affine(Call("Sub", (constant(1), Call("Mul", (X, constant(3))))))
    >>> float(found.scale), float(found.offset)
    (-3.0, 1.0)
    """
    if isinstance(formula, Variable):
        return Affine(np.asarray(1.0), np.asarray(0.0))
    if isinstance(formula, Constant):
        return Affine(np.asarray(0.0), formula.value.astype(np.float64))
    parts = [as_affine(operand) for operand in formula.operands]
    known = [part for part in parts if part is not None]
    return _combine(formula.op, known) if len(known) == len(parts) else None


def _combine(op: str, parts: list[Affine]) -> Affine | None:
    first, last = parts[0], parts[-1]
    if op == "Neg":
        return Affine(-first.scale, -first.offset)
    if op in ("Add", "Sub"):
        sign = 1.0 if op == "Add" else -1.0
        scale = first.scale + sign * last.scale
        return Affine(scale, np.asarray(first.offset + sign * last.offset))
    if op == "Mul" and not first.scale.any():
        first, last = last, first
    if op == "Mul" and not last.scale.any():
        return Affine(first.scale * last.offset, first.offset * last.offset)
    if op == "Div" and not last.scale.any() and last.offset.all():
        return Affine(first.scale / last.offset, first.offset / last.offset)
    return None


# --- as ONNX -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OnnxFormula:
    """Nodes and constants that compute a formula."""

    nodes: list[onnx.NodeProto]
    constants: list[onnx.TensorProto]


def to_onnx(formula: Call, source: str, output: str, trailing: int) -> OnnxFormula:
    """Spell a formula as nodes of opset ``OPSET``.

    Args:
        formula: At least one operator.
        source: Name of the variable's tensor.
        output: Name of the result, and the prefix of all names between.
        trailing: Axes behind the channels.
    """
    made = OnnxFormula([], [])
    names: dict[int, str] = {}

    def name_of(part: Formula) -> str:
        if isinstance(part, Variable):
            return source
        if id(part) not in names:
            number = len(names)
            names[id(part)] = f"{output}:part{number}" if number else output
            spell(part, names[id(part)])
        return names[id(part)]

    def spell(part: Formula, name: str) -> None:
        if isinstance(part, Constant):
            array = part.value
            if array.ndim:
                array = array.reshape(-1, *(1,) * trailing)
            made.constants.append(numpy_helper.from_array(array, name))
        elif isinstance(part, Call):
            inputs = [name_of(operand) for operand in part.operands]
            made.nodes.append(
                helper.make_node(part.op, inputs, [name], **part.attributes)
            )

    name_of(formula)
    return made


def evaluate(formula: Call, x: F64) -> F64:
    """The formula's values.

    Args:
        formula: At least one operator.
        x: Real values, [N].

    Returns:
        [channels(formula), N]; not finite where the function is undefined.
    """
    made = to_onnx(formula, "x", "y", 1)
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        made.nodes,
        "formula",
        [helper.make_tensor_value_info("x", kind, None)],
        [helper.make_tensor_value_info("y", kind, None)],
        made.constants,
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=9)
    values = np.tile(x.astype(np.float32), (channels(formula), 1))
    with np.errstate(all="ignore"):  # undefined values are the caller's to judge
        (result,) = ReferenceEvaluator(model).run(None, {"x": values})
    return np.asarray(result, np.float64)
