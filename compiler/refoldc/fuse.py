"""Join element-wise operators that depend on one tensor into one table.

``x * sigmoid(x)``, ``x * clip(x + 3, 0, 6) / 6`` and the five nodes that exporters
write for Gelu are each a function of one number, and so 256 table entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from refoldc.formula import LARGEST, Call, Formula, X, constant, size, substitute
from refoldc.ir import Add, Clamp, Graph, Mul, Node, Pointwise


@dataclass(frozen=True, eq=False)
class _Function:
    """A tensor as a function of each element of another."""

    root: str
    formula: Formula
    onnx_nodes: tuple[str, ...] = ()


def fuse_pointwise(graph: Graph) -> Graph:
    """Let each element-wise operator start from the earliest tensor it can.

    What it was computed from stays in the graph, for others or as dead nodes.
    """
    known: dict[str, _Function] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        found = _function(node, known)
        if found is None or not isinstance(found.formula, Call):
            nodes.append(node)
            continue
        known[node.output] = found
        nodes.append(
            Pointwise(
                name=node.name,
                inputs=(found.root,),
                output=node.output,
                onnx_nodes=found.onnx_nodes,
                formula=found.formula,
            )
        )
    return replace(graph, nodes=tuple(nodes))


def _function(node: Node, known: Mapping[str, _Function]) -> _Function | None:
    """What the node computes of one tensor; None where it stays as it is."""
    parts = [known.get(name, _Function(name, X)) for name in node.inputs]
    if len({part.root for part in parts}) != 1:
        return None
    formula = _joined(node, [part.formula for part in parts])
    if formula is None or size(formula) > LARGEST:
        return None
    names = (name for part in parts for name in part.onnx_nodes)
    once = dict.fromkeys((*names, *node.onnx_nodes))
    return _Function(parts[0].root, formula, tuple(once))


def _joined(node: Node, operands: list[Formula]) -> Call | None:
    if isinstance(node, Pointwise):
        return substitute(node.formula, operands[0])
    if isinstance(node, (Add, Mul)):
        return Call(type(node).__name__, tuple(operands))
    if isinstance(node, Clamp) and operands[0] is not X:  # else its producer takes it
        limits = constant(node.bounds.low), constant(node.bounds.high)
        return Call("Clip", (operands[0], *limits))
    return None
