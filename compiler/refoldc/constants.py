"""Evaluate at compile time what does not depend on the input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from refoldc.errors import BadModel, UnsupportedOp
from refoldc.importers.builder import Builder
from refoldc.importers.values import OnnxNode

FOLDABLE = frozenset(
    {
        *("Constant", "Identity", "Cast", "Where", "Equal", "Less", "Greater", "Not"),
        *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Neg", "Abs", "Min", "Max"),
        *("Sqrt", "Reciprocal", "Exp", "Log", "Floor", "Ceil", "Sin", "Cos"),
        *("ReduceProd", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"),
        *("ReduceL2", "ReduceSumSquare"),
        *("Shape", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"),
        *("Gather", "Slice", "Split", "Concat"),
        *("ConstantOfShape", "Range", "Expand", "Tile"),
        *("QuantizeLinear", "DequantizeLinear"),
    }
)
"""Deterministic."""
MOST_FOLDED = 2**26
"""Elements that all results of one model may have together."""


_SPELLED_IN = {"QuantizeLinear": 21, "DequantizeLinear": 21}
"""Opset in which the onnx package evaluates what older ones mean alike."""

_BROADCASTING = frozenset(
    {
        *("Where", "Equal", "Less", "Greater", "Add", "Sub", "Mul", "Div", "Mod"),
        *("Pow", "Min", "Max"),
    }
)


def fold_constant(builder: Builder, node: OnnxNode) -> bool:
    """Evaluate a node whose operands are all known.

    Returns:
        Whether its outputs are constants of the builder now.

    Raises:
        UnsupportedOp: The operands do not fit the operator.
        BadModel: The results grow beyond ``MOST_FOLDED``.
    """
    operands = [name for name in node.inputs if name]
    if node.op not in FOLDABLE or not all(map(builder.is_constant, operands)):
        return False
    feeds = {name: builder.constants[name] for name in operands}
    try:
        builder.folded += _result_size(node, list(feeds.values()))
    except ValueError as error:
        raise _misfit(node, error) from error
    if builder.folded > MOST_FOLDED:
        raise BadModel(
            f"{node.where}: the constants computed up to here have {builder.folded:,} "
            f"elements, refold computes up to {MOST_FOLDED:,}: simplify the model "
            "(python -m onnxsim) or export it again"
        )
    try:
        opset = _SPELLED_IN.get(node.op, builder.opset)
        results = _evaluate(node.proto, opset, feeds)
    except Exception as error:  # the evaluator raises whatever numpy does
        raise _misfit(node, error) from error
    builder.constants.update(zip(node.outputs, results, strict=True))
    return True


def _misfit(node: OnnxNode, error: Exception) -> UnsupportedOp:
    return node.refuse(
        f"cannot be evaluated at compile time ({error})",
        "simplify the model (python -m onnxsim) or export it again",
    )


def _result_size(node: OnnxNode, operands: list[NDArray[Any]]) -> int:
    """Elements of the result, or a bound, before it takes memory."""
    sizes = [array.size for array in operands]
    if node.op == "Concat":
        return sum(sizes)
    if node.op == "Gather":
        return _gathered(node, *operands)
    if node.op in _BROADCASTING:
        return math.prod(np.broadcast_shapes(*(array.shape for array in operands)))
    if node.op in _GROWING:
        return int(_GROWING[node.op](*operands))
    return max(sizes, default=0)


_GROWING: Mapping[str, Callable[..., float]] = {
    "ConstantOfShape": lambda shape: math.prod(shape.tolist()),
    "Expand": lambda data, shape: math.prod(
        np.broadcast_shapes(data.shape, tuple(shape.tolist()))
    ),
    "Tile": lambda data, repeats: data.size * math.prod(repeats.tolist()),
    "Range": lambda start, limit, step: abs((limit - start) / step) + 1,
}
"""Elements of results that exceed all operands."""


def _gathered(node: OnnxNode, data: NDArray[Any], indices: NDArray[Any]) -> int:
    axis = int(node.attributes.get("axis", 0))
    along = data.shape[axis] if -data.ndim <= axis < data.ndim else 1
    return indices.size * data.size // max(along, 1)


def _evaluate(
    proto: onnx.NodeProto, opset: int, feeds: dict[str, NDArray[Any]]
) -> list[NDArray[Any]]:
    untyped = onnx.ValueInfoProto
    graph = onnx.helper.make_graph(
        [proto],
        proto.op_type,
        [untyped(name=name) for name in feeds],
        [untyped(name=name) for name in proto.output],
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", opset)]
    )
    results = ReferenceEvaluator(model).run(None, feeds)
    return [np.asarray(result) for result in results]
