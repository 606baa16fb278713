"""Questions and changes that the passes over a float graph share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from refoldc.ir import Graph, Node


def producer_of(graph: Graph, tensor: str) -> Node | None:
    """The node that makes a tensor; None for an input."""
    return next((node for node in graph.nodes if node.output == tensor), None)


def readers_of(graph: Graph, tensor: str) -> int:
    """How often a tensor is read; being an output counts as once."""
    reads = sum(node.inputs.count(tensor) for node in graph.nodes)
    return reads + sum(tensor == output.tensor for output in graph.outputs)


def replace_nodes(graph: Graph, changes: Mapping[str, Iterable[Node]]) -> Graph:
    """Replace nodes, by name, with none or some."""
    nodes = [new for old in graph.nodes for new in changes.get(old.name, (old,))]
    return replace(graph, nodes=tuple(nodes))
