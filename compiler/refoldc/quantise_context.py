"""What every rule of quantisation needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from refoldc.calibrate import Calibration
from refoldc.ir import Graph, Node, Quant
from refoldc.options import CompileOptions
from refoldc.requant import affine


@dataclass(frozen=True, eq=False)
class Context:
    """What every rule needs, and the scales decided so far."""

    graph: Graph
    calibration: Calibration
    options: CompileOptions
    sites: frozenset[str]
    quants: dict[str, Quant]

    def output_quant(self, node: Node, least_scale: float = 0.0) -> Quant:
        """Return a node's output scale: the model's own, or of what was seen."""
        given = self.graph.given.get(node.output)
        if given is not None and given.scale >= least_scale:
            return given
        low, high = self.calibration.ranges[node.output]
        return affine(low, high, least_scale)


def identity(node: Node) -> dict[str, Any]:
    """The fields that a layer takes over from its node."""
    return {
        "name": node.name,
        "inputs": node.inputs,
        "output": node.output,
        "onnx_nodes": node.onnx_nodes,
    }
