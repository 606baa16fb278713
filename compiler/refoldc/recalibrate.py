"""FORGE's float32 arithmetic: statistics to tables; twin of firmware/src/forge.c.

Every operation is one IEEE single precision operation in the order of
docs/numerics.md, "Sites". Constants are ``np.float32``, so that no step is
promoted to float64. All arrays are [C].
"""

from __future__ import annotations

import numpy as np

from refoldc.facts import SCORE_FRACTION_BITS
from refoldc.ir import F32, F64, I64, Requant, Site
from refoldc.requant import BIAS_MAX, LEAST_SHIFT, MULTIPLIER_MAX

ZERO, HALF, ONE, TWO = (np.float32(x) for x in (0, 0.5, 1, 2))
VARIANCE_FLOOR = np.float32(2.0**-8)
"""Of the clean variance: bounds the gain of a channel by 16."""
CENTRE_RANGE = np.float32(-(2.0**31)), np.float32(2.0**31 - 128)
"""What fits int32. No accumulator is beyond, but a saved mean may be."""
KL_MAX = np.float32(1023)
DISTANCE_MAX = np.float32(8)
"""So that a few channels whose mean hardly ever moves do not decide alone."""
SCORE_ONE = np.float32(2.0**SCORE_FRACTION_BITS)
LOG_2 = np.float32(0.69314718)
SQRT_2 = np.float32(1.41421356)
ROOT_HALF_BITS = np.int32(0x3F3504F3)
LOG_TERMS = tuple(
    np.float32(x)
    for x in (-0.1431986, 0.2233008, -0.2547246, 0.3322587, -0.4998505, 1.000013)
)
THREE_HALVES = np.float32(1.5)


def image_moments(site: Site, s1: F64, s2: F64) -> tuple[F32, F32]:
    """First and second moment of one image, corrected for the floor of ``a``.

    Args:
        s1, s2: Exact sums of a and a*a over the site's pixels.
    """
    h = np.float32(0.5 - 2.0 ** -(site.stat_shift + 1))
    reciprocal = ONE / np.float32(site.pixels)
    u1 = s1.astype(np.float32) * reciprocal
    u2 = s2.astype(np.float32) * reciprocal
    return u1 + h, (u2 + (TWO * h) * u1) + h * h


def image_mean(site: Site, s1: F64) -> F32:
    """First moment of one image alone; see :func:`image_moments`."""
    h = np.float32(0.5 - 2.0 ** -(site.stat_shift + 1))
    return np.asarray(s1.astype(np.float32) * (ONE / np.float32(site.pixels)) + h)


def momentum(images: int, warm: int, floor: float) -> np.float32:
    """Weight of image number ``images``, counted from 0 since the reset."""
    least = np.float32(floor)
    if warm == 0:
        return least
    return np.float32(max(least, ONE / np.float32(images + warm)))


def spread(e1: F32, e2: F32) -> F32:
    """Variance from first and second moment, never negative."""
    return np.asarray(np.maximum(e2 - e1 * e1, ZERO))


def make_table(
    site: Site, e1: F32, v: F32, static: Requant, *, shrinkage: float, published: bool
) -> Requant:
    """The requantisation that restores the clean mean and deviation.

    Args:
        site: Targets.
        e1, v: Running mean and variance.
        static: Whose clamp the table keeps.
        shrinkage: a, in [0, 1].
        published: Restore |gamma| instead of sqrt(gamma^2 + 1e-5).
    """
    a = np.float32(shrinkage)
    b = ONE - a
    unit = np.float32(2.0**site.stat_shift)
    mean = b * site.mean + a * e1
    variance = np.maximum(b * site.variance + a * v, site.variance * VARIANCE_FLOOR)
    gain = site.gain
    if published:
        gain = gain * rsqrt32(ONE + site.epsilon * site.inverse)
    factor = (gain * rsqrt32(variance + site.epsilon)) * (ONE / unit)
    shift = table_shift(factor)
    scale = np.float32(2.0**shift)
    most = np.float32(MULTIPLIER_MAX)
    m = np.minimum(np.floor(factor * scale + HALF), most).astype(np.int64)
    centre = np.floor(np.clip(mean * unit + HALF, *CENTRE_RANGE)).astype(np.int64)
    bias = np.floor(site.offset * scale).astype(np.int64) - centre * m
    bias = np.minimum(np.maximum(bias, -BIAS_MAX), BIAS_MAX)
    return Requant(m.astype(np.int16), bias, shift, static.lo, static.hi)


