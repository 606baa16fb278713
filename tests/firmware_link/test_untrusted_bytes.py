"""Bytes without a valid CRC change nothing: the state before and after is the same."""

from __future__ import annotations

import ctypes
import zlib

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from link_device import (
    LinkDevice,
    chunks,
    configure,
    expected_logits,
    images_of,
    unseal,
    wire,
)

STREAM = 3
INPUT_BYTES, STATE_BYTES = 300, 64
FRAMES = (
    configure(STREAM + 1),
    wire("state_reset", 1),
    wire("state_write", 2, total=STATE_BYTES, offset=0, data=bytes(64)),
    wire("result_request", 3, stream=STREAM, index=0),
    *chunks(STREAM, 0, bytes(INPUT_BYTES)),
    *chunks(STREAM, 1, bytes(INPUT_BYTES)),
)


def is_damaged(data: bytes) -> bool:
    """No piece of ``data`` has a valid CRC, by another codec than the firmware's."""
    return all(unseal(piece) is None for piece in filter(None, data.split(b"\0")))


def turned(frame: bytes, places: list[int]) -> bytes:
    """``frame`` with bits turned at ``places``, and its delimiter kept."""
    damaged = bytearray(frame)
    for place in places:
        damaged[place // 8 % (len(frame) - 1)] ^= 1 << place % 8
    return bytes(damaged)


damaged_frames = st.builds(
    turned, st.sampled_from(FRAMES), st.lists(st.integers(0, 4095), min_size=1)
)
noise = st.one_of(st.binary(max_size=400), damaged_frames).filter(is_damaged)


@settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],  # another's load fails no test
)
@given(pieces=st.lists(noise, max_size=8))
def test_bytes_without_a_crc_change_nothing(
    library: ctypes.CDLL, pieces: list[bytes]
) -> None:
    """Nothing is answered, nothing runs, and the stream and the state go on."""
    images = images_of(2, INPUT_BYTES)
    ask = wire("state_read", 9, offset=0, length=STATE_BYTES)
    with LinkDevice(
        library, input_bytes=INPUT_BYTES, state_bytes=STATE_BYTES
    ) as device:
        device.feed(configure(STREAM))
        said = device.talk(b"".join(chunks(STREAM, 0, images[0])))
        before = device.feed(ask)
        answers = [device.talk(b"\0" + piece + b"\0") for piece in pieces]
        assert [[]] * len(pieces) == answers
        assert before == device.feed(ask)
        assert zlib.crc32(images[0]).to_bytes(4, "little") == before[0][2]["data"][:4]
        said += device.talk(b"".join(chunks(STREAM, 1, images[1])))
    assert expected_logits(images, 10) == [fields["logits"] for _, _, fields in said]
