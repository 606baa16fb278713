"""What operators ask for while they are imported, moved to where they need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.errors import BadModel
from refoldc.importers.emitter import Emitter
from refoldc.importers.values import (
    NO_PADS,
    UNSTORED,
    VECTOR,
    Axes,
    OnnxNode,
    Value,
    elements,
)
from refoldc.importers.views import LAYOUTS, axis_index, is_whole
from refoldc.ir import F32, F64, I64, Flatten, Pads, Pick


class Builder(Emitter):
    """An emitter that gives operators what they ask for, moving it where needed."""

    # --- reading ---

    def value(self, node: OnnxNode, index: int = 0) -> Value:
        """A computed operand; padding that no convolution takes is made here."""
        return self.without_pads(self.padded_value(node, index))

    def ordered(self, node: OnnxNode, index: int = 0) -> Value:
        """A computed operand whose elements lie in ONNX's order."""
        return self.in_order(self.value(node, index))

    def padded_value(self, node: OnnxNode, index: int = 0) -> Value:
        """A computed operand that may still carry padding."""
        value = self.view(node, index)
        if len(value.dims) not in LAYOUTS:
            raise node.refuse(
                f"its input has {len(value.dims) + 1} axes",
                "refold computes on the batch and at most three; it only moves "
                "elements through more",
            )
        return self.settled(value)

    def view(self, node: OnnxNode, index: int = 0) -> Value:
        """A computed operand as it is, perhaps a mere view."""
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
        value = self.view(node)
        if value.positions is None and value.is_image:
            value = value if padded else self.without_pads(value)
            return replace(value, axes=None)
        if len(value.dims) not in (2, 3):
            raise node.refuse(
                f"its input has {len(value.dims) + 1} axes",
                "refold compiles it on N x C x H x W and N x C x L tensors only",
            )
        return self.settled(self.without_pads(value), LAYOUTS[len(value.dims)][:1])

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

    def given_scale(self, node: OnnxNode, index: int, channels: int) -> F64 | None:
        """Of weights that the model has in int8, if it fits the output channels."""
        name = node.input(index)
        scale = self.weight_scales.get(name)
        fits = scale is not None and scale.size in (1, channels)
        if fits and node.attributes.get("alpha", 1.0) == 1.0:
            return scale
        if name in self.weight_scales:
            self.ignored[node.name] = "its weights are not symmetric int8 a channel"
        return None

    # --- moving ---

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
        if len(value.dims) not in LAYOUTS:
            self.values[output] = _taken(node, value, index)
            return
        value = self.in_order(self.settled(value))
        if any(value.layout[dim] == UNSTORED for dim in index):
            value = self.settled(value, LAYOUTS[len(value.dims)])
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
            self._emit_pick(self.unique(value.pad_node), plain, index, name, 0.0)
        return self.values[name]

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
            self._emit_pick(self.unique(name), plain, index, name, 0.0)
        return self.values[name]

    def settled(self, value: Value, layouts: Sequence[Axes] = ()) -> Value:
        """``value`` in one of these layouts: the first that moves nothing, if any.

        Args:
            value: Without pending padding where its layout has to change.
            layouts: Of as many axes as it has; empty leaves one that has a layout.
        """
        if value.positions is None and (not layouts or value.layout in layouts):
            return value
        layouts = layouts or LAYOUTS[len(value.dims)]
        places, stored = value.places(), value.stored_shape
        views = [axis_index(places, stored, axes) for axes in layouts]
        for axes, index in zip(layouts, views, strict=True):
            if index is not None and is_whole(index, stored):
                return Value(value.name, value.dims, axes=axes)
        key = (value.name, places.tobytes(), value.dims, tuple(layouts))
        if key not in self.moved:
            self.moved[key] = self._moved(value, layouts, views)
        return self.moved[key]

    def _moved(
        self, view: Value, layouts: Sequence[Axes], views: Sequence[list[I64] | None]
    ) -> Value:
        places = view.places()
        for axes, index in zip(layouts, views, strict=True):
            if index is not None:
                return self._copy(view, view.name, index, view.dims, axes)
        flat = self.flat(view)
        ways = [
            places.transpose(np.argsort(axes, kind="stable")).reshape(-1)
            for axes in layouts
        ]
        kept = [is_whole([way], (flat.dims[0],)) for way in ways]
        choice = kept.index(True) if any(kept) else 0
        if not any(kept):
            flat = self._copy(view, flat.name, ways[0:1], (ways[0].size,), VECTOR)
        if layouts[choice] == VECTOR:
            return flat
        made = Value("", view.dims, axes=layouts[choice])
        whole = [np.arange(size) for size in made.shape]
        axes = layouts[choice]
        return self._copy(view, flat.name, whole, view.dims, axes, view=True)

    def flat(self, value: Value) -> Value:
        """All that is stored, as a vector in stored order."""
        stored = value.stored_shape
        name = f"{value.name}:flat"
        if len(stored) == 1:
            return Value(value.name, stored)
        if name not in self.values:
            node = value.view_node or name
            made = Flatten(
                name=self.unique(node),
                inputs=(value.name,),
                output=name,
                onnx_nodes=(node,),
            )
            self.emit(made, name, (elements(stored),))
        return self.values[name]

    def _copy(
        self,
        value: Value,
        source: str,
        index: Sequence[I64],
        dims: tuple[int, ...],
        axes: Axes,
        *,
        view: bool = False,
    ) -> Value:
        """A new tensor read from ``source`` position by position."""
        name = self.unique(value.view_node or f"{source}:moved")
        made = Pick(
            name=name,
            inputs=(source,),
            output=f"{source}:moved{len(self.nodes)}",
            onnx_nodes=(value.view_node or name,),
            index=tuple(index),
            view=view,
        )
        self.emit(made, made.output, dims, axes=axes)
        return self.values[made.output]

    def _emit_pick(
        self,
        name: str,
        value: Value,
        index: Mapping[int, I64],
        output: str,
        fill: float,
    ) -> None:
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


def _taken(node: OnnxNode, value: Value, index: Mapping[int, I64]) -> Value:
    """Positions of a view of many axes, which stays a view."""
    positions = value.places()
    for axis, taken in index.items():
        if (taken < 0).any():
            raise node.refuse("pads a tensor of many axes", "pad it before reshaping")
        positions = positions.take(taken, axis)
    return value.seen_as(positions, node)
