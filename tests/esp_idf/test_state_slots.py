"""Two slots of a storage that loses power: a record is old or new, never torn."""

from __future__ import annotations

import ctypes

import pytest
from cbuild import ROOT, STRICT, compile_shared

PORT = ROOT / "firmware/ports/esp_idf/main"
SOURCES = (PORT / "state_slots.c", ROOT / "firmware/src/crc32.c")
PAYLOAD_BYTES = 24
HEADER_BYTES = 16
SLOT_BYTES = HEADER_BYTES + PAYLOAD_BYTES
ERASED = 0xFF

READ = ctypes.CFUNCTYPE(
    ctypes.c_size_t,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_uint8),
    ctypes.c_size_t,
)
WRITE = ctypes.CFUNCTYPE(
    ctypes.c_bool,
    ctypes.c_void_p,
    ctypes.c_int,
    ctypes.POINTER(ctypes.c_uint8),
    ctypes.c_size_t,
)


class SlotsStruct(ctypes.Structure):
    """refold_slots."""

    _fields_ = (
        ("read", READ),
        ("write", WRITE),
        ("user", ctypes.c_void_p),
        ("buffer", ctypes.POINTER(ctypes.c_uint8)),
        ("bytes", ctypes.c_size_t),
        ("sequence", ctypes.c_uint32),
        ("newest", ctypes.c_int),
    )


class Flash:
    """Two slots of bytes; a write erases first, then writes byte by byte.

    Attributes:
        steps: Until power is lost; None: it stays.
        forgets: Writes are taken and not kept.
    """

    def __init__(self) -> None:
        self.slots = [b"", b""]
        self.steps: int | None = None
        self.forgets = False

    def _step(self) -> bool:
        if self.steps is None:
            return True
        self.steps -= 1
        return self.steps >= 0

    def write(self, slot: int, data: bytes) -> bool:
        """Replace a slot, as far as power lasts."""
        if self.forgets:
            return True
        if not self._step():
            return False
        written = bytearray([ERASED] * len(data))
        for index, value in enumerate(data):
            self.slots[slot] = bytes(written)
            if not self._step():
                return False
            written[index] = value
        self.slots[slot] = bytes(written)
        return True


