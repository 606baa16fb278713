"""Dense, add, pools and tables against int64 NumPy, bit for bit."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
import pytest
from ctypes_kernels import (
    Add,
    Concat,
    ConcatPart,
    Dense,
    InputTable,
    Mul,
    Pick,
    Pool,
    Requant,
    Shape,
    Table,
)
from hypothesis import given
from hypothesis import strategies as st
from integer_model import Geometry, convolve
from kernel_harness import FILLS, SETTINGS, Memory, fill, requantisation, weights_of
from numpy.typing import NDArray


@pytest.mark.parametrize("inputs", [1, 15, 16, 17, 64, 100])
@pytest.mark.parametrize("kind", FILLS)
@pytest.mark.parametrize("logits", [False, True])
def test_dense(lib: ctypes.CDLL, inputs: int, kind: str, logits: bool) -> None:
    """Dense layers equal the model; logits are int32 and not clamped."""
    rng = np.random.default_rng(inputs)
    outputs, zero = 11, int(rng.integers(-128, 128))
    x = fill(kind, rng, (1, 1, inputs))
    w = weights_of(kind, rng, (outputs, 1, 1, inputs))
    r = requantisation(rng, outputs)
    acc = convolve(x, w, zero, Geometry((1, 1)), (1, 1))[0, 0]
    expected = r.apply(acc).astype(np.int32) if logits else r.clamp(acc)

    memory = Memory([])
    offset = (-zero * w.astype(np.int64).sum(axis=(1, 2, 3))).astype(np.int32)
    params = Dense(
        inputs, outputs, memory.put(w), memory.put(offset), memory.requant(r)
    )
    out = memory.reserve((outputs,), np.int32 if logits else np.int8)
    run = lib.refold_dense_s32_ref if logits else lib.refold_dense_ref
    run(ctypes.byref(params), memory.put(x), out.pointer)

    np.testing.assert_array_equal(expected, out.array)
    assert memory.is_intact()


@pytest.mark.parametrize("count", [1, 15, 16, 17, 1000])
@pytest.mark.parametrize("shift", [0, 14, 23])
def test_add(lib: ctypes.CDLL, count: int, shift: int) -> None:
    """Sums equal the model, also where the output overwrites an operand."""
    rng = np.random.default_rng(count + shift)
    a, b = (fill("random", rng, (count,)) for _ in range(2))
    m1, m2 = (int(v) for v in rng.integers(0, 32768, 2))
    bias, (lo, hi) = int(rng.integers(-(2**23), 2**23)), (-100, 90)
    total = a.astype(np.int64) * m1 + b.astype(np.int64) * m2 + bias
    expected = np.clip(total >> shift, lo, hi).astype(np.int8)

    memory = Memory([])
    params = Add(count, m1, m2, bias, shift, lo, hi)
    pointer_a, pointer_b = memory.put(a), memory.put(b)
    out = memory.reserve((count,), np.int8)
    lib.refold_add_ref(ctypes.byref(params), pointer_a, pointer_b, out.pointer)
    np.testing.assert_array_equal(expected, out.array)
    lib.refold_add_ref(ctypes.byref(params), pointer_a, pointer_b, pointer_a)
    np.testing.assert_array_equal(expected, memory.buffers[0].array)
    assert memory.is_intact()


@pytest.mark.parametrize("channels", [1, 5, 16])
@pytest.mark.parametrize("axes", ["none", "positions", "channels", "both"])
@pytest.mark.parametrize("shift", [0, 17, 31])
@pytest.mark.parametrize("kind", ["random", "least"])
def test_mul(lib: ctypes.CDLL, channels: int, axes: str, shift: int, kind: str) -> None:
    """Products equal the model, whatever is broadcast, in place of a too."""
    rng = np.random.default_rng(channels + shift)
    positions = 6
    shape = (
        1 if axes in ("positions", "both") else positions,
        1 if axes in ("channels", "both") else channels,
    )
    a, b = fill(kind, rng, (positions, channels)), fill(kind, rng, shape)
    za, zb = (127, 127) if kind == "least" else (-3, 40)
    m, bias = 32767 if kind == "least" else 20011, int(rng.integers(-(2**38), 2**38))
    product = (a.astype(np.int64) - za) * (b.astype(np.int64) - zb) * m
    expected = np.clip((product + bias) >> shift, -90, 101).astype(np.int8)

    memory = Memory([])
    steps = shape[1] if shape[0] > 1 else 0, int(shape[1] > 1)
    params = Mul(positions, channels, *steps, za, zb, m, bias, shift, -90, 101)
    pointer_a, pointer_b = memory.put(a), memory.put(b)
    out = memory.reserve((positions, channels), np.int8)
    lib.refold_mul_ref(ctypes.byref(params), pointer_a, pointer_b, out.pointer)
    np.testing.assert_array_equal(expected, out.array)
    lib.refold_mul_ref(ctypes.byref(params), pointer_a, pointer_b, pointer_a)
    np.testing.assert_array_equal(expected, memory.buffers[0].array)
    assert memory.is_intact()


@dataclass(frozen=True)
class PoolCase:
    """One pool; pads are top, left, bottom, right."""

    size: tuple[int, int]
    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pads: tuple[int, int, int, int]
    include_pad: bool
    seed: int

    @property
    def out(self) -> tuple[int, int]:
        """Output size, windows that fit the padded image."""
        spare = [
            self.size[i] + self.pads[i] + self.pads[i + 2] - self.kernel[i]
            for i in (0, 1)
        ]
        return spare[0] // self.stride[0] + 1, spare[1] // self.stride[1] + 1


@st.composite
def pool_cases(draw: st.DrawFn) -> PoolCase:
    """Windows that always see the image, up to a global pool."""
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    before, after = (
        draw(st.tuples(*[st.integers(0, side - 1) for side in kernel])) for _ in "ab"
    )
    size = draw(st.tuples(*[st.integers(side, 8) for side in kernel]))
    if draw(st.booleans()):
        kernel, before, after = size, (0, 0), (0, 0)
    return PoolCase(
        size=size,
        channels=draw(st.integers(1, 40)),
        kernel=kernel,
        stride=draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        pads=(*before, *after),
        include_pad=draw(st.booleans()),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


def window(
    x: NDArray[np.int8], case: PoolCase, at: tuple[int, int], padding: int | None
) -> NDArray[np.int64]:
    """Values that output ``at`` sees, [positions, C]; padding None is left out."""
    seen = []
    for tap in np.ndindex(*case.kernel):
        place = [at[i] * case.stride[i] - case.pads[i] + tap[i] for i in (0, 1)]
        if all(0 <= place[i] < case.size[i] for i in (0, 1)):
            seen.append(x[place[0], place[1]].astype(np.int64))
        elif padding is not None:
            seen.append(np.full(case.channels, padding, np.int64))
    return np.array(seen)


def pool_params(
    memory: Memory, case: PoolCase, zero: int, counts: NDArray[np.uint32], r: Requant
) -> Pool:
    """The C structure of ``case``."""
    return Pool(
        Shape(*case.size, case.channels),
        Shape(*case.out, case.channels),
        *(*case.kernel, *case.stride, *case.pads, case.include_pad, zero, len(counts)),
        memory.put(counts),
        r,
    )


@SETTINGS
@given(case=pool_cases())
def test_max_pool(lib: ctypes.CDLL, case: PoolCase) -> None:
    """The largest value inside the image wins; a fused activation clamps it."""
    rng = np.random.default_rng(case.seed)
    x = fill("random", rng, (*case.size, case.channels))
    r = requantisation(rng, 1)
    expected = np.zeros((*case.out, case.channels), np.int8)
    for at in np.ndindex(*case.out):
        expected[at] = np.clip(window(x, case, at, None).max(axis=0), r.lo, r.hi)

    memory = Memory([])
    counts = np.zeros(1, np.uint32)
    params = pool_params(memory, case, 0, counts, memory.requant(r))
    out = memory.reserve(expected.shape, np.int8)
    lib.refold_max_pool_ref(ctypes.byref(params), memory.put(x), out.pointer)

    np.testing.assert_array_equal(expected, out.array)
    assert memory.is_intact()


@SETTINGS
@given(case=pool_cases())
def test_avg_pool(lib: ctypes.CDLL, case: PoolCase) -> None:
    """Each window's sum is scaled by the entry of its own count."""
    rng = np.random.default_rng(case.seed)
    zero = int(rng.integers(-128, 128))
    x = fill("random", rng, (*case.size, case.channels))
    seen = {
        at: window(x, case, at, zero if case.include_pad else None)
        for at in np.ndindex(*case.out)
    }
    counts = np.unique([len(values) for values in seen.values()]).astype(np.uint32)
    r = requantisation(rng, len(counts), least_shift=0)
    expected = np.zeros((*case.out, case.channels), np.int8)
    for at, values in seen.items():
        i = int(np.searchsorted(counts, len(values)))
        scaled = (values.sum(axis=0) * int(r.m[i]) + r.b[i]) >> r.shift
        expected[at] = np.clip(scaled, r.lo, r.hi)

    memory = Memory([])
    params = pool_params(memory, case, zero, counts, memory.requant(r))
    out = memory.reserve(expected.shape, np.int8)
    lib.refold_avg_pool_ref(ctypes.byref(params), memory.put(x), out.pointer)

    np.testing.assert_array_equal(expected, out.array)
    assert memory.is_intact()


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("widths", [(5,), (1, 16), (7, 1, 17, 4)])
def test_concat(lib: ctypes.CDLL, rows: int, widths: tuple[int, ...]) -> None:
    """Each row is a row of every operand, rescaled by its own numbers."""
    rng = np.random.default_rng(sum(widths))
    operands = [fill("random", rng, (rows, width)) for width in widths]
    parts = [
        ConcatPart(
            width,
            int(rng.integers(0, 32768)),
            int(rng.integers(-(2**23), 2**23)),
            int(rng.integers(0, 24)),
        )
        for width in widths
    ]
    scaled = [
        np.clip((x.astype(np.int64) * part.m + part.bias) >> part.shift, -128, 127)
        for x, part in zip(operands, parts, strict=True)
    ]
    expected = np.concatenate(scaled, axis=1).astype(np.int8)

    memory = Memory([])
    params = Concat(rows, len(parts), (ConcatPart * len(parts))(*parts))
    pointers = (ctypes.c_void_p * len(parts))(*[memory.put(x) for x in operands])
    out = memory.reserve(expected.shape, np.int8)
    lib.refold_concat_ref(ctypes.byref(params), pointers, out.pointer)

    np.testing.assert_array_equal(expected, out.array)
    assert memory.is_intact()


