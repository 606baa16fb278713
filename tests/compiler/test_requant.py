"""The rounding of docs/numerics.md, against plain integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from refoldc.ir import Bounds, Quant, Requant
from refoldc.requant import (
    affine,
    apply,
    channel_requant,
    clamp_bounds,
    exact_units,
    largest_shift,
    least_output_scale,
    requantise,
)

ACC = st.integers(-(2**31) + 1, 2**31 - 1)


@given(
    acc=ACC,
    m=st.integers(0, 32767),
    b=st.integers(-(2**38), 2**38),
    shift=st.integers(0, 31),
)
def test_apply_is_exact(acc: int, m: int, b: int, shift: int) -> None:
    """The float64 form equals 64-bit integers at every legal operand."""
    table = Requant(np.array([m], np.int16), np.array([b], np.int64), shift)
    assert (acc * m + b) >> shift == apply(np.array([acc], np.float64), table)[0]


def test_requantise_floors_and_clamps() -> None:
    """-1 >> 16 is -1, and results stay within lo and hi."""
    table = Requant(np.array([1], np.int16), np.array([0], np.int64), 16, -5, 6)
    acc = np.array([[-1], [-(2**30)], [2**30], [65536]], np.float32)
    assert [[-1], [-5], [6], [1]] == requantise(acc, table).tolist()


def test_affine_contains_zero() -> None:
    """A range is widened to 0, whose stored value is then exact."""
    assert Quant(2 / 255, -128) == affine(1.0, 2.0)
    assert Quant(2 / 255, 127) == affine(-2.0, -1.0)
    assert Quant(1.0, -128) == affine(0.0, 0.0)


def test_affine_rounds_the_zero_point_half_up() -> None:
    """-128 - min/scale = -0.5 becomes 0."""
    assert 0 == affine(-127.5, 127.5).zero_point


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (Bounds(), (-128, 127)),
        (Bounds(0.0), (-28, 127)),
        (Bounds(0.0, 6.0), (-28, 32)),
        (Bounds(-1000.0, 1000.0), (-128, 127)),
    ],
)
def test_clamp_bounds(bounds: Bounds, expected: tuple[int, int]) -> None:
    """Activations become stored values of the output's scale."""
    assert expected == clamp_bounds(bounds, Quant(0.1, -28))


def test_largest_shift_is_where_the_multiplier_still_fits() -> None:
    """One more bit would exceed 32767, except at the limits of the range."""
    assert 16 == largest_shift(32767 / 65536, 16, 31)
    assert 17 == largest_shift(0.2499, 16, 31)
    assert 31 == largest_shift(0.0, 16, 31)
    assert 14 == largest_shift(1.0, 0, 23)


@given(
    units=st.lists(st.floats(1e-12, 10.0), min_size=1, max_size=5),
    bias=st.floats(-1e4, 1e4),
    scale=st.floats(1e-3, 10.0),
)
def test_exact_units_leave_one_rounding(
    units: list[float], bias: float, scale: float
) -> None:
    """Multipliers are integers as they come, and biases fit int32 in their unit."""
    raw, real_bias = np.array(units), np.full(len(units), bias)
    out = Quant(max(scale, least_output_scale(raw, real_bias)), 3)
    shift = channel_requant(raw, real_bias, out).shift
    exact = exact_units(raw, real_bias, out, shift)
    steps = exact / out.scale * 2.0**shift
    assert np.all(exact >= raw * (1 - 1 / 32767))
    np.testing.assert_allclose(np.rint(steps), steps, rtol=1e-12)
    table = channel_requant(exact, real_bias, out)
    assert np.all(table.m == np.rint(steps))
    assert np.abs(np.rint(real_bias / exact)).max() < 2**31
    assert np.abs(table.b).max() <= 2**38


def test_a_large_bias_lowers_the_shift() -> None:
    """b stays within 2**38 by giving up bits, not by clipping."""
    table = channel_requant(np.array([1e-6]), np.array([5000.0]), Quant(1.0, 0))
    assert 25 == table.shift  # 5000.5 * 2**25 <= 2**38 < 5000.5 * 2**26
    assert int(5000.5 * 2**25) == table.b[0]