def table_shift(factor: F32) -> int:
    """Largest shift in [16, 31] at which every factor fits 15 bits.

    >>> table_shift(np.array([0.25], np.float32))
    16
    """
    fraction, exponent = np.frexp(factor.max())
    if fraction == 0:
        return 31
    overflows = np.floor(fraction * np.float32(2**15) + HALF) > MULTIPLIER_MAX
    return min(max(15 - int(exponent) - int(overflows), LEAST_SHIFT), 31)


def divergence(mean: F32, inverse: F32, e1: F32, v: F32) -> I64:
    """KL(running || clean) of each channel, with SCORE_FRACTION_BITS.

    Args:
        mean, inverse: Clean mean, and reciprocal of the clean variance.
        e1, v: Running.
    """
    r = np.maximum(v * inverse, VARIANCE_FLOOR)
    d = e1 - mean
    kl = HALF * (((r + (d * d) * inverse) - ONE) - log16(r))
    terms = np.floor(np.minimum(kl, KL_MAX) * SCORE_ONE + HALF)
    return np.asarray(terms, np.int64)


def distance(site: Site, mean: F32, centre: F32) -> I64:
    """Squared distance of each channel's mean, with SCORE_FRACTION_BITS.

    Args:
        site: Whose scatter from clean image to clean image is the unit.
        mean, centre: E[a] of the gate's window, and what it is compared with.
    """
    d = mean - centre
    capped = np.minimum((d * d) * site.precision, DISTANCE_MAX)
    return np.asarray(np.floor(capped * SCORE_ONE + HALF), np.int64)


def score(total: int, count: int) -> np.float32:
    """Mean of ``count`` terms that sum to ``total``; 0 of none."""
    if count == 0:
        return ZERO
    return (np.float32(total) / np.float32(count)) * (ONE / SCORE_ONE)


def log32(x: F32) -> F32:
    """Natural logarithm of normal positive numbers, the same bits everywhere.

    Source: log(m) = 2 atanh(s), s = (m - 1) / (m + 1), four terms of its series.

    >>> log32(np.array([1.0], np.float32)).tolist()
    [0.0]
    """
    fraction, exponent = np.frexp(x)
    m, e = fraction * TWO, exponent - 1
    high = m > SQRT_2
    m = np.where(high, m * HALF, m)
    e = np.where(high, e + 1, e).astype(np.float32)
    third, fifth, seventh, ninth = (ONE / np.float32(n) for n in (3, 5, 7, 9))
    f = m - ONE
    s = f / (TWO + f)
    z = s * s
    p = ((z * ninth + seventh) * z + fifth) * z + third
    return np.asarray(e * LOG_2 + (TWO * s) * (ONE + z * p))


def log16(x: F32) -> F32:
    """Natural logarithm of normal positive numbers within 2e-6; for the score.

    Source: a polynomial fitted to log(1 + f) / f for the least greatest error.

    >>> log16(np.array([1.0], np.float32)).tolist()
    [0.0]
    """
    bits = np.asarray(x, np.float32).view(np.int32)
    e = (bits - ROOT_HALF_BITS) >> np.int32(23)
    f = (bits - (e << np.int32(23))).view(np.float32) - ONE
    p: F32 = np.asarray(LOG_TERMS[0])
    for term in LOG_TERMS[1:]:
        p = p * f + term
    return np.asarray(e.astype(np.float32) * LOG_2 + p * f)


def rsqrt32(x: F32) -> F32:
    """1 / sqrt(x) of normal positive numbers, the same bits everywhere.

    Source: Newton's iteration for 1 / y^2 - x = 0, from an estimate that halves and
    negates the exponent.

    >>> float(rsqrt32(np.array([4.0], np.float32))[0])
    0.5
    """
    half = HALF * x
    bits = np.asarray(x, np.float32).view(np.uint32)
    y = (np.uint32(0x5F3759DF) - (bits >> np.uint32(1))).view(np.float32)
    for _ in range(3):
        y = y * (THREE_HALVES - (half * y) * y)
    return y
