"""Conversions of fp32.h against the definitions they stand for."""

from __future__ import annotations

import ctypes as c

import numpy as np
import pytest
from cbuild import ROOT, compile_shared, compilers
from hypothesis import example, given
from hypothesis import strategies as st

PROBE = ROOT / "tests/firmware/fp32_probe.c"
INCLUDE = f"-I{ROOT / 'firmware/src'}"
MOST = 2**47
TIES = st.builds(
    lambda odd, shift, off: (2 * odd + 1) * 2**shift + off,
    st.integers(2**23, 2**24 - 1),
    st.integers(0, 21),
    st.integers(-1, 1),
)
"""Half way between two floats, and one beside that."""


@pytest.fixture(scope="module", params=compilers())
def probe(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> c.CDLL:
    """The functions as one compiler makes them."""
    library = compile_shared(
        [PROBE],
        cc=request.param,
        flags=("-O2", INCLUDE),
        out_dir=tmp_path_factory.mktemp("fp32"),
    )
    library.probe_from_int48.restype = c.c_float
    library.probe_floor32.restype = c.c_int32
    return library


@given(x=TIES | st.integers(0, MOST), negative=st.booleans())
@example(x=0, negative=False)
@example(x=MOST, negative=True)
@example(x=2**24 + 1, negative=False)
def test_from_int48(probe: c.CDLL, x: int, negative: bool) -> None:
    """It is the cast, ties to even included."""
    value = -x if negative else x
    expected = np.float32(np.int64(value))
    assert float(expected) == probe.probe_from_int48(c.c_int64(value))


@given(x=st.floats(width=32, allow_nan=False))
@example(x=-0.5)
@example(x=2.0**31)
@example(x=-(2.0**31))
def test_floor32(probe: c.CDLL, x: float) -> None:
    """It is the floor, brought to the nearest end of int32 beyond it."""
    bounded = min(max(x, -(2.0**31)), 2.0**31 - 128)
    assert int(np.floor(bounded)) == probe.probe_floor32(c.c_float(x))
