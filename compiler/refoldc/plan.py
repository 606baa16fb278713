"""Where every tensor lives, and what the model costs in bytes.

Tensors whose lifetimes do not meet share memory: they are laid into the arena
largest first, each at the lowest offset that is free while it lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from refoldc import packing
from refoldc.ir import QAdd, QConv, QDense, QGraph, QLayer, QMul, QTable

ALIGNMENT = 16
"""REFOLD_ALIGNMENT of kernels.h."""


@dataclass(frozen=True)
class Buffer:
    """Memory that one tensor, or tensors computed in place, occupy.

    Attributes:
        tensors: Names, in the order they are written.
        size: Aligned bytes.
        first, last: Numbers of the layers that write and last read it; the
            input is written before layer 0, by -1.
    """

    tensors: tuple[str, ...]
    size: int
    first: int
    last: int

    def meets(self, other: Buffer) -> bool:
        """Whether both hold data at some time."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Plan:
    """A placed model.

    Attributes:
        offsets: Of every tensor, bytes into the activation arena.
        activation_bytes: Of that arena.
        live_bytes: Most bytes that hold data at once: no layout needs less.
        peak_layer: Name of the layer where that is.
        scratch_bytes: Most scratch that one kernel asks for.
    """

    offsets: Mapping[str, int]
    activation_bytes: int
    live_bytes: int
    peak_layer: str
    scratch_bytes: int


def plan(graph: QGraph) -> Plan:
    """Place every tensor of ``graph``."""
    buffers = make_buffers(graph)
    offsets, span = best_layout(buffers)
    live = [live_bytes(buffers, step) for step in range(len(graph.layers))]
    return Plan(
        offsets=offsets,
        activation_bytes=span,
        live_bytes=max(live),
        peak_layer=graph.layers[live.index(max(live))].name,
        scratch_bytes=max(most_scratch_bytes(layer, graph) for layer in graph.layers),
    )


def aligned(size: int) -> int:
    """``size`` rounded up to the alignment.

    >>> aligned(1), aligned(16)
    (16, 16)
    """
    return -(-size // ALIGNMENT) * ALIGNMENT


def tensor_bytes(graph: QGraph, name: str) -> int:
    """Bytes of a tensor, before alignment; logits are int32."""
    return prod(graph.shapes[name]) * (4 if name in logits_tensors(graph) else 1)


def logits_tensors(graph: QGraph) -> frozenset[str]:
    """The outputs that are int32 logits."""
    dense = (layer for layer in graph.layers if isinstance(layer, QDense))
    return frozenset(layer.output for layer in dense if layer.logits)


def make_buffers(graph: QGraph) -> tuple[Buffer, ...]:
    """One buffer a tensor, shared with the tensor that it is computed over."""
    last = last_reads(graph)
    holder = {}
    for tensor in graph.inputs:
        size = aligned(tensor_bytes(graph, tensor.name))
        holder[tensor.name] = Buffer((tensor.name,), size, -1, last[tensor.name])
    for step, layer in enumerate(graph.layers):
        heir = overwritten(layer, step, last)
        old = holder[heir] if heir else None
        buffer = Buffer(
            tensors=(*(old.tensors if old else ()), layer.output),
            size=old.size if old else aligned(tensor_bytes(graph, layer.output)),
            first=old.first if old else step,
            last=last[layer.output],
        )
        holder.update(dict.fromkeys(buffer.tensors, buffer))
    return tuple(dict.fromkeys(holder.values()))


def last_reads(graph: QGraph) -> dict[str, int]:
    """Number of the layer after which each tensor may be overwritten."""
    last = {tensor.name: 0 for tensor in graph.inputs}
    for step, layer in enumerate(graph.layers):
        last[layer.output] = step
        last.update(dict.fromkeys(layer.inputs, step))
    last.update(dict.fromkeys(graph.output_tensors, len(graph.layers)))
    return last


def overwritten(layer: QLayer, step: int, last: Mapping[str, int]) -> str | None:
    """The input that ``layer`` may overwrite: element-wise, and not read again."""
    if not isinstance(layer, (QAdd, QMul, QTable)):
        return None
    inputs = layer.inputs[:1] if isinstance(layer, QMul) else layer.inputs
    return next((name for name in inputs if last[name] == step), None)


def live_bytes(buffers: tuple[Buffer, ...], step: int) -> int:
    """Bytes that hold data while layer ``step`` runs."""
    return sum(b.size for b in buffers if b.first <= step <= b.last)


def best_layout(buffers: tuple[Buffer, ...]) -> tuple[dict[str, int], int]:
    """Offsets of every tensor and the bytes they span: the best of three orders."""
    orders: tuple[Callable[[Buffer], tuple[int, ...]], ...] = (
        lambda b: (-b.size, b.first),
        lambda b: (-b.size * (b.last - b.first + 1), b.first),
        lambda b: (b.first, -b.size),
    )
    layouts = [lay_out(sorted(buffers, key=order)) for order in orders]
    return min(layouts, key=lambda layout: layout[1])


def lay_out(buffers: list[Buffer]) -> tuple[dict[str, int], int]:
    """First fit: each buffer at the lowest offset that is free while it lives."""
    placed: list[tuple[int, Buffer]] = []
    for buffer in buffers:
        offset = 0
        for start, other in sorted(placed, key=lambda item: item[0]):
            if not other.meets(buffer):
                continue
            if offset + buffer.size <= start:
                break
            offset = max(offset, start + other.size)
        placed.append((offset, buffer))
    offsets = {name: start for start, buffer in placed for name in buffer.tensors}
    return offsets, max(start + buffer.size for start, buffer in placed)


def most_scratch_bytes(layer: QLayer, graph: QGraph) -> int:
    """What the kernel of ``layer`` asks for on the board where that is most."""
    portable = scratch_bytes(layer)
    if not isinstance(layer, QConv) or packing.packed_weights(layer) is None:
        return portable
    output_width = graph.shapes[layer.output][1]
    channels = graph.shapes[layer.inputs[0]][2]
    return max(portable, packing.scratch_bytes(layer, output_width, channels))


def scratch_bytes(layer: QLayer) -> int:
    """What the portable kernel asks for; a test compares it with the firmware's."""
    if not isinstance(layer, QConv):
        return 0
    channels = len(layer.weights)
    if layer.depthwise:
        return 5 * channels
    return 4 * channels + prod(layer.weights.shape[1:])