@SETTINGS
@given(
    size=st.tuples(*[st.integers(1, 6)] * 3),
    index=st.tuples(*[st.lists(st.integers(-1, 5), min_size=1, max_size=9)] * 3),
    filler=st.integers(-128, 127),
)
def test_pick(
    lib: ctypes.CDLL,
    size: tuple[int, int, int],
    index: tuple[list[int], list[int], list[int]],
    filler: int,
) -> None:
    """Each output is one input, or the fill where an axis has no position."""
    x = fill("random", np.random.default_rng(1), size)
    places = [np.minimum(axis, size[i] - 1) for i, axis in enumerate(index)]
    expected = np.full([len(axis) for axis in index], filler, np.int8)
    for at in np.ndindex(*expected.shape):
        y, row, c = (places[i][at[i]] for i in range(3))
        if min(y, row, c) >= 0:
            expected[at] = x[y, row, c]

    memory = Memory([])
    lists = [memory.put(place.astype(np.uint16)) for place in places]
    params = Pick(Shape(*size), Shape(*expected.shape), *lists, filler)
    out = memory.reserve(expected.shape, np.int8)
    lib.refold_pick_ref(ctypes.byref(params), memory.put(x), out.pointer)

    np.testing.assert_array_equal(expected, out.array)
    assert memory.is_intact()


