"""Float weights to int8, and the proof that their sums fit int32."""

from __future__ import annotations

import numpy as np

from refoldc.errors import RefoldcError
from refoldc.ir import F32, F64, I8, I32


def weight_scales(weights: F32) -> F64:
    """Per output channel, so that its largest weight is stored as 127."""
    rows = np.abs(weights.reshape(len(weights), -1).astype(np.float64)).max(axis=1)
    scale = rows / 127
    return np.where(scale == 0, scale.max() or 1.0, scale)


def quantise_weights(weights: F32, scale: F64) -> I8:
    """Symmetric int8; ``scale`` per output channel."""
    shape = (-1,) + (1,) * (weights.ndim - 1)
    q = np.rint(weights.astype(np.float64) / scale.reshape(shape))
    return np.clip(q, -127, 127).astype(np.int8)


def accumulator_offset(weights: I8, zero_point: int, name: str) -> I32:
    """-z * sum(w) per channel, having proved that no accumulator overflows.

    Raises:
        RefoldcError: 255 * sum|w| + 2**15 reaches 2**31.
    """
    rows = weights.reshape(len(weights), -1).astype(np.int64)
    peak = 255 * int(np.abs(rows).sum(axis=1).max()) + 2**15
    if peak >= 2**31:
        raise RefoldcError(
            f"{name}: its accumulator can reach {peak}, expected less than "
            f"{2**31} (int32). {rows.shape[1]} products a sum are too many; "
            "split the layer, for example by pooling before it"
        )
    return np.asarray(-zero_point * rows.sum(axis=1), np.int32)
