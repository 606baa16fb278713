"""The kernels in plain int64 NumPy, written from docs/numerics.md alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Requantisation:
    """q = clamp((acc * m + b) >> shift, lo, hi), [C] each."""

    m: NDArray[np.int16]
    b: I64
    shift: int
    lo: int = -128
    hi: int = 127

    def apply(self, acc: I64) -> I64:
        """Without the clamp."""
        return (acc * self.m.astype(np.int64) + self.b) >> self.shift

    def clamp(self, acc: I64) -> NDArray[np.int8]:
        """With it."""
        return np.clip(self.apply(acc), self.lo, self.hi).astype(np.int8)


@dataclass(frozen=True)
class Geometry:
    """Where windows lie; pads are top and left."""

    kernel: Pair
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: Pair = (0, 0)
    groups: int = 1


def convolve(
    x: NDArray[np.int8],
    weights: NDArray[np.int8],
    zero_point: int,
    geometry: Geometry,
    out: Pair,
) -> I64:
    """acc = sum(w * (x - z)), [OH, OW, C_OUT].

    Args:
        x: [H, W, C_IN].
        weights: [C_OUT, KH, KW, C_IN / groups].
    """
    groups, width = geometry.groups, weights.shape[3]
    filters = weights.shape[0] // groups
    acc = np.zeros((*out, weights.shape[0]), np.int64)
    for ky, kx in np.ndindex(*geometry.kernel):
        seen = _tap(x.astype(np.int64) - zero_point, geometry, (ky, kx), out)
        for g in range(groups):
            w = weights[g * filters : (g + 1) * filters, ky, kx].astype(np.int64)
            part = seen[..., g * width : (g + 1) * width]
            acc[..., g * filters : (g + 1) * filters] += part @ w.T
    return acc


def _tap(x: I64, geometry: Geometry, tap: Pair, out: Pair) -> I64:
    """What one tap sees at every output position; 0 outside the image."""
    seen = np.zeros((*out, x.shape[2]), np.int64)
    for oy, ox in np.ndindex(*out):
        row, column = (
            position * geometry.stride[i]
            - geometry.pads[i]
            + tap[i] * geometry.dilation[i]
            for i, position in enumerate((oy, ox))
        )
        if 0 <= row < x.shape[0] and 0 <= column < x.shape[1]:
            seen[oy, ox] = x[row, column]
    return seen


def moments(acc: I64, shift: int) -> tuple[I64, I64]:
    """S1 and S2 of a = sat16(acc >> shift) over the positions, [C]."""
    a = np.clip(acc >> shift, -(2**15), 2**15 - 1).reshape(-1, acc.shape[-1])
    return a.sum(axis=0), (a * a).sum(axis=0)
