"""Where the candidates of a search begin to differ, and what they share before.

Every candidate runs the images of a window again. What lies before the first site
that moves is the same for all of them, so it runs once, when the image is answered,
and the tensor that the rest of the network reads is kept instead of the image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from refoldc.cost import layer_macs
from refoldc.input_spec import input_slots
from refoldc.ir import QGraph
from refoldc.plan import last_reads, tensor_bytes


@dataclass(frozen=True)
class Cut:
    """A point in the order of the layers.

    Attributes:
        first: Number of the first layer that runs for every candidate.
        tensor: What is kept of an image; None for the image itself, with 0.
        kept_bytes: Its size.
        macs: Multiply-accumulate operations from there on, an image.
    """

    first: int
    tensor: str | None
    kept_bytes: int
    macs: int


def find_cuts(graph: QGraph, before: int) -> tuple[Cut, ...]:
    """The points at which one tensor is all that is read later on.

    Args:
        graph: The network.
        before: Number of the last layer that may be the first of a candidate.

    Returns:
        Those that leave least to run first, then those that keep least; one keeps
        the image itself.
    """
    cuts = [_at(graph, 0, None, input_slots(graph)[-1].end)]
    for first in range(1, before + 1):
        alive = tuple(_alive(graph, first))
        if len(alive) == 1:
            size = tensor_bytes(graph, alive[0])
            cuts.append(_at(graph, first, alive[0], size))
    return tuple(sorted(cuts, key=lambda cut: (cut.macs, cut.kept_bytes, cut.first)))


def _at(graph: QGraph, first: int, tensor: str | None, kept_bytes: int) -> Cut:
    macs = sum(layer_macs(layer, graph) for layer in graph.layers[first:])
    return Cut(first, tensor, kept_bytes, macs)


def _alive(graph: QGraph, step: int) -> Iterator[str]:
    """Tensors that are written before layer ``step``, and read by it or later."""
    last = last_reads(graph)
    yield from (port.name for port in graph.inputs if last[port.name] >= step)
    written = (layer.output for layer in graph.layers[:step])
    yield from (name for name in written if last[name] >= step)
