"""What the emitted structs can hold, checked before anything is emitted."""

from __future__ import annotations

from math import prod

from refoldc.errors import UnsupportedOp
from refoldc.ir import QConv, QDense, QGraph, QPick

UINT16_MAX = 2**16 - 1
"""Of refold_shape, refold_dense_params and refold_conv2d_params."""


def verify(graph: QGraph) -> QGraph:
    """Return ``graph`` if every number of its layers fits the firmware's structs.

    Raises:
        UnsupportedOp: Naming the layer and the number.
    """
    for layer in graph.layers:
        numbers = list(graph.shapes[layer.output])
        if isinstance(layer, QConv):
            numbers += [*layer.weights.shape, *layer.stride, *layer.dilation]
        if isinstance(layer, QDense):
            numbers += layer.weights.shape
        if isinstance(layer, QPick) and len(layer.index) == 1:
            numbers.append(prod(graph.shapes[layer.inputs[0]]))
        if max(numbers) > UINT16_MAX:
            raise UnsupportedOp(
                f"layer '{layer.name}': {max(numbers)} exceeds {UINT16_MAX}, the most "
                "that the firmware's 16-bit sizes hold; use a smaller layer or input"
            )
    return graph
