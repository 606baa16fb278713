"""The noise of a difference of losses, against NumPy."""

from __future__ import annotations

import ctypes as c

import numpy as np
import pytest
from ctypes_kernels import guard

MOST = float(np.finfo(np.float32).max)


@pytest.mark.parametrize("count", [2, 3, 16, 255])
@pytest.mark.parametrize("apart", [0, 1000])
def test_paired_error(pace: c.CDLL, count: int, apart: float) -> None:
    """It is that of the differences, whatever both losses have in common."""
    rng = np.random.default_rng(count)
    a = rng.normal(5, 2, count).astype(np.float32)
    b = (a + rng.normal(apart, 0.5, count)).astype(np.float32)
    differences = (b - a).astype(float)
    expected = differences.std(ddof=1) / np.sqrt(count)
    held = guard(a), guard(b)
    error = pace.refold_paired_error(*(h.pointer for h in held), c.c_uint32(count))
    assert expected == pytest.approx(error, rel=1e-4)


def test_one_image_says_nothing_of_noise(pace: c.CDLL) -> None:
    """With a single difference every improvement may be chance."""
    one = guard(np.float32([1]))
    assert MOST == pace.refold_paired_error(one.pointer, one.pointer, c.c_uint32(1))
