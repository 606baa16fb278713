"""Evaluate at compile time what does not depend on the input."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator

from refoldc.importers.builder import Builder, OnnxNode

FOLDABLE = frozenset(
    {
        *("Constant", "Identity", "Cast", "Where", "Equal"),
        *("Add", "Sub", "Mul", "Div", "Neg", "Sqrt", "Floor", "ReduceProd"),
        *("Shape", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose"),
        *("Gather", "Slice", "Concat"),
    }
)
"""Deterministic, and never much larger than their operands."""


def fold_constant(builder: Builder, node: OnnxNode) -> bool:
    """Evaluate a node whose operands are all known.

    Returns:
        Whether its outputs are constants of the builder now.

    Raises:
        UnsupportedOp: The operands do not fit the operator.
    """
    operands = [name for name in node.inputs if name]
    if node.op not in FOLDABLE or not all(map(builder.is_constant, operands)):
        return False
    feeds = {name: builder.constants[name] for name in operands}
    try:
        results = _evaluate(node.proto, builder.opset, feeds)
    except Exception as error:  # the evaluator raises whatever numpy does
        raise node.refuse(
            f"cannot be evaluated at compile time ({error})",
            "simplify the model (python -m onnxsim) or export it again",
        ) from error
    builder.constants.update(zip(node.outputs, results, strict=True))
    return True


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
