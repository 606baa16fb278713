"""What the emitted structs can hold, checked before anything is emitted."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from refoldc.errors import UnsupportedOp
from refoldc.ir import QConv, QDense, QGraph, QPick, Shape

UINT16_MAX = 2**16 - 1
"""Of refold_shape, refold_dense_params and refold_conv2d_params."""
MOST_ELEMENTS = 2**27
"""Of one tensor: more than any board holds, and what the compiler can run."""


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
        check_sizes(f"layer '{layer.name}'", numbers)
    return graph


def check_sizes(where: str, numbers: Iterable[int], shape: Shape = ()) -> None:
    """Refuse what a struct of the firmware, or the memory, cannot hold.

    Args:
        where: Named in the message.
        numbers: Sizes, strides, pads: each a 16-bit number on the device.
        shape: Of a tensor.

    Raises:
        UnsupportedOp: Naming the number.
    """
    largest, elements = max(numbers, default=0), prod(shape)
    if largest > UINT16_MAX:
        raise UnsupportedOp(
            f"{where}: {largest} exceeds {UINT16_MAX}, the most that the firmware's "
            "16-bit sizes hold; use a smaller layer or input"
        )
    if elements > MOST_ELEMENTS:
        raise UnsupportedOp(
            f"{where}: a tensor of {elements:,} elements exceeds {MOST_ELEMENTS:,}; "
            "use a smaller layer or input"
        )
