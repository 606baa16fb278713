"""The definition of correct: an integer network in NumPy.

The formulas are docs/numerics.md; every value computed here is an integer,
except for the float32 arithmetic of ``recalibrate``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refoldc.accumulate import Floats, make_sums
from refoldc.adapt import AdaptConfig, Forge
from refoldc.input_spec import read_inputs
from refoldc.ir import F64, I8, I32, QConv, QDense, QGraph, QLayer
from refoldc.operators import SIMPLE
from refoldc.requant import apply, requantise
from refoldc.serialise import graph_hash


class Outcome(NamedTuple):
    """What a device answers for one image; ``logits`` of all outputs in turn."""

    logits: I32
    shift_score: np.float32
    adapted: bool
    gate: bool | None
    forward_passes: int = 1


class Reference:
    """An integer network with its adaptation state; starts switched off.

    Args:
        graph: From ``quantise`` or an artefact.
    """

    def __init__(self, graph: QGraph) -> None:
        self.graph = graph
        self._sums = {
            layer.name: make_sums(layer, graph)
            for layer in graph.layers
            if isinstance(layer, (QConv, QDense))
        }
        sited = [n for n in graph.layers if isinstance(n, QConv) and n.site is not None]
        self._site_index = {layer.name: i for i, layer in enumerate(sited)}
        self._forge = Forge(
            sited,
            graph_hash(graph),
            margin=graph.gate_margin,
            doubt=graph.gate_doubt,
        )

    def configure(self, config: AdaptConfig, keep_state: bool = False) -> None:
        """Choose a method; without ``keep_state`` the stream starts afresh."""
        self._forge.configure(config, keep_state=keep_state)

    def infer(self, image: NDArray[Any]) -> Outcome:
        """Run one image, which adaptation sees once.

        Args:
            image: As the device receives it: uint8 [H, W, C] pixels, or int8 in
                the shape and scale of the input tensor, several as
                ``input_spec.encode_samples`` packs them.
        """
        return self._answer(self._run(image))

    def trace(self, image: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run one image and return every layer's output by layer name.

        Like :meth:`infer` in all else: adaptation sees the image.
        """
        tensors = self.tensors(image)
        return {layer.name: tensors[layer.output] for layer in self.graph.layers}

    @property
    def forge(self) -> Forge:
        """The adaptation of its sites."""
        return self._forge

    def tensors(self, image: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Run one image and return every tensor by name; adaptation sees it."""
        tensors = self._run(image)
        self._answer(tensors)
        return tensors

    def save_state(self) -> bytes:
        """The record that ``refold_adapt_save`` writes."""
        return self._forge.save()

    def load_state(self, record: bytes) -> None:
        """Restore a record, as ``refold_adapt_load`` does."""
        self._forge.load(record)

    def _run(self, image: NDArray[Any]) -> dict[str, NDArray[Any]]:
        graph = self.graph
        tensors: dict[str, NDArray[Any]] = {**read_inputs(graph, image)}
        for layer in graph.layers:
            inputs = [tensors[name] for name in layer.inputs]
            tensors[layer.output] = self._layer(layer, inputs)
        return tensors

    def _layer(self, layer: QLayer, inputs: list[I8]) -> NDArray[Any]:
        if isinstance(layer, QConv):
            return self._conv(layer, inputs[0])
        if isinstance(layer, QDense):
            return self._dense(layer, inputs[0])
        return SIMPLE[type(layer)](layer, self.graph, *inputs)

    def _conv(self, layer: QConv, x: I8) -> I8:
        acc = self._sums[layer.name](x)
        requant = layer.requant
        index = self._site_index.get(layer.name)
        if index is not None and layer.site and self._forge.adapts(index):
            lagged = self._forge.table(index)
            self._forge.absorb(index, *statistics(acc, layer.site.stat_shift))
            exact = self._forge.config.stats == "exact"
            requant = self._forge.table(index) if exact else lagged
        return requantise(acc, requant).reshape(self.graph.shapes[layer.output])

    def _dense(self, layer: QDense, x: I8) -> NDArray[Any]:
        acc = self._sums[layer.name](x)
        if layer.logits:
            return apply(acc, layer.requant).astype(np.int32)
        return requantise(acc, layer.requant)

    def _answer(self, tensors: Mapping[str, NDArray[Any]]) -> Outcome:
        quants = self.graph.quants
        logits = np.concatenate(
            [
                tensors[o.tensor].astype(np.int32).reshape(-1)
                - np.int32(quants[o.tensor].zero_point)
                for o in self.graph.outputs
            ]
        )
        adapted = self._forge.config.method != "off"
        gate = self._forge.is_open
        score = self._forge.finish() if adapted else np.float32(0)
        return Outcome(logits, score, adapted, gate)


def statistics(acc: Floats, shift: int) -> tuple[F64, F64]:
    """Sums of a and a*a over the positions, a = sat16(acc >> shift).

    Exact in float64 while a site has fewer than 2**22 positions.

    Args:
        acc: [positions, C].
        shift: k.
    """
    a = np.multiply(acc, 2.0**-shift, dtype=np.float64)
    np.floor(a, out=a)
    np.maximum(a, -(2**15), out=a)
    np.minimum(a, 2**15 - 1, out=a)
    return np.ones(len(a)) @ a, np.einsum("pc,pc->c", a, a)