class Device:
    """The C code over a storage, as after a start."""

    def __init__(self, library: ctypes.CDLL, flash: Flash) -> None:
        self._library = library
        self._flash = flash
        self.buffer = (ctypes.c_uint8 * SLOT_BYTES)()
        self.struct = SlotsStruct(
            READ(self._read), WRITE(self._write), None, self.buffer, SLOT_BYTES
        )

    def _read(self, _: object, slot: int, data: object, capacity: int) -> int:
        content = self._flash.slots[slot][:capacity]
        ctypes.memmove(data, content, len(content))  # type: ignore[arg-type]
        return len(self._flash.slots[slot])

    def _write(self, _: object, slot: int, data: object, count: int) -> bool:
        return self._flash.write(slot, ctypes.string_at(data, count))  # type: ignore[arg-type]

    def load(self) -> bytes | None:
        """Return the newest payload."""
        found = self._library.refold_slots_load(ctypes.byref(self.struct))
        return bytes(self.buffer[HEADER_BYTES:]) if found else None

    def save(self, payload: bytes) -> bool:
        """Keep a payload."""
        self.buffer[HEADER_BYTES:] = list(payload)
        return bool(self._library.refold_slots_save(ctypes.byref(self.struct)))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Return the slots, built under the sanitizer for undefined behaviour."""
    flags = (*STRICT, "-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    made = compile_shared(
        SOURCES,
        flags=flags,
        include=[ROOT / "firmware/src"],
        out_dir=tmp_path_factory.mktemp("slots"),
    )
    made.refold_slots_load.restype = ctypes.c_bool
    made.refold_slots_save.restype = ctypes.c_bool
    return made


def payload(number: int) -> bytes:
    """A payload that no other resembles."""
    return bytes((number * 31 + i * 7) % 256 for i in range(PAYLOAD_BYTES))


def saved(library: ctypes.CDLL, count: int) -> Flash:
    """A storage after so many saves; the last was payload ``count - 1``."""
    flash = Flash()
    device = Device(library, flash)
    device.load()
    for number in range(count):
        assert device.save(payload(number))
    return flash


def test_an_empty_storage_has_no_record(library: ctypes.CDLL) -> None:
    """The first start finds nothing, and can save."""
    device = Device(library, Flash())
    assert device.load() is None
    assert device.save(payload(5))
    assert payload(5) == device.load()


@pytest.mark.parametrize("count", range(1, 6))
def test_the_newest_record_is_found(count: int, library: ctypes.CDLL) -> None:
    """After any number of saves and a restart."""
    flash = saved(library, count)
    assert payload(count - 1) == Device(library, flash).load()


CUTS = range(SLOT_BYTES + 1)
"""Steps of one write: the erase, then every byte."""


@pytest.mark.parametrize("before", range(4))
def test_power_loss_leaves_the_record_before(before: int, library: ctypes.CDLL) -> None:
    """Cut at any step, the write is void; the next start saves as ever."""
    for steps in CUTS:
        flash = saved(library, before)
        device = Device(library, flash)
        device.load()
        flash.steps = steps
        assert not device.save(payload(50))
        flash.steps = None
        restarted = Device(library, flash)
        assert (payload(before - 1) if before else None) == restarted.load(), steps
        assert restarted.save(payload(60))
        assert payload(60) == Device(library, flash).load()


def test_repeated_power_loss_never_reaches_the_record(library: ctypes.CDLL) -> None:
    """However often writes are cut, the last whole record stays."""
    flash = saved(library, 3)
    for steps in CUTS:
        device = Device(library, flash)
        assert payload(2) == device.load()
        flash.steps = steps
        assert not device.save(payload(70 + steps))
        flash.steps = None


def test_a_damaged_record_gives_way_to_the_one_before(library: ctypes.CDLL) -> None:
    """One bit anywhere in the newest slot."""
    flash = saved(library, 4)  # payload 3 lies in slot 1
    whole = flash.slots[1]
    for byte, value in enumerate(whole):
        flipped = bytes([value ^ 1 << byte % 8])
        flash.slots[1] = whole[:byte] + flipped + whole[byte + 1 :]
        assert payload(2) == Device(library, flash).load(), byte


def test_two_damaged_records_are_none(library: ctypes.CDLL) -> None:
    """Nothing is made of what fails its CRC."""
    flash = saved(library, 4)
    flash.slots = [slot[:-1] + b"\0" for slot in flash.slots]
    assert Device(library, flash).load() is None


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"x", id="short"),
        pytest.param(bytes(SLOT_BYTES), id="zeros"),
        pytest.param(bytes([ERASED] * 4000), id="erased"),
    ],
)
def test_foreign_contents_are_no_record(content: bytes, library: ctypes.CDLL) -> None:
    """Shorter, longer, erased: the other slot counts."""
    flash = saved(library, 1)  # payload 0 lies in slot 0
    flash.slots[1] = content
    assert payload(0) == Device(library, flash).load()


def test_a_write_that_is_not_kept_is_told(library: ctypes.CDLL) -> None:
    """A storage that says yes and keeps nothing has failed."""
    flash = saved(library, 2)
    device = Device(library, flash)
    device.load()
    flash.forgets = True
    assert not device.save(payload(9))
    assert payload(1) == Device(library, flash).load()


def test_sequence_numbers_wrap(library: ctypes.CDLL) -> None:
    """The record after number 2^32 - 1 is number 0, and the newer one."""
    flash = Flash()
    device = Device(library, flash)
    device.load()
    device.struct.sequence = 2**32 - 2
    for number in range(2):
        assert device.save(payload(number))
    restarted = Device(library, flash)
    assert payload(1) == restarted.load()
    assert 0 == restarted.struct.sequence
