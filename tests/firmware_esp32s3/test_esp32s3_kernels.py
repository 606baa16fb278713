"""The SIMD kernels pass the portable kernels' tests, and some of their own.

The imported tests run here on this module's ``lib``: the SIMD kernels through the
C model of their instructions, under the names of the portable ones.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from ctypes_kernels import Add, Pool
from integer_model import Geometry
from kernel_harness import FILLS, Memory
from simd_kernels import BUILDS, Kernels, build
from test_convolution_kernels import (  # noqa: F401
    ConvCase,
    run_conv,
    test_conv2d,
    test_conv2d_at_lane_boundaries,
    test_dwconv2d,
    test_statistics_saturate,
)
from test_simple_kernels import (  # noqa: F401
    test_add,
    test_avg_pool,
    test_dense,
    test_max_pool,
)


@pytest.fixture(scope="module", params=BUILDS)
def lib(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Kernels:
    """The kernels, optimised and under the sanitizer."""
    return Kernels(build(request.param, tmp_path_factory.mktemp("simd")))


def run_simd(lib: Kernels, case: ConvCase, *, depthwise: bool = False) -> None:
    """Compare a convolution that no SIMD kernel may decline."""
    before = lib.handled
    run_conv(lib, case, depthwise=depthwise)  # type: ignore[arg-type]
    assert lib.handled == before + 3


def square(
    size: int, c_in: int, c_out: int, *, kernel: int = 3, stride: int = 1, **more: Any
) -> ConvCase:
    """A convolution that keeps the size but for its stride."""
    pad = kernel // 2
    out = (size + 2 * pad - kernel) // stride + 1
    geometry = Geometry(
        (kernel, kernel),
        stride=(stride, stride),
        pads=(pad, pad),
        groups=more.pop("groups", 1),
    )
    return ConvCase((size, size), c_in, c_out, geometry, (out, out), **more)


@pytest.mark.parametrize(
    "case",
    [
        square(32, 3, 16),
        square(32, 16, 16),
        square(32, 16, 32, stride=2),
        square(32, 16, 32, kernel=1, stride=2),
        square(8, 64, 64),
    ],
)
def test_layers_of_resnet20(lib: Kernels, case: ConvCase) -> None:
    """The layers of a real network run on the SIMD kernels, exactly."""
    run_simd(lib, case)


@pytest.mark.parametrize("vectors", range(1, 14))
def test_every_length_of_a_sweep(lib: Kernels, vectors: int) -> None:
    """One to six vectors stay in registers; longer windows take more sweeps."""
    run_simd(lib, square(3, 16 * vectors, 9, kernel=1))


@pytest.mark.parametrize("kind", FILLS)
@pytest.mark.parametrize("shift", [0, 1, 2, 8, 16])
def test_statistics_with_any_shift(lib: Kernels, kind: str, shift: int) -> None:
    """Sums are exact where 2^(16 - k) is no int16, and over more than 511 pixels."""
    run_simd(lib, square(24, 5, 12, fill=kind, shift=shift))


def test_many_channels(lib: Kernels) -> None:
    """Wide layers, whose statistics are taken in short batches, are exact."""
    run_simd(lib, square(5, 48, 300, kernel=1))


@pytest.mark.parametrize("channels", [8, 15, 16, 17, 96])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("kind", FILLS)
def test_depthwise_layers(lib: Kernels, channels: int, stride: int, kind: str) -> None:
    """Depthwise layers run on the SIMD kernels, channel tails and extremes too."""
    case = square(9, channels, channels, stride=stride, groups=channels, fill=kind)
    run_simd(lib, case, depthwise=True)


def test_dilation_splits_the_slab(lib: Kernels) -> None:
    """A dilated kernel reads its own columns and rows only."""
    geometry = Geometry((3, 3), stride=(1, 2), dilation=(2, 3), pads=(2, 3))
    run_simd(lib, ConvCase((20, 20), 6, 20, geometry, (20, 10)))


def test_what_a_lane_cannot_hold_is_declined(lib: Kernels) -> None:
    """36 depthwise taps could overflow 20 bits: the portable kernel runs."""
    before = lib.handled
    geometry = Geometry((6, 6), groups=16)
    case = ConvCase((6, 6), 16, 16, geometry, (1, 1), "least")
    run_conv(lib, case, depthwise=True)  # type: ignore[arg-type]
    assert lib.handled == before


@pytest.mark.parametrize("count", [15, 16, 17, 33, 4096])
@pytest.mark.parametrize("value", [-128, 127])
def test_add_of_extremes(lib: Kernels, count: int, value: int) -> None:
    """The greatest multipliers stay within a lane, whatever the bias."""
    for bias in (0, -(2**31) + 2**24, 2**31 - 2**24):
        memory, before = Memory([]), lib.handled
        params = Add(count, 32767, 32767, bias, 23, -128, 127)
        x = np.full(count, value, np.int8)
        out = memory.reserve((count,), np.int8)
        lib.refold_add_ref(
            ctypes.byref(params), memory.put(x), memory.put(x), out.pointer
        )
        expected = np.clip(2 * value * 32767 + bias >> 23, -128, 127)
        assert {int(expected)} == set(out.array.tolist())
        assert memory.is_intact()
        assert lib.handled == before + 1


@pytest.mark.parametrize("offset", [1, 8, 15])
def test_unaligned_tensors_are_declined(lib: Kernels, offset: int) -> None:
    """Loads would drop the low bits of such addresses: the portable kernel runs."""
    memory, before = Memory([]), lib.handled
    params = Add(32, 1, 0, 0, 0, -128, 127)
    x = np.arange(-24, 24, dtype=np.int8)
    pointer = memory.put(x)
    moved = ctypes.c_void_p((pointer.value or 0) + offset)
    out = memory.reserve((32,), np.int8)
    lib.refold_add_ref(ctypes.byref(params), moved, pointer, out.pointer)
    np.testing.assert_array_equal(x[offset : offset + 32], out.array)
    assert lib.handled == before


@pytest.mark.parametrize("value", [-128, 127, None])
def test_the_largest_global_pool(lib: Kernels, value: int | None) -> None:
    """4095 pixels at an end of the range just fit into a lane."""
    memory, before = Memory([]), lib.handled
    counts = memory.put(np.array([4095], np.uint32))
    m, b = memory.put(np.array([1], np.int16)), memory.put(np.array([0], np.int64))
    params = Pool((63, 65, 32), (1, 1, 32), 63, 65, 1, 1, 0, 0, 0, 0, 0, 3, 1, counts)
    params.requant.m, params.requant.b, params.requant.shift = m.value, b.value, 12
    params.requant.lo, params.requant.hi = -128, 127
    x = np.random.default_rng(0).integers(-128, 128, (4095, 32)).astype(np.int8)
    if value is not None:
        x[:] = value
    out = memory.reserve((32,), np.int8)
    lib.refold_avg_pool_ref(ctypes.byref(params), memory.put(x), out.pointer)
    assert (x.sum(axis=0, dtype=int) >> 12).tolist() == out.array.tolist()
    assert lib.handled == before + 1
