"""The model of the instructions behaves as the manual says the silicon does."""

from __future__ import annotations

import ctypes as c
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from simd_kernels import build

CLASSES = 5
LANES_40 = 8


class Pie(c.Structure):
    """refold_pie."""

    _fields_ = (
        ("q", (c.c_int8 * 16) * 8),
        ("accx", c.c_int64),
        ("qacc", c.c_int64 * LANES_40),
        ("count", c.c_uint32 * CLASSES),
    )

    def set8(self, register: int, values: NDArray[np.int8]) -> None:
        """Fill a register with sixteen lanes."""
        self.q[register][:] = values.astype(np.int8).tolist()

    def get(self, register: int, kind: str) -> list[int]:
        """The lanes of a register."""
        return np.frombuffer(bytes(self.q[register]), kind).tolist()  # type: ignore[no-any-return]

    def lanes20(self) -> list[int]:
        """The twenty-bit lanes of QACC."""
        halves = [(lane >> shift) & 0xFFFFF for lane in self.qacc for shift in (0, 20)]
        return [(half ^ 0x80000) - 0x80000 for half in halves]


@pytest.fixture(scope="module")
def lib(tmp_path_factory: pytest.TempPathFactory) -> c.CDLL:
    """The model, with the kernels."""
    folder: Path = tmp_path_factory.mktemp("model")
    return build("fast", folder)


@pytest.fixture
def memory() -> NDArray[np.int8]:
    """64 aligned bytes that count up."""
    raw = np.zeros(96, np.int8)
    start = -raw.ctypes.data % 16
    raw[start : start + 64] = np.arange(64)
    return raw[start : start + 64]


def at(memory: NDArray[np.int8], offset: int = 0) -> c.c_void_p:
    """An address in ``memory``."""
    return c.c_void_p(memory.ctypes.data + offset)


def step(bytes_: int) -> c.c_ssize_t:
    """A pointer increment."""
    return c.c_ssize_t(bytes_)


def test_addresses_are_truncated_but_pointers_are_not(
    lib: c.CDLL, memory: NDArray[np.int8]
) -> None:
    """A load at 21 reads from 16 and leaves the pointer at 37."""
    pie = Pie()
    lib.refold_pie_vld_128.restype = c.c_void_p
    end = lib.refold_pie_vld_128(c.byref(pie), 3, at(memory, 21), step(16))
    assert list(range(16, 32)) == pie.get(3, "i1")
    assert memory.ctypes.data + 37 == end


def test_a_fused_load_replaces_what_was_multiplied(
    lib: c.CDLL, memory: NDArray[np.int8]
) -> None:
    """The product takes the old register, which then holds the loaded vector."""
    pie = Pie()
    pie.set8(0, np.full(16, 2))
    pie.set8(1, np.full(16, 3))
    lib.refold_pie_vmulas_s8_accx_ld(c.byref(pie), 0, at(memory), step(16), 0, 1)
    assert 96 == pie.accx
    assert list(range(16)) == pie.get(0, "i1")


@pytest.mark.parametrize("sign", [-1, 1])
def test_lanes_of_20_bits_saturate(
    lib: c.CDLL, memory: NDArray[np.int8], sign: int
) -> None:
    """32 products of 2^14 leave 2^19 - 1; 33 of their negatives -2^19."""
    pie = Pie()
    pie.set8(0, np.full(16, -128))
    pie.set8(1, np.full(16, -128 if sign > 0 else 127))
    for _ in range(40):
        lib.refold_pie_vmulas_s8_qacc_ld(c.byref(pie), 2, at(memory), step(0), 0, 1)
    assert [2**19 - 1 if sign > 0 else -(2**19)] * 16 == pie.lanes20()


