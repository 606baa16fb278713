"""Whether a view of a stored tensor is one axis by axis, and what to read then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refoldc.importers.values import VECTOR, Axes
from refoldc.ir import I64, Shape

LAYOUTS: dict[int, tuple[Axes, ...]] = {
    1: (VECTOR,),
    2: ((2, 1), (1, 2)),
    3: ((2, 0, 1), (0, 1, 2)),
}
"""By how many axes: channels first as stored, and in the order of the elements."""


def axis_index(positions: I64, stored: Shape, layout: Axes) -> list[I64] | None:
    """What to read along each stored axis so that ``layout`` describes the result.

    Args:
        positions: See ``Value.positions``.
        stored: (H, W, C).
        layout: The stored axis of each of the view's.

    Returns:
        Three lists of positions; None where an element depends on several axes.
    """
    if len(stored) != 3 or layout == VECTOR:
        return None
    index = []
    for axis, coordinate in enumerate(np.unravel_index(positions, stored)):
        line = coordinate[(slice(0, 1),) * positions.ndim]
        if axis in layout:
            dim = layout.index(axis)
            line = coordinate[tuple(_all_of(dim, i) for i in range(positions.ndim))]
        if (coordinate != line).any():
            return None
        index.append(line.reshape(-1).astype(np.int64))
    return index


def _all_of(dim: int, axis: int) -> slice:
    return slice(None) if axis == dim else slice(0, 1)


def is_whole(index: Sequence[I64], sizes: Shape) -> bool:
    """Whether everything is read, in order."""
    pairs = zip(index, sizes, strict=True)
    return all(np.array_equal(taken, np.arange(size)) for taken, size in pairs)
