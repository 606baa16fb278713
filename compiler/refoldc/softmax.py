"""The integer softmax of docs/numerics.md: its table, and its meaning."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from refoldc.requant import round_half_up

ONE_Q15 = 2**15
ENTRIES = 256


class SoftmaxTable(NamedTuple):
    """exp(-x) in Q15; the index of a difference is ``min(d >> shift, 255)``."""

    exp: NDArray[np.uint16]
    shift: int


def softmax_table(scale: float) -> SoftmaxTable:
    """The table for logits of ``scale``: its last entry is below 2**-15."""
    reach = 15 * math.log(2) / ((ENTRIES - 1) * scale)
    shift = max(0, math.floor(math.log2(reach)) + 1)
    steps = np.arange(ENTRIES) * 2.0**shift * scale
    exp = round_half_up(ONE_Q15 * np.exp(-steps)).astype(np.uint16)
    return SoftmaxTable(exp, shift)
