"""Frames to bytes and back: the host's twin of the firmware's link code.

On the wire a frame is COBS(header + payload + crc32) and one zero byte. The
layouts come from :mod:`refold.facts`, which firmware/facts.toml renders.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import Any, NamedTuple

from cobs import cobs

from refold import facts

DELIMITER = b"\0"
LONGEST_WIRE_FRAME = facts.FRAME_BYTES + facts.FRAME_BYTES // 254 + 1
"""Bytes between two delimiters of the longest legal frame."""


class Frame(NamedTuple):
    """One frame.

    Attributes:
        name: Of its layout in ``facts.FRAMES``.
        sequence: Number of the request it is, or answers.
        values: The fixed fields in the layout's order.
        rest: The field that takes the rest of the payload, else empty.
    """

    name: str
    sequence: int
    values: tuple[Any, ...]
    rest: bytes


@dataclass(frozen=True)
class Hello:
    """Who a device is; fields as in firmware/facts.toml, hashes in hexadecimal."""

    abi: int
    build_hash: str
    model_hash: str
    chip: str
    reset_reason: int
    boot_count: int
    input_bytes: int
    outputs: int
    layers: int
    sites: int
    window: int
    receive_bytes: int
    arena_bytes: int
    state_bytes: int
    code_bytes: int
    free_heap: int
    stack_free: int
    arena_memory: int
    hot_bytes: int

    @classmethod
    def of(cls, frame: Frame) -> Hello:
        """Read a ``hello`` frame."""
        abi, build_hash, model_hash, chip, *numbers = frame.values
        name = chip.rstrip(b"\0").decode("ascii", "replace")
        return cls(abi, build_hash.hex(), model_hash.hex(), name, *numbers)


class Times(NamedTuple):
    """Times of a device's last image, in ticks.

    Attributes:
        kind: One of ``facts.Ticks``.
        ticks_per_us: 0 where the device keeps no times.
        image: The whole inference.
        layers: Each layer's; the first one's includes the input's.
    """

    kind: int
    ticks_per_us: int
    image: int
    layers: tuple[int, ...]


class FrameError(ValueError):
    """Bytes between two delimiters that are no frame of this protocol."""


class OtherVersionError(FrameError):
    """An intact frame of another protocol version."""

    def __init__(self, version: int) -> None:
        super().__init__(f"protocol version {version}, expected {facts.PROTOCOL}")
        self.version = version


class _Codec(NamedTuple):
    name: str
    type: int
    fixed: Struct
    rest_unit: int


def _codec(layout: facts.FrameLayout) -> _Codec:
    units = {None: 0, "bytes": 1, "i32[]": 4, "u32[]": 4}
    fixed = Struct(facts.HEADER + layout.struct[1:])
    return _Codec(layout.name, layout.type, fixed, units[layout.rest_kind])


_HEADER = Struct(facts.HEADER)
_CRC = Struct("<I")
_BY_NAME = {name: _codec(layout) for name, layout in facts.FRAMES.items()}
_BY_TYPE = {codec.type: codec for codec in _BY_NAME.values()}


def encode(name: str, sequence: int, *values: object, rest: bytes = b"") -> bytes:
    """Return the wire bytes of a frame, delimiter included.

    Args:
        name: Of the layout in ``facts.FRAMES``.
        sequence: 0 to 65535.
        values: The fixed fields in the layout's order.
        rest: The last, open-ended field.
    """
    codec = _BY_NAME[name]
    body = codec.fixed.pack(facts.PROTOCOL, codec.type, sequence, *values) + rest
    wire: bytes = cobs.encode(body + _CRC.pack(zlib.crc32(body)))
    return wire + DELIMITER


def decode(chunk: bytes) -> Frame:
    """Return the frame in the bytes between two delimiters.

    Raises:
        FrameError: It is damaged, of an unknown type or of a wrong length.
        OtherVersionError: It is intact but of another protocol version.
    """
    try:
        raw = cobs.decode(chunk)
    except cobs.DecodeError as error:
        raise FrameError(str(error)) from None
    body = raw[: -_CRC.size]
    if len(body) < _HEADER.size or raw[-_CRC.size :] != _CRC.pack(zlib.crc32(body)):
        raise FrameError("too short or a wrong CRC")
    return _unpack(body)


def _unpack(body: bytes) -> Frame:
    version, kind, sequence = _HEADER.unpack_from(body)
    if version != facts.PROTOCOL:
        raise OtherVersionError(version)
    codec = _BY_TYPE.get(kind)
    if codec is None:
        raise FrameError(f"unknown frame type 0x{kind:02x}")
    extra = len(body) - codec.fixed.size
    if extra < 0 or (extra % codec.rest_unit if codec.rest_unit else extra):
        raise FrameError(f"{codec.name} frame of {len(body)} bytes")
    values = codec.fixed.unpack_from(body)[3:]
    return Frame(codec.name, sequence, values, body[codec.fixed.size :])


class Decoder:
    """Cuts a byte stream into frames and resynchronises on the delimiter.

    Args:
        stray: Receives what is no frame: boot text, panics, damaged frames.

    Attributes:
        other_version: Protocol version of the last intact foreign frame.
    """

    def __init__(self, stray: Callable[[bytes], None]) -> None:
        self.other_version: int | None = None
        self._stray = stray
        self._tail = b""

    @property
    def unfinished(self) -> bytes:
        """What came since the last delimiter."""
        return self._tail

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that ``data`` completes, in order."""
        *chunks, self._tail = (self._tail + data).split(DELIMITER)
        if len(self._tail) > LONGEST_WIRE_FRAME:
            self.flush()
        frames = []
        for chunk in filter(None, chunks):
            try:
                frames.append(decode(chunk))
            except FrameError as error:
                self.other_version = getattr(error, "version", self.other_version)
                self._stray(chunk)
        return frames

    def flush(self) -> None:
        """Give up on the unfinished frame: its bytes are stray."""
        if self._tail:
            self._stray(self._tail)
        self._tail = b""
