"""The firmware's link under test, and a codec that shares nothing with the host's.

The link runs over ``stub_runtime.c``, whose answers depend on all images since
the last reset and their order.
"""

from __future__ import annotations

import ctypes
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cbuild import ROOT
from cobs import cobs

from refold.facts import FRAMES, HEADER, PROTOCOL, Method

SUITE = Path(__file__).resolve().parent / "firmware_link"
FIRMWARE = ROOT / "firmware"
LINK_SOURCES = (FIRMWARE / "src/crc32.c", *sorted((FIRMWARE / "src/link").glob("*.c")))
MLPERF_SOURCES = (
    FIRMWARE / "src/softmax.c",
    *sorted((FIRMWARE / "src/mlperf").glob("*.c")),
)
STUB_SOURCES = (*LINK_SOURCES, *MLPERF_SOURCES, SUITE / "stub_runtime.c")
WRITE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t)

WORDS = {"i32[]": "i", "u32[]": "I"}
"""Codes of the fields that hold 32-bit numbers."""

Message = tuple[str, int, dict[str, Any]]
"""Frame name, sequence number, fields by name."""


# --- codec -------------------------------------------------------------------------


def wire(name: str, sequence: int, **fields: Any) -> bytes:
    """A frame as it travels, with its delimiter."""
    return seal(frame_body(name, sequence, **fields))


def frame_body(name: str, sequence: int, **fields: Any) -> bytes:
    """Header and payload of a frame."""
    layout = FRAMES[name]
    rest = fields.pop(layout.rest) if layout.rest else b""
    if layout.rest_kind in WORDS:
        rest = struct.pack(f"<{len(rest)}{WORDS[layout.rest_kind]}", *rest)
    values = [fields[field] for field in layout.fields]
    header = struct.pack(HEADER, PROTOCOL, layout.type, sequence)
    return header + struct.pack(layout.struct, *values) + rest


def seal(body: bytes) -> bytes:
    """Add what guards and delimits a frame."""
    return bytes(cobs.encode(body + struct.pack("<I", zlib.crc32(body)))) + b"\0"


def unseal(chunk: bytes) -> bytes | None:
    """Header and payload in the bytes between two delimiters, None if damaged."""
    try:
        raw = cobs.decode(chunk)
    except cobs.DecodeError:
        return None
    body, crc = raw[:-4], raw[-4:]
    return body if crc == struct.pack("<I", zlib.crc32(body)) else None


def read_body(body: bytes) -> Message:
    """Split header and payload into name, sequence and fields."""
    version, kind, sequence = struct.unpack_from(HEADER, body)
    assert version == PROTOCOL
    layout = next(layout for layout in FRAMES.values() if layout.type == kind)
    payload = body[struct.calcsize(HEADER) :]
    fixed = struct.calcsize(layout.struct)
    values = struct.unpack_from(layout.struct, payload)
    fields: dict[str, Any] = dict(zip(layout.fields, values, strict=True))
    rest = payload[fixed:]
    if layout.rest and layout.rest_kind in WORDS:
        code = WORDS[layout.rest_kind]
        fields[layout.rest] = struct.unpack(f"<{len(rest) // 4}{code}", rest)
    elif layout.rest:
        fields[layout.rest] = rest
    else:
        assert not rest
    return layout.name, sequence, fields


def read_wire(data: bytes) -> list[Message]:
    """Every intact frame in ``data``; a piece that is damaged is left out."""
    bodies = map(unseal, filter(None, data.split(b"\0")))
    return [read_body(body) for body in bodies if body is not None]


def sound(writes: Iterable[bytes]) -> list[Message]:
    """The frames of a device's writes, none of which may be damaged."""
    data = b"".join(writes)
    said = read_wire(data)
    assert data.count(b"\0") == len(said), "a frame it sent is damaged"
    return said


# --- frames of a host ----------------------------------------------------------------


