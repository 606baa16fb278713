"""The rounding of docs/numerics.md, written once for the whole compiler.

Every function that turns a real factor into a multiplier and a shift, and the
one function that applies them, live here; ``firmware/src/requant.h`` is the
twin in C.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refoldc.ir import F64, I8, I16, I64, Bounds, Quant, Requant

MULTIPLIER_MAX = 32767
LEAST_SHIFT = 16
BIAS_MAX = 2**38
INT32_MAX = 2**31 - 1
FACTOR_MAX = MULTIPLIER_MAX / 2**LEAST_SHIFT
"""Largest factor that a convolution can apply, just under 1/2."""


def round_half_up(x: ArrayLike) -> F64:
    """Round to the nearest integer, ties upwards.

    >>> round_half_up([0.5, -0.5, 2.4]).tolist()
    [1.0, 0.0, 2.0]
    """
    return np.floor(np.asarray(x, np.float64) + 0.5)


def affine(low: float, high: float, least_scale: float = 0.0) -> Quant:
    """Scale and zero point of a range, which is widened to contain 0.

    Args:
        low, high: Least and largest real value.
        least_scale: Enlarges the scale where a requantisation needs it.

    >>> affine(0.0, 255.0)
    Quant(scale=1.0, zero_point=-128)
    """
    low, high = min(low, 0.0), max(high, 0.0)
    scale = max((high - low) / 255, least_scale) or 1.0
    zero = int(np.clip(np.floor(-128 - low / scale + 0.5), -128, 127))
    return Quant(float(scale), zero)


def clamp_bounds(bounds: Bounds, quant: Quant) -> tuple[int, int]:
    """An activation's ``lo`` and ``hi`` in the scale of its output."""
    steps = np.array([bounds.low, bounds.high]) / quant.scale
    limits = np.clip(quant.zero_point + round_half_up(steps), -128, 127)
    return int(limits[0]), int(limits[1])


def largest_shift(factor: float, least: int, most: int) -> int:
    """Largest shift in [least, most] at which ``factor`` fits 15 bits."""
    for shift in range(most, least, -1):
        if round_half_up(factor * 2.0**shift) <= MULTIPLIER_MAX:
            return shift
    return least


def fixed_point(
    factors: F64, bias: Callable[[I16, int], F64], *, shifts: tuple[int, int]
) -> tuple[I16, I64, int]:
    """Multipliers, biases and the common shift of real factors.

    Args:
        factors: Non-negative, [C]; the largest fits the least shift.
        bias: From (m, shift) to the biases [C]; ``shift`` is lowered until all
            of them fit 2**38.
        shifts: Least and largest shift.

    Returns:
        m, b and shift; b is clipped where even the least shift is too large.
    """
    shift = largest_shift(float(factors.max()), *shifts)
    while True:
        m = round_half_up(factors * 2.0**shift).astype(np.int16)
        b = bias(m, shift)
        if np.abs(b).max() <= BIAS_MAX or shift == shifts[0]:
            return m, np.clip(b, -BIAS_MAX, BIAS_MAX).astype(np.int64), shift
        shift -= 1


def least_output_scale(factors: F64, bias: F64) -> float:
    """The scale below which an output cannot be reached by ``m``, ``b``, 16.

    Args:
        factors: Real value of one accumulator unit, [C].
        bias: Real, [C].
    """
    largest_step = BIAS_MAX / 2**LEAST_SHIFT - 256
    for_factor = factors.max() / FACTOR_MAX
    for_bias = np.abs(bias).max() / largest_step
    return float(max(for_factor, for_bias))


def channel_requant(
    units: F64, bias: F64, out: Quant, limits: tuple[int, int] = (-128, 127)
) -> Requant:
    """The table of a convolution or dense layer.

    Args:
        units: Real value of one accumulator unit, s_x * s_w, [C].
        bias: Real, [C].
        out: Of the output; its scale is at least ``least_output_scale``.
        limits: ``lo`` and ``hi``.
    """
    offset = out.zero_point + bias / out.scale + 0.5

    def biases(m: I16, shift: int) -> F64:
        return round_half_up(offset * 2.0**shift)

    m, b, shift = fixed_point(units / out.scale, biases, shifts=(LEAST_SHIFT, 31))
    return Requant(m=m, b=b, shift=shift, lo=limits[0], hi=limits[1])


def exact_units(units: F64, bias: F64, out: Quant, shift: int) -> F64:
    """Accumulator units enlarged until nothing but the final rounding is inexact.

    Each multiplier becomes an integer of its own accord, at the cost of at most
    1/m of a channel's weight resolution, and each bias fits int32 in its unit,
    as the QDQ form wants; only a channel that is all but constant needs that.

    Args:
        units: s_x * s_w, [C].
        bias: Real, [C].
        out: Of the output.
        shift: From :func:`channel_requant`.
    """
    step = out.scale * 2.0**-shift
    least = np.abs(bias) / (step * INT32_MAX)
    m = np.ceil(np.maximum(units / step, least))
    return np.clip(m, 1, MULTIPLIER_MAX) * step


def apply(acc: NDArray[Any], requant: Requant) -> F64:
    """(acc * m + b) >> shift, before the clamp.

    Exact in float64: |acc * m + b| < 2**31 * 2**15 + 2**38 < 2**53, and scaling
    by a power of two rounds nothing, so the floor is that of the integers.

    Args:
        acc: Integers below 2**31, [..., C].
        requant: One m and b per channel.
    """
    scale = 2.0**-requant.shift
    out = np.multiply(acc, requant.m.astype(np.float64) * scale, dtype=np.float64)
    out += requant.b * scale
    return np.asarray(np.floor(out, out=out))


def requantise(acc: NDArray[Any], requant: Requant) -> I8:
    """clamp((acc * m + b) >> shift, lo, hi); arguments as for :func:`apply`."""
    q = apply(acc, requant)
    np.maximum(q, requant.lo, out=q)
    np.minimum(q, requant.hi, out=q)
    return q.astype(np.int8)
