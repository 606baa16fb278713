"""The state of an import: known values, constants, and the nodes made so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from refoldc.errors import BadModel, UnsupportedOp
from refoldc.ir import F32, F64, I64, Conv, Dense, Node, Pads, Pick, Pool, Shape
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


Axes = tuple[int, ...]
"""Stored axes in ONNX order."""
Order = tuple[Shape, Axes]
"""Dims and axes of a tensor before it was flattened."""

CHANNELS, UNSTORED = 2, 3
VECTOR: Axes = (0,)
DEFAULT_AXES: Mapping[int, Axes] = {1: VECTOR, 2: (2, 1), 3: (2, 0, 1)}


@dataclass(frozen=True)
class Value:
    """An ONNX tensor on its way through the importer.

    Attributes:
        name: Of the tensor in the float graph.
        dims: ONNX shape without the batch.
        order: Of the tensor that a vector was flattened from, where its elements
            lie in another order here than in ONNX.
        axes: For each of ``dims`` the stored axis: 0 height, 1 width, 2 channels,
            or UNSTORED for some of size 1; (0,) for a vector. None stands for
            (C, H, W), (C, L) or (F,).
        pads: Zero padding that its Pad node left for the convolution to do.
        pad_node: Who left it.
    """

    name: str
    dims: Shape
    order: Order | None = None
    pads: Pads = NO_PADS
    pad_node: str = ""
    axes: Axes | None = None

    @property
    def layout(self) -> Axes:
        """``axes``, or what stands for them."""
        return DEFAULT_AXES[len(self.dims)] if self.axes is None else self.axes

    @property
    def shape(self) -> Shape:
        """Stored shape: (H, W, C) or (F,)."""
        if self.layout == VECTOR:
            return self.dims
        stored = [1, 1, 1, 1]
        for size, axis in zip(self.dims, self.layout, strict=True):
            stored[axis] = size
        return tuple(stored[:UNSTORED])

    @property
    def is_image(self) -> bool:
        """Whether ONNX has it as C, H, W or, in one dimension, as C, L."""
        wanted = DEFAULT_AXES.get(len(self.dims), VECTOR)
        return wanted != VECTOR and all(
            size == 1 or axis == want
            for size, axis, want in zip(self.dims, self.layout, wanted, strict=True)
        )

    @property
    def channels(self) -> int:
        """How many there are; of a vector, its elements."""
        return self.shape[-1]

    @property
    def spatial(self) -> tuple[int, int]:
        """(H, W) including pending padding."""
        top, left, bottom, right = self.pads
        return self.shape[0] + top + bottom, self.shape[1] + left + right

    @property
    def channel_dim(self) -> int | None:
        """Which of ``dims`` are the channels."""
        wanted = 0 if self.layout == VECTOR else CHANNELS
        return self.layout.index(wanted) if wanted in self.layout else None

    def like(self, channels: int, size: tuple[int, int]) -> Shape:
        """The ONNX shape of an image laid out as this one."""
        return tuple((*size, channels, 1)[axis] for axis in self.layout)


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

    def __init__(self, opset: int, batch: int) -> None:
        self.opset = opset
        self.batch = batch
        self.constants: dict[str, NDArray[Any]] = {}
        self.values: dict[str, Value] = {}
        self.nodes: list[Node] = []
        self.shapes: dict[str, Shape] = {}
        self.folded = 0
        self._names: set[str] = set()

    # --- reading ---

    def value(self, node: OnnxNode, index: int = 0) -> Value:
        """A computed operand; padding that no convolution takes is made here."""
        return self.without_pads(self.padded_value(node, index))

    def ordered(self, node: OnnxNode, index: int = 0) -> Value:
        """A computed operand whose elements lie in ONNX's order."""
        return self.in_order(self.value(node, index))

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
        """Operand 0 as (C, H, W) or (C, L), which has height 1."""
        value = self.padded_value(node) if padded else self.value(node)
        if not value.is_image:
            raise node.refuse(
                f"its input has shape {_batched(value.dims)}",
                "refold compiles it on N x C x H x W and N x C x L tensors only, "
                "which it stores channels last: export the model channels-first",
            )
        return replace(value, axes=None)

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
        return self._unique(node.name.replace("\0", "_")[:LONGEST_NAME])

    def _unique(self, base: str) -> str:
        name, count = base, 1
        while name in self._names:
            count += 1
            name = f"{base}#{count}"
        self._names.add(name)
        return name

    def pick(
        self,
        node: OnnxNode,
        value: Value,
        index: Mapping[int, I64],
        *,
        fill: float = 0.0,
        output: str = "",
    ) -> None:
        """Let an output of the node be made of positions of ``value``.

        Args:
            node: The ONNX node.
            value: Without pending padding.
            index: For each axis of ``value.dims`` that changes, the positions to
                read; -1 reads ``fill``.
            fill: Real.
            output: Which of the node's; the first one by default.
        """
        output = output or node.outputs[0]
        value = self.in_order(value)
        if not index:
            self.values[output] = value
            return
        self._emit_pick(self.node_name(node), value, index, output, fill)

    def with_pads(self, value: Value, pads: Pads, pad_node: str) -> Value:
        """``value`` with padding still to be made."""
        return replace(value, pads=pads, pad_node=pad_node)

    def without_pads(self, value: Value, output: str = "") -> Value:
        """``value`` with its pending padding made, as ``output``."""
        if value.pads == NO_PADS:
            return value
        top, left, bottom, right = value.pads
        plain = replace(value, pads=NO_PADS)
        sides = {0: (top, bottom), 1: (left, right)}
        index = {
            value.layout.index(axis): np.pad(
                np.arange(value.shape[axis]), width, constant_values=-1
            )
            for axis, width in sides.items()
            if any(width)
        }
        name = output or f"{value.name}:padded{'_'.join(map(str, value.pads))}"
        if name not in self.shapes:
            self._emit_pick(self._unique(value.pad_node), plain, index, name, 0.0)
        return self.values[name]

    def unflatten(self, node: OnnxNode, value: Value, dims: Shape) -> None:
        """Let the node's output be a vector seen as C, H, W or C, L."""
        value = self.in_order(value)
        made = Value("", dims)
        stored = np.arange(value.dims[0]).reshape(dims)
        moved = stored.transpose(np.argsort(made.layout)).reshape(-1)
        output = node.outputs[0]
        if not np.array_equal(moved, stored.reshape(-1)):
            permuted = f"{output}:permuted"
            self._emit_pick(self.node_name(node), value, {0: moved}, permuted, 0.0)
            value = self.values[permuted]
        view = Pick(
            name=self.node_name(node),
            inputs=(value.name,),
            output=output,
            onnx_nodes=(node.name,),
            index=tuple(np.arange(size) for size in made.shape),
        )
        self.emit(view, output, dims)

    def in_order(self, value: Value) -> Value:
        """``value`` with its elements in ONNX's order."""
        if value.order is None:
            return value
        dims, axes = value.order
        stored = np.argsort(axes)
        positions = np.arange(value.dims[0]).reshape([dims[i] for i in stored])
        index = {0: positions.transpose(np.argsort(stored)).reshape(-1)}
        name = f"{value.name}:ordered"
        if name not in self.shapes:
            plain = replace(value, order=None)
            self._emit_pick(self._unique(name), plain, index, name, 0.0)
        return self.values[name]

    def _emit_pick(
        self,
        name: str,
        value: Value,
        index: Mapping[int, I64],
        output: str,
        fill: float,
    ) -> None:
        if any(value.layout[dim] == UNSTORED for dim in index):
            raise UnsupportedOp(
                f"node '{name}': lengthens an axis of one element that Unsqueeze or "
                "Reshape made: give the tensor at most three axes behind the batch"
            )
        stored = [np.arange(size) for size in value.shape]
        for dim, positions in index.items():
            stored[value.layout[dim]] = positions
        dims = tuple(len(index.get(i, range(n))) for i, n in enumerate(value.dims))
        made = Pick(
            name=name,
            inputs=(value.name,),
            output=output,
            onnx_nodes=(name,),
            index=tuple(stored),
            fill=fill,
        )
        self.emit(made, output, dims, axes=value.axes)

    def alias(self, node: OnnxNode, value: Value) -> None:
        """Let the node's output stand for a tensor that exists already."""
        self.values[node.outputs[0]] = value


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


def reorder(array: NDArray[Any], order: Order | None) -> NDArray[Any]:
    """Bring the last axis from ONNX's order to the stored one."""
    if order is None:
        return array
    dims, axes = order
    lead = array.ndim - 1
    split = array.reshape(*array.shape[:-1], *dims)
    moved = split.transpose(*range(lead), *(lead + i for i in np.argsort(axes)))
    return np.ascontiguousarray(moved).reshape(array.shape)


def elements(dims: Sequence[int]) -> int:
    """How many numbers a tensor of these dimensions holds."""
    return math.prod(dims)


def _batched(dims: Shape) -> str:
    return " x ".join(["N", *map(str, dims)])