def test_neighbouring_20_bit_lanes_do_not_disturb_each_other(
    lib: c.CDLL, memory: NDArray[np.int8]
) -> None:
    """A borrow of a negative lane stays in that lane."""
    pie = Pie()
    values = np.tile([-1, 1], 8)
    pie.set8(0, values)
    pie.set8(1, np.ones(16))
    lib.refold_pie_vmulas_s8_qacc_ld(c.byref(pie), 2, at(memory), step(0), 0, 1)
    assert values.tolist() == pie.lanes20()


@pytest.mark.parametrize(("start", "end"), [(2**39 - 2, 2**39 - 1), (-(2**39), 1)])
def test_lanes_of_40_bits_saturate(lib: c.CDLL, start: int, end: int) -> None:
    """The sum stops at 2^39 - 1, and leaves -2^39 by what is added."""
    pie = Pie()
    pie.qacc[:] = [start] * LANES_40
    pie.q[0][:] = [1, 0] * 8
    lib.refold_pie_vmulas_s16_qacc(c.byref(pie), 0, 0)
    assert [end if start > 0 else start + end] * LANES_40 == list(pie.qacc)


def test_the_shift_floors_saturates_and_stays(lib: c.CDLL) -> None:
    """-1 >> 1 is -1; what is too wide for 16 bits is clamped in the register only."""
    pie = Pie()
    pie.qacc[:] = [-1, 3, 2**20, -(2**20), 0, 1, 65535, -65536]
    lib.refold_pie_srcmb_s16_qacc(c.byref(pie), 4, 1)
    shifted = [-1, 1, 2**19, -(2**19), 0, 0, 32767, -32768]
    assert shifted == list(pie.qacc)
    assert np.clip(shifted, -32768, 32767).tolist() == pie.get(4, "<i2")


def test_qacc_survives_memory(lib: c.CDLL, memory: NDArray[np.int8]) -> None:
    """Five bytes a lane: four stores, four loads, the same eight lanes."""
    pie, lanes = Pie(), [2**39 - 1, -(2**39), -1, 0, 1, -2, 2**38, -(2**20)]
    pie.qacc[:] = lanes
    parts = [("low", 0, 0), ("high", 0, 16), ("low", 1, 32), ("high", 1, 48)]
    for name, half, offset in parts:
        store = getattr(lib, f"refold_pie_st_qacc_{name}")
        store(c.byref(pie), half, at(memory, offset), step(0))
    pie.qacc[:] = [0] * LANES_40
    for name, half, offset in parts:
        load = getattr(lib, f"refold_pie_ld_qacc_{name}")
        load(c.byref(pie), half, at(memory, offset), step(0))
    assert lanes == list(pie.qacc)
    stored = bytes(memory[:5].tobytes())
    assert 2**39 - 1 == int.from_bytes(stored, "little")


@pytest.mark.parametrize(("size", "kind"), [(1, "i1"), (2, "<i2"), (4, "<i4")])
def test_unzip_undoes_zip(lib: c.CDLL, size: int, kind: str) -> None:
    """Zip interleaves lanes, the low half first; unzip parts even from odd."""
    pie = Pie()
    pie.set8(0, np.arange(16))
    pie.set8(1, np.arange(16, 32))
    a, b = pie.get(0, kind), pie.get(1, kind)
    both = [lane for pair in zip(a, b, strict=True) for lane in pair]
    lib.refold_pie_vzip(c.byref(pie), 0, 1, size)
    assert both == pie.get(0, kind) + pie.get(1, kind)
    lib.refold_pie_vunzip(c.byref(pie), 0, 1, size)
    assert (a, b) == (pie.get(0, kind), pie.get(1, kind))


def test_a_fused_store_keeps_the_old_register(
    lib: c.CDLL, memory: NDArray[np.int8]
) -> None:
    """The vector is stored before the minimum overwrites it."""
    pie = Pie()
    pie.set8(0, np.full(16, 5))
    pie.set8(1, np.zeros(16))
    lib.refold_pie_vmin_s16_st(c.byref(pie), 0, at(memory), 0, 0, 1)
    assert [5] * 16 == memory[:16].tolist()
    assert [0] * 16 == pie.get(0, "i1")