def configure(stream: int, sequence: int = 0, **changes: Any) -> bytes:
    """CONFIGURE with FORGE's defaults, but for ``changes``; what is PACE's is 0."""
    fields: dict[str, Any] = {
        **dict.fromkeys(FRAMES["configure"].fields, 0),
        "stream": stream,
        "keep_state": 0,
        "method": Method.FORGE,
        "stats": 0,
        "rule": 0,
        "gate": 0,
        "interval": 1,
        "warm": 8,
        "shrinkage": 0.5,
        "momentum": 1 / 640,
        "grade": 0.0,
        "sites": b"\xff" * 32,
    }
    return wire("configure", sequence, **{**fields, **changes})


def chunks(
    stream: int, index: int, image: bytes, *, size: int = 2048, start: int = 0
) -> Iterator[bytes]:
    """The INPUT frames of an image from byte ``start`` on."""
    for offset in range(start, len(image), size):
        data = image[offset : offset + size]
        yield wire(
            "input", offset, stream=stream, index=index, offset=offset, data=data
        )


def images_of(count: int, size: int) -> list[bytes]:
    """Images that differ; a prime period shows swapped blocks."""
    return [bytes((7 * i + j % 251) % 256 for j in range(size)) for i in range(count)]


def expected_logits(images: Iterable[bytes], outputs: int) -> list[tuple[int, ...]]:
    """What the stub runtime answers when each image is run once, in order."""
    history, answers = 0, []
    for image in images:
        history = zlib.crc32(image, history)
        values = [(history + i) % 2**32 for i in range(outputs)]
        answers.append(tuple(v - 2**32 if v >= 2**31 else v for v in values))
    return answers


# --- the link itself -----------------------------------------------------------------


class LinkDevice:
    """Context manager: a link in this process.

    Attributes:
        status: Of refold_link_init.
        writes: What the port was given, one entry a call.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        *,
        input_bytes: int = 3000,
        outputs: int = 10,
        state_bytes: int = 5000,
        window: int = 4,
    ) -> None:
        self.input_bytes, self.outputs, self.window = input_bytes, outputs, window
        self.writes: list[bytes] = []
        self._library = library
        self._write = WRITE(
            lambda data, count: self.writes.append(ctypes.string_at(data, count))
        )
        library.harness_new.restype = ctypes.c_void_p
        status = ctypes.c_int()
        self._harness = ctypes.c_void_p(
            library.harness_new(
                *(input_bytes, outputs, state_bytes, window),
                self._write,
                ctypes.byref(status),
            )
        )
        self.status = status.value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        intact = self._library.harness_intact(self._harness)
        self._library.harness_free(self._harness)
        if kind is None:
            assert intact, "the link wrote outside its memory"

    def writes_of(self, data: bytes) -> list[bytes]:
        """Give it bytes; return each write to the port."""
        self._library.harness_feed(self._harness, data, ctypes.c_size_t(len(data)))
        return self._taken()

    def poll_writes(self) -> list[bytes]:
        """Run one image, where one is ready; return each write to the port."""
        worked = self._library.harness_poll(self._harness)
        writes = self._taken()
        assert bool(worked) == bool(writes)
        return writes

    def _taken(self) -> list[bytes]:
        writes, self.writes = self.writes, []
        return writes

    def feed(self, data: bytes) -> list[Message]:
        """Give it bytes; return what it answers at once."""
        return sound(self.writes_of(data))

    def poll(self) -> list[Message]:
        """Run one image, where one is ready; return what it says."""
        return sound(self.poll_writes())

    def talk(self, data: bytes) -> list[Message]:
        """Give it bytes and run every image that is ready."""
        said = self.feed(data)
        while more := self.poll():
            said += more
        return said

    def log(self, text: bytes) -> list[Message]:
        """Let the firmware say something."""
        self._library.harness_log(self._harness, text)
        return sound(self._taken())

    def without_times(self) -> None:
        """Let the port keep no layer times."""
        self._library.harness_without_times(self._harness)

    def fail_at(self, image: int) -> None:
        """Let the runtime fail at an image."""
        self._library.stub_fail_at(ctypes.c_uint32(image))

    @property
    def dropped(self) -> int:
        """Frames dropped unanswered."""
        return int(self._library.harness_dropped(self._harness))

    @property
    def images_run(self) -> int:
        """Inferences since the start."""
        return int(self._library.stub_images())
