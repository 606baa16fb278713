"""The float graph as it grows, node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.errors import BadModel
from refoldc.importers.values import OnnxNode, Value
from refoldc.ir import F64, Conv, Dense, Node, Pool, Quant, Shape
from refoldc.verify import check_sizes

LONGEST_NAME = 1000


class Emitter:
    """Collects the float graph while the importer walks the ONNX graph.

    Attributes:
        opset: Of the default domain.
        batch: The batch size written in the model, 1 where it is symbolic.
        constants: Every tensor known at compile time, by ONNX name.
        values: Every other tensor imported so far, by ONNX name.
        nodes: Made so far, in execution order.
        shapes: Channel-last, of every tensor made so far.
        folded: Elements of the constants that were computed.
        given: int8 scales that the model has, by stored tensor.
        weight_scales: Those of weights, by the ONNX name of the dequantised ones;
            None where they are not symmetric int8.
        ignored: Nodes whose scale cannot be kept, and why not.
        moved: Tensors that views were copied to, by view and layouts.
    """

    def __init__(self, opset: int, batch: int) -> None:
        self.opset = opset
        self.batch = batch
        self.constants: dict[str, NDArray[Any]] = {}
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.shapes: dict[str, Shape] = {}
        self.folded = 0
        self.given: dict[str, Quant] = {}
        self.weight_scales: dict[str, F64 | None] = {}
        self.ignored: dict[str, str] = {}
        self.moved: dict[tuple[Any, ...], Value] = {}
        self._names: set[str] = set()

    def emit(self, node: Node, output: str, dims: Shape, **value: Any) -> None:
        """Append a node; its tensor stands for the ONNX tensor ``output``."""
        result = Value(node.output, dims, **value)
        if min(result.shape, default=1) < 1:
            raise BadModel(
                f"node '{node.name}' produces an empty tensor {batched(dims)}: the "
                "input is too small for this network"
            )
        sizes = (*_sizes(node), *(result.shape if len(dims) == 3 else ()))
        check_sizes(f"node '{node.name}'", sizes, result.shape)
        _check_finite(node)
        self.nodes.append(node)
        self.shapes[node.output] = result.shape
        self.values[output] = result

    def node_name(self, node: OnnxNode) -> str:
        """A name for a float node, unique within the graph.

        It names a member of golden.npz: zip archives end names at a NUL and hold
        up to 64 KiB of them.
        """
        return self.unique(node.name.replace("\0", "_")[:LONGEST_NAME])

    def unique(self, base: str) -> str:
        """A node name that none has yet."""
        name, count = base, 1
        while name in self._names:
            count += 1
            name = f"{base}#{count}"
        self._names.add(name)
        return name

    def alias(self, node: OnnxNode, value: Value) -> None:
        """Let the node's output stand for a tensor that exists already."""
        self.values[node.outputs[0]] = value


def batched(dims: Shape) -> str:
    """A shape for people."""
    return " x ".join(["N", *map(str, dims)])


def _sizes(node: Node) -> tuple[int, ...]:
    """What the firmware keeps of a node besides its tensors' shapes."""
    if isinstance(node, Conv):
        return *node.weights.shape, *node.stride, *node.dilation, *node.pads
    if isinstance(node, Pool):
        return *node.kernel, *node.stride, *node.pads
    return node.weights.shape if isinstance(node, Dense) else ()


def _check_finite(node: Node) -> None:
    """Attributes and constants merged into finite weights may make them infinite."""
    if not isinstance(node, (Conv, Dense)):
        return
    if not (np.isfinite(node.weights).all() and np.isfinite(node.bias).all()):
        raise BadModel(
            f"node '{node.name}': its weights or bias become NaN or infinite with "
            f"what {' and '.join(node.onnx_nodes)} applies to them; the file is damaged"
        )
