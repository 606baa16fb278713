"""The state of an import: known values, constants, and the nodes made so far."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from refoldc.errors import BadModel, UnsupportedOp
from refoldc.ir import F32, F64, Conv, Dense, Node, Pads, Pool, Shape
from refoldc.verify import check_sizes

NO_PADS: Pads = (0, 0, 0, 0)
LONGEST_NAME = 1000


@dataclass(frozen=True)
class OnnxNode:
    """One ONNX node, unpacked.

    ``inputs`` and ``outputs`` keep '' for an omitted optional one.
    """

    name: str
    op: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    proto: onnx.NodeProto = field(repr=False, compare=False)

    @staticmethod
    def unpack(proto: onnx.NodeProto) -> OnnxNode:
        """Strings are decoded; a nameless node is called by its first output."""
        return OnnxNode(
            name=proto.name or (proto.output[0] if proto.output else "?"),
            op=proto.op_type,
            domain=proto.domain,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attributes={a.name: _attribute(a) for a in proto.attribute},
            proto=proto,
        )

    @property
    def where(self) -> str:
        """How messages call it."""
        return f"node '{self.name}' ({self.op})"

    def input(self, index: int) -> str:
        """Name of an input, '' where it is omitted."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def flag(self, name: str, default: bool = False) -> bool:
        """An attribute that ONNX writes as 0 or 1.

        Raises:
            BadModel: It is another number, which runtimes read differently.
        """
        value = self.attributes.get(name, int(default))
        if value not in (0, 1):
            raise BadModel(f"{self.where}: {name} is {value}, expected 0 or 1")
        return bool(value)

    def refuse(self, found: str, remedy: str) -> UnsupportedOp:
        """The error for a use of this node that refold cannot compile."""
        return UnsupportedOp(f"{self.where}: {found}; {remedy}")


def _attribute(proto: onnx.AttributeProto) -> Any:
    value = onnx.helper.get_attribute_value(proto)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


@dataclass(frozen=True)
class Value:
    """An ONNX tensor on its way through the importer.

    Attributes:
        name: Of the tensor in the float graph.
        dims: ONNX shape without the batch: (C, H, W) or (F,).
        order: (C, H, W) of the image that a vector was flattened from, where
            its elements lie in another order here (H, W, C) than in ONNX.
        pads: Zero padding that its Pad node left for the convolution to do.
        pad_node: Who left it.
    """

    name: str
    dims: Shape
    order: Shape | None = None
    pads: Pads = NO_PADS
    pad_node: str = ""

    @property
    def shape(self) -> Shape:
        """Channel-last shape: (H, W, C) or (F,)."""
        return (*self.dims[1:], self.dims[0]) if len(self.dims) == 3 else self.dims

    @property
    def spatial(self) -> tuple[int, int]:
        """(H, W) including pending padding."""
        top, left, bottom, right = self.pads
        return self.dims[1] + top + bottom, self.dims[2] + left + right


