"""The saved adaptation state: restored, damaged, foreign, extreme."""

from __future__ import annotations

import ctypes as c
import struct
import zlib
from collections.abc import Callable

import numpy as np
import pytest
from ctypes_kernels import Guarded
from runtime_harness import Device, Twin, stream

from refoldc.adapt import AdaptConfig

from refold.facts import Status

NAN = float("nan")


def test_state_survives_a_restart(runtime: c.CDLL) -> None:
    """A restored stream goes on exactly as the one that was saved."""
    first, second = Device(runtime), Device(runtime)
    assert [Status.OK] * 2 == [d.set(interval=4) for d in (first, second)]
    images = list(stream(50))
    for image in images[:40]:
        first.infer(image)
    record = first.save()
    assert Status.OK == second.load(record)
    assert record == second.save()
    for image in images[40:]:
        twin = Device(runtime)
        assert Status.OK == twin.set(interval=4)
        assert Status.OK == twin.load(record)
        np.testing.assert_array_equal(twin.infer(image), second.infer(image))
        record = second.save()


def sealed(record: bytes) -> bytes:
    """``record`` with a CRC that is right."""
    return record[:-4] + struct.pack("<I", zlib.crc32(record[:-4]))


def patched(record: bytes, at: int, new: bytes) -> bytes:
    """``record`` with other bytes at ``at`` and a CRC that is right."""
    return sealed(record[:at] + new + record[at + len(new) :])


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a flipped bit": lambda r: r[:60] + bytes([r[60] ^ 1]) + r[61:],
    "its CRC": lambda r: r[:-1] + bytes([r[-1] ^ 1]),
    "truncated": lambda r: r[:-5],
    "empty": lambda _: b"",
    "too long": lambda r: r + b"\0",
    "magic": lambda r: patched(r, 0, b"RFSU"),
    "version": lambda r: patched(r, 4, b"\1"),
    "rule": lambda r: patched(r, 6, b"\1"),
    "phase": lambda r: patched(r, 7, b"\3"),
    "model": lambda r: patched(r, 8, b"\x09"),
    "channels": lambda r: patched(r, 44, b"\x0d"),
    "window": lambda r: patched(r, 48, b"\x20"),
    "a NaN": lambda r: patched(r, 52, struct.pack("<f", NAN)),
    "an infinity": lambda r: patched(r, 52 + 14 * 4, struct.pack("<f", float("inf"))),
    "an impossible mean": lambda r: patched(r, 56, struct.pack("<f", -1e30)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_bad_state_is_refused(runtime: c.CDLL, damage: str) -> None:
    """A damaged or foreign record resets the context and is reported."""
    device, fresh = Device(runtime), Device(runtime)
    assert [Status.OK] * 2 == [d.set() for d in (device, fresh)]
    for image in stream(9):
        device.infer(image)
    record = DAMAGE[damage](device.save())
    assert Status.ERROR_STATE == device.load(record)
    assert fresh.save() == device.save()
    for image in stream(3):
        np.testing.assert_array_equal(fresh.infer(image), device.infer(image))


def test_extreme_state_is_computed_with(runtime: c.CDLL) -> None:
    """The widest values that a record may hold give a table like any other."""
    device = Device(runtime)
    twin = Twin(device, AdaptConfig())
    assert Status.OK == device.set()
    device.infer(next(stream(1)))
    record = device.save()
    record = patched(record, 52, struct.pack("<f", 2.0**31))
    record = patched(record, 56, struct.pack("<f", -(2.0**31)))
    record = patched(record, 52 + 14 * 4, struct.pack("<ff", 2.0**62, -(2.0**62)))
    assert Status.OK == device.load(record)
    twin.forge.load(record)
    for image in stream(3):
        np.testing.assert_array_equal(twin.infer(image), device.infer(image))
        assert twin.forge.finish() == np.float32(device.report.shift_score)


def test_save_needs_room(runtime: c.CDLL) -> None:
    """A buffer one byte short is refused and not touched."""
    device = Device(runtime)
    size = runtime.refold_adapt_state_bytes(c.byref(device.model))
    buffer = Guarded((size - 1,), np.uint8)
    buffer.array[...] = 7
    assert Status.ERROR_SIZE == runtime.refold_adapt_save(
        device.ctx, buffer.pointer, c.c_size_t(size - 1)
    )
    assert (buffer.array == 7).all()
    assert buffer.is_intact()
