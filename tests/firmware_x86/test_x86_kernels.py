"""The x86 kernels pass the portable kernels' tests, and some of their own.

The imported tests run here on this module's ``lib``: the vector kernels of one
instruction set, under the names of the portable ones.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kernel_harness
import numpy as np
import pytest
from cbuild import RUNTIME_SOURCES, compile_shared, compilers
from ctypes_kernels import Add, Pool
from guard_page import PageEnd
from integer_model import Geometry
from kernel_harness import Memory
from test_convolution_kernels import (  # noqa: F401
    ConvCase,
    run_conv,
    test_conv2d,
    test_conv2d_at_lane_boundaries,
    test_dwconv2d,
    test_statistics_saturate,
)
from test_simple_kernels import test_add, test_avg_pool, test_dense  # noqa: F401

SOURCES = [p for p in RUNTIME_SOURCES if p.parent.name in {"kernels", "x86"}]
INSTRUCTION_SETS = {
    "avx512vnni": (
        "-mavx2 -mavx512f -mavx512bw -mavx512vl -mavx512vnni",
        "avx2 avx512f avx512bw avx512vl avx512_vnni",
    ),
    "avx2": ("-mavx2 -mno-avx512f", "avx2"),
}
"""Compiler flags, and the CPU flags that running the code needs."""
OPERATORS = ("conv2d", "dwconv2d", "dense", "dense_s32", "add", "avg_pool")


def cpu_flags() -> set[str]:
    """What /proc/cpuinfo says the CPU can do; skip where it says nothing."""
    if platform.machine() not in {"x86_64", "AMD64"}:
        pytest.skip(f"a {platform.machine()} machine has no x86 kernels")
    info = Path("/proc/cpuinfo")
    if not info.exists():
        pytest.skip("no /proc/cpuinfo to tell what the CPU can do")
    lines = info.read_text(encoding="utf-8").splitlines()
    return set(next((line for line in lines if line.startswith("flags")), "").split())


class Kernels:
    """A library whose ``refold_<op>_ref`` are the vector kernels.

    Where one declines, the portable kernel runs, as in dispatch.c; ``handled``
    counts the calls that none declined.
    """

    def __init__(self, lib: ctypes.CDLL) -> None:
        self._lib = lib
        self.handled = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        operator = name.removeprefix("refold_").removesuffix("_ref")
        if operator not in OPERATORS:
            return getattr(self._lib, name)  # type: ignore[no-any-return]
        vector = getattr(self._lib, f"refold_{operator}_x86")
        vector.restype = ctypes.c_bool

        def run(*arguments: Any) -> None:
            if vector(*arguments):
                self.handled += 1
            else:
                getattr(self._lib, name)(*arguments)

        return run


@pytest.fixture(scope="session", params=INSTRUCTION_SETS)
def isa(request: pytest.FixtureRequest) -> str:
    """An instruction set that this CPU has."""
    needed = set(INSTRUCTION_SETS[request.param][1].split())
    if missing := needed - cpu_flags():
        pytest.skip(f"the CPU lacks {', '.join(sorted(missing))}")
    return str(request.param)


@pytest.fixture(scope="session", params=compilers())
def lib(
    request: pytest.FixtureRequest, isa: str, tmp_path_factory: pytest.TempPathFactory
) -> Kernels:
    """The kernels, compiled for one instruction set by one compiler."""
    flags = ("-O3", *INSTRUCTION_SETS[isa][0].split(), "-Wall", "-Wextra")
    out: Path = tmp_path_factory.mktemp("x86")
    library = compile_shared(
        SOURCES, cc=request.param, flags=(*flags, "-Wpedantic", "-Werror"), out_dir=out
    )
    return Kernels(library)


def run_vector(lib: Kernels, case: ConvCase, *, depthwise: bool = False) -> None:
    """Compare a convolution that no vector kernel may decline."""
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
    """The layers of a real network run on the vector kernels, exactly."""
    run_vector(lib, case)


@pytest.mark.parametrize("width", [1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33])
@pytest.mark.parametrize("channels", [16, 24])
def test_rows_that_fill_no_tile(lib: Kernels, width: int, channels: int) -> None:
    """Pixels past the end of a row enter neither output nor statistics."""
    geometry = Geometry((3, 3), pads=(1, 1))
    run_vector(lib, ConvCase((3, width), 5, channels, geometry, (3, width)))


@pytest.mark.parametrize("channels", [8, 15, 16, 17, 96])
@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_layers(lib: Kernels, channels: int, stride: int) -> None:
    """Depthwise layers run on the vector kernels, channel tails included."""
    case = square(17, channels, channels, stride=stride, groups=channels)
    run_vector(lib, case, depthwise=True)


@pytest.mark.parametrize("shift", [0, 4])
@pytest.mark.parametrize("kind", ["most", "least", "random"])
def test_statistics_of_many_extreme_pixels(lib: Kernels, kind: str, shift: int) -> None:
    """Sums of squares far beyond 32 bits are exact, by tile and by row."""
    run_vector(lib, square(40, 64, 18, fill=kind, shift=shift))


def test_a_pointwise_layer_is_one_long_row(lib: Kernels) -> None:
    """Small images of a pointwise layer are exact across their rows."""
    run_vector(lib, square(5, 40, 33, kernel=1))


def test_an_input_larger_than_the_slab(lib: Kernels) -> None:
    """An input of 200 KB is convolved in several slabs; statistics add up."""
    run_vector(lib, square(56, 64, 8))


def test_dilation_splits_the_runs(lib: Kernels) -> None:
    """A dilated kernel reads its own columns and rows only."""
    geometry = Geometry((3, 3), dilation=(2, 3), pads=(2, 3))
    run_vector(lib, ConvCase((20, 20), 6, 20, geometry, (20, 20)))


@pytest.mark.parametrize("case", [square(2, 6000, 1, kernel=1), square(6, 600, 2)])
def test_weights_that_do_not_fit_are_declined(lib: Kernels, case: ConvCase) -> None:
    """A filter beyond the stack's share is left to the portable kernel."""
    before = lib.handled
    run_conv(lib, case, depthwise=False)  # type: ignore[arg-type]
    assert lib.handled == before