class Builder:
    """Collects the float graph while the importer walks the ONNX graph.

    Attributes:
        opset: Of the default domain.
        batch: The batch size written in the model, 1 where it is symbolic.
        constants: Every tensor known at compile time, by ONNX name.
        values: Every other tensor imported so far, by ONNX name.
        nodes: Made so far, in execution order.
        shapes: Channel-last, of every tensor made so far.
        folded: Elements of the constants that were computed.
    """

    def __init__(self, opset: int, batch: int, uses: Counter[str]) -> None:
        """``uses`` counts the readers of each ONNX tensor, the model's output
        being one."""
        self.opset = opset
        self.batch = batch
        self.constants: dict[str, NDArray[Any]] = {}
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.shapes: dict[str, Shape] = {}
        self.folded = 0
        self._uses = uses
        self._names: set[str] = set()

    # --- reading ---

    def value(self, node: OnnxNode, index: int = 0) -> Value:
        """A computed operand, any pending padding refused."""
        value = self.padded_value(node, index)
        if value.pads != NO_PADS:
            raise UnsupportedOp(
                f"node '{value.pad_node}' (Pad): feeds {node.where}; refold "
                "compiles padding only before a Conv: move it into the pads "
                "attribute of the operator behind it"
            )
        return value

    def padded_value(self, node: OnnxNode, index: int = 0) -> Value:
        """A computed operand that may still carry padding."""
        name = node.input(index)
        if name in self.values:
            return self.values[name]
        raise node.refuse(
            f"operand {index} is a constant" if name else f"operand {index} is missing",
            "expected a tensor computed from the input: simplify the model "
            "(python -m onnxsim) before compiling it",
        )

    def image(self, node: OnnxNode, *, padded: bool = False) -> Value:
        """Operand 0 as (C, H, W)."""
        value = self.padded_value(node) if padded else self.value(node)
        if len(value.dims) != 3:
            raise node.refuse(
                f"its input has shape {_batched(value.dims)}",
                "refold compiles it on N x C x H x W tensors only",
            )
        return value

    def is_constant(self, name: str) -> bool:
        """Whether a tensor is known at compile time."""
        return name in self.constants

    def constant(self, node: OnnxNode, index: int, what: str) -> NDArray[Any] | None:
        """A constant operand; None where it is omitted."""
        name = node.input(index)
        if not name:
            return None
        if name not in self.constants:
            raise node.refuse(
                f"its {what} ('{name}') is computed at run time",
                "refold needs it constant: export the model in inference mode, or "
                "simplify it (python -m onnxsim)",
            )
        return self.constants[name]

    def weights(self, node: OnnxNode, index: int, what: str) -> F32:
        """A required float32 operand, finite."""
        array = self.optional_weights(node, index, what)
        if array is None:
            raise BadModel(f"{node.where} has no {what}: the model is incomplete")
        return array

    def optional_weights(self, node: OnnxNode, index: int, what: str) -> F32 | None:
        """As :meth:`weights`, None where it is omitted."""
        array = self.constant(node, index, what)
        if array is None:
            return None
        if array.dtype != np.float32:
            raise node.refuse(
                f"its {what} has type {array.dtype}",
                "refold compiles float32 models: export it in float32 (model.float())",
            )
        if not np.isfinite(array).all():
            raise BadModel(
                f"{node.where}: its {what} contains NaN or infinity; the network's "
                "training diverged or the file is damaged"
            )
        return array

    # --- making ---

    def emit(self, node: Node, output: str, dims: Shape, **value: Any) -> None:
        """Append a node; its tensor stands for the ONNX tensor ``output``."""
        result = Value(node.output, dims, **value)
        if min(result.shape, default=1) < 1:
            raise BadModel(
                f"node '{node.name}' produces an empty tensor {_batched(dims)}: the "
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
        wanted = node.name.replace("\0", "_")[:LONGEST_NAME]
        name, count = wanted, 1
        while name in self._names:
            count += 1
            name = f"{wanted}#{count}"
        self._names.add(name)
        return name

    def alias(self, node: OnnxNode, value: Value) -> None:
        """Let the node's output stand for a tensor that exists already."""
        self.values[node.outputs[0]] = value

    def sole_producer(self, name: str) -> Node | None:
        """The float node behind an ONNX tensor nobody else reads, if any."""
        tensor = self.values[name].name
        spellings = [k for k, v in self.values.items() if v.name == tensor]
        if any(self._uses[spelling] != 1 for spelling in spellings):
            return None
        return next((n for n in self.nodes if n.output == tensor), None)

    def extend(self, old: Node, node: OnnxNode, **changes: Any) -> None:
        """Let a node that was made already also do the work of ``node``."""
        output = node.outputs[0]
        onnx_nodes = (*old.onnx_nodes, node.name)
        new = replace(old, output=output, onnx_nodes=onnx_nodes, **changes)
        _check_finite(new)
        self.nodes[self.nodes.index(old)] = new
        self.shapes[output] = self.shapes.pop(old.output)
        former = next(v for v in self.values.values() if v.name == old.output)
        self.values[output] = replace(former, name=output)


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


def per_channel(node: OnnxNode, array: NDArray[Any], channels: int, what: str) -> F64:
    """Check and widen a vector with one number a channel."""
    if array.shape != (channels,):
        raise BadModel(
            f"{node.where}: its {what} has shape {list(array.shape)}, expected "
            f"[{channels}]: the model contradicts itself"
        )
    return array.astype(np.float64)


def reorder(array: NDArray[Any], order: Shape | None) -> NDArray[Any]:
    """Bring the last axis from (C, H, W) to (H, W, C) order."""
    if order is None:
        return array
    lead = array.shape[:-1]
    split = array.reshape(*lead, *order)
    return np.ascontiguousarray(np.moveaxis(split, len(lead), -1)).reshape(array.shape)


def elements(dims: Sequence[int]) -> int:
    """How many numbers a tensor of these dimensions holds."""
    return math.prod(dims)


def _batched(dims: Shape) -> str:
    return " x ".join(["N", *map(str, dims)])