@pytest.mark.parametrize("count", [1, 255, 256, 257])
@pytest.mark.parametrize("channels", [1, 3])
def test_table(lib: ctypes.CDLL, count: int, channels: int) -> None:
    """Every int8 value is looked up, in place too, in the table of its channel."""
    rng = np.random.default_rng(count)
    x = np.resize(np.arange(-128, 128, dtype=np.int8), (count, channels))
    table = fill("random", rng, (channels, 256))
    expected = table[np.arange(channels), x.astype(int) + 128]

    memory = Memory([])
    pointer = memory.put(x)
    params = Table(x.size, channels, memory.put(table))
    lib.refold_table_ref(ctypes.byref(params), pointer, pointer)

    np.testing.assert_array_equal(expected, memory.buffers[0].array)
    assert memory.is_intact()


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_input(lib: ctypes.CDLL, channels: int) -> None:
    """Every pixel value goes through its channel's table."""
    rng = np.random.default_rng(channels)
    pixels = np.resize(np.arange(256, dtype=np.uint8), (300, channels))
    table = fill("random", rng, (channels, 256))
    expected = table[np.arange(channels), pixels]

    memory = Memory([])
    params = InputTable(len(pixels), channels, memory.put(table))
    out = memory.reserve(expected.shape, np.int8)
    lib.refold_input_ref(ctypes.byref(params), memory.put(pixels), out.pointer)

    np.testing.assert_array_equal(expected, out.array)
    assert memory.is_intact()