@pytest.mark.parametrize("channels", [3, 17, 40])
@pytest.mark.parametrize("depthwise", [False, True])
def test_nothing_is_read_past_the_end(
    lib: Kernels, monkeypatch: pytest.MonkeyPatch, channels: int, depthwise: bool
) -> None:
    """Input, weights and tables may end at a page that cannot be read."""
    monkeypatch.setattr(kernel_harness, "guard", PageEnd)
    groups = channels if depthwise else 1
    case = square(7, channels, channels if depthwise else 19, groups=groups)
    run_vector(lib, case, depthwise=depthwise)


@pytest.mark.parametrize("count", [31, 32, 33, 4096])
def test_add_of_extremes(lib: Kernels, count: int) -> None:
    """-128 with the greatest multipliers stays within 32 bits."""
    memory = Memory([])
    params = Add(count, 32767, 32767, 0, 23, -128, 127)
    x = np.full(count, -128, np.int8)
    out = memory.reserve((count,), np.int8)
    lib.refold_add_ref(ctypes.byref(params), memory.put(x), memory.put(x), out.pointer)
    assert {-128 * 2 * 32767 >> 23} == set(out.array.tolist())
    assert memory.is_intact()


def test_a_global_pool_is_not_declined(lib: Kernels) -> None:
    """The last pool of a classifier runs on the vector kernel."""
    memory = Memory([])
    counts, before = memory.put(np.array([64], np.uint32)), lib.handled
    m, b = memory.put(np.array([512], np.int16)), memory.put(np.array([0], np.int64))
    params = Pool((8, 8, 20), (1, 1, 20), 8, 8, 1, 1, 0, 0, 0, 0, 0, 3, 1, counts)
    params.requant.m, params.requant.b, params.requant.shift = m.value, b.value, 15
    params.requant.lo, params.requant.hi = -128, 127
    x = np.random.default_rng(0).integers(-128, 128, (64, 20)).astype(np.int8)
    out = memory.reserve((20,), np.int8)
    lib.refold_avg_pool_ref(ctypes.byref(params), memory.put(x), out.pointer)
    assert (x.sum(axis=0, dtype=int) // 64).tolist() == out.array.tolist()
    assert lib.handled == before + 1
