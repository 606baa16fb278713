"""Convolutions against an int64 model, bit for bit."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import pytest
from ctypes_kernels import (
    Conv2d,
    Moments,
    Shape,
)
from hypothesis import given
from hypothesis import strategies as st
from integer_model import Geometry, convolve, moments
from kernel_harness import FILLS, SETTINGS, Memory, fill, requantisation, weights_of


@dataclass(frozen=True)
class ConvCase:
    """One convolution; equal cases have equal data."""

    size: tuple[int, int]
    c_in: int
    c_out: int
    geometry: Geometry
    out: tuple[int, int]
    fill: str = "random"
    shift: int = 4
    seed: int = 0


@st.composite
def conv_cases(draw: st.DrawFn, *, depthwise: bool = False) -> ConvCase:
    """Sizes around vector lanes, any stride, padding, dilation and grouping."""

    def pair(low: int, high: int) -> tuple[int, int]:
        return draw(st.tuples(*[st.integers(low, high)] * 2))

    channels = draw(st.integers(1, 40))
    groups = channels if depthwise else draw(st.sampled_from([1, 1, 1, 2, 3]))
    size, kernel, stride = pair(1, 9), pair(1, 5), pair(1, 3)
    dilation, pads, after = pair(1, 2), pair(0, 3), pair(0, 3)
    spare = [
        size[i] + pads[i] + after[i] - (kernel[i] - 1) * dilation[i] - 1 for i in (0, 1)
    ]
    out = tuple(max(spare[i], 0) // stride[i] + 1 for i in (0, 1))
    c_out = channels if depthwise else groups * draw(st.integers(1, 40 // groups))
    return ConvCase(
        size=size,
        c_in=channels if depthwise else groups * max(channels // groups, 1),
        c_out=c_out,
        geometry=Geometry(kernel, stride, dilation, pads, groups),
        out=(out[0], out[1]),
        fill=draw(st.sampled_from(FILLS)),
        shift=draw(st.integers(0, 11)),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def run_conv(lib: ctypes.CDLL, case: ConvCase, *, depthwise: bool) -> list[int]:
    """Compare one convolution: output, statistics, both, and no stray write.

    Returns:
        S1, for a look at what was compared.
    """
    rng = np.random.default_rng(case.seed)
    g = case.geometry
    zero = int(rng.integers(-128, 128))
    x = fill(case.fill, rng, (*case.size, case.c_in))
    w = weights_of(case.fill, rng, (case.c_out, *g.kernel, case.c_in // g.groups))
    r = requantisation(rng, case.c_out)

    acc = convolve(x, w, zero, g, case.out)
    expected, (s1, s2) = r.clamp(acc), moments(acc, case.shift)

    name = "refold_dwconv2d" if depthwise else "refold_conv2d"
    memory = Memory([])
    stored = w[..., 0].transpose(1, 2, 0).copy() if depthwise else w
    offset = (-zero * w.astype(np.int64).sum(axis=(1, 2, 3))).astype(np.int32)
    params = Conv2d(
        Shape(*x.shape),
        Shape(*case.out, case.c_out),
        *(*g.kernel, *g.stride, *g.dilation, *g.pads, g.groups, zero),
        memory.put(stored),
        memory.put(offset),
        memory.requant(r),
    )
    scratch_bytes = getattr(lib, f"{name}_scratch_bytes")
    scratch_bytes.restype = ctypes.c_size_t
    scratch = memory.reserve((scratch_bytes(ctypes.byref(params)),), np.uint8)
    out = memory.reserve(expected.shape, np.int8)
    sums = [memory.reserve((case.c_out,), np.int64) for _ in range(2)]
    statistics = Moments(sums[0].pointer, sums[1].pointer, case.shift)
    pointer = memory.put(x)

    for wants_out, wants_sums in ((True, True), (True, False), (False, True)):
        out.array[...] = 0x5A
        for s in sums:
            s.array[...] = -1
        getattr(lib, f"{name}_ref")(
            ctypes.byref(params),
            ctypes.byref(params.requant),
            pointer,
            out.pointer if wants_out else None,
            scratch.pointer,
            ctypes.byref(statistics) if wants_sums else None,
        )
        if wants_out:
            np.testing.assert_array_equal(expected, out.array)
        if wants_sums:
            np.testing.assert_array_equal([s1, s2], [s.array for s in sums])
        assert memory.is_intact()
    return [int(total) for total in s1]


@SETTINGS
@given(case=conv_cases())
def test_conv2d(lib: ctypes.CDLL, case: ConvCase) -> None:
    """A convolution of any shape equals the model, with its statistics."""
    run_conv(lib, case, depthwise=False)


@SETTINGS
@given(case=conv_cases(depthwise=True))
def test_dwconv2d(lib: ctypes.CDLL, case: ConvCase) -> None:
    """A depthwise convolution of any shape equals the model."""
    run_conv(lib, case, depthwise=True)


@pytest.mark.parametrize("channels", [1, 15, 16, 17, 31, 32, 33])
@pytest.mark.parametrize("kind", FILLS)
def test_conv2d_at_lane_boundaries(lib: ctypes.CDLL, channels: int, kind: str) -> None:
    """Channel counts around the width of vectors are exact at the extremes."""
    geometry = Geometry((3, 3), pads=(1, 1))
    case = ConvCase((5, 5), channels, channels, geometry, (5, 5), kind)
    run_conv(lib, case, depthwise=False)


def test_statistics_saturate(lib: ctypes.CDLL) -> None:
    """Accumulators beyond 16 bits enter the statistics as 2^15 - 1."""
    geometry = Geometry((5, 5))
    case = ConvCase((6, 6), 40, 3, geometry, (2, 2), "most", shift=0)
    assert [4 * 32767] * 3 == run_conv(lib, case, depthwise=False)
