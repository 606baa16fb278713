"""What an import works with: ONNX nodes, and tensors on their way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from refoldc.errors import BadModel, UnsupportedOp
from refoldc.ir import F64, I64, Pads, Shape

NO_PADS: Pads = (0, 0, 0, 0)


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
    positions: I64 | None = field(default=None, compare=False)
    stored: Shape = ()
    view_node: str = ""

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

    @property
    def stored_shape(self) -> Shape:
        """Of the tensor itself, whatever it is seen as."""
        return self.shape if self.positions is None else self.stored

    def places(self) -> I64:
        """``positions``, or what they are where axes describe the tensor."""
        if self.positions is not None:
            return self.positions
        elements = np.arange(prod(self.shape))
        if self.order is not None:
            dims, axes = self.order
            stored = np.argsort(axes)
            whole = elements.reshape([dims[i] for i in stored])
            return whole.transpose(np.argsort(stored)).reshape(-1)
        if self.layout == VECTOR:
            return elements
        kept = [axis for axis in self.layout if axis != UNSTORED]
        rest = [axis for axis in range(UNSTORED) if axis not in kept]
        moved = elements.reshape(self.shape).transpose(kept + rest)
        return moved.reshape(self.dims)

    def seen_as(self, positions: I64, node: OnnxNode) -> Value:
        """The same tensor with other positions, which a node gives it."""
        return Value(
            name=self.name,
            dims=positions.shape,
            positions=positions,
            stored=self.stored_shape,
            view_node=node.name,
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
    return prod(dims)
