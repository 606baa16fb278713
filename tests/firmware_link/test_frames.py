"""Bytes to frames: whatever arrives, in whatever pieces."""

from __future__ import annotations

import ctypes
import random

import pytest
from link_device import LinkDevice, configure, frame_body, read_wire, seal, wire

from refold.facts import ABI, FRAME_BYTES, ResetReason, Status

HELLO = wire("hello_request", 0x1234)


def test_hello_says_who_it_is(library: ctypes.CDLL) -> None:
    """HELLO carries the facts of build, model, chip, memory and credits."""
    with LinkDevice(library) as device:
        [(name, sequence, fields)] = device.feed(HELLO)
    assert ("hello", 0x1234) == (name, sequence)
    assert {
        "abi": ABI,
        "build_hash": bytes.fromhex("0123456789abcdef"),
        "model_hash": bytes(range(0xE0, 0x100)),
        "chip": b"virtual".ljust(16, b"\0"),
        "reset_reason": ResetReason.POWER_ON,
        "boot_count": 1,
        "input_bytes": 3000,
        "outputs": 10,
        "layers": 3,
        "sites": 2,
        "window": 4,
        "receive_bytes": 8192,
        "arena_bytes": 4096,
        "state_bytes": 5000,
        "code_bytes": 30000,
        "free_heap": 0,
        "stack_free": 0,
        "arena_memory": 0,
        "hot_bytes": 0,
    } == fields


def test_byte_by_byte(library: ctypes.CDLL) -> None:
    """A frame may arrive one byte at a time; only the last byte completes it."""
    with LinkDevice(library) as device:
        said = [device.feed(bytes([byte])) for byte in HELLO]
    assert [[]] * (len(HELLO) - 1) == said[:-1]
    assert "hello" == said[-1][0][0]


def test_many_frames_at_once(library: ctypes.CDLL) -> None:
    """Frames that arrive together are answered one by one, in order."""
    frames = [wire("hello_request", n) for n in range(5)]
    with LinkDevice(library) as device:
        said = device.feed(b"".join(frames))
    assert [("hello", n) for n in range(5)] == [m[:2] for m in said]


@pytest.mark.parametrize("position", range(len(HELLO) - 1))
def test_a_damaged_frame_is_dropped(library: ctypes.CDLL, position: int) -> None:
    """One turned bit anywhere drops the frame unanswered; the next is heard."""
    hurt = bytearray(HELLO)
    hurt[position] ^= 0x10
    with LinkDevice(library) as device:
        assert [] == device.feed(bytes(hurt))
        device.feed(b"\0")
        dropped = device.dropped
        assert ["hello"] == [m[0] for m in device.feed(HELLO)]
    assert dropped >= 1


@pytest.mark.parametrize("cut", range(1, len(HELLO) - 1))
def test_a_cut_frame_ends_at_the_delimiter(library: ctypes.CDLL, cut: int) -> None:
    """After a zero byte nothing of a cut frame is left."""
    with LinkDevice(library) as device:
        assert [] == device.feed(HELLO[:cut] + b"\0")
        assert ["hello"] == [m[0] for m in device.feed(HELLO)]


def test_idle_delimiters_are_no_frames(library: ctypes.CDLL) -> None:
    """Zero bytes between frames mean nothing and are not counted as damage."""
    with LinkDevice(library) as device:
        assert ["hello"] == [m[0] for m in device.feed(b"\0\0" + HELLO + b"\0")]
        assert 0 == device.dropped


@pytest.mark.parametrize("size", [FRAME_BYTES + 1, FRAME_BYTES + 4000, 100_000])
def test_an_endless_frame_is_dropped(library: ctypes.CDLL, size: int) -> None:
    """A frame longer than any is dropped, however long, and the next is heard."""
    body = bytes(i % 255 + 1 for i in range(size - 4))
    with LinkDevice(library) as device:
        assert [] == device.feed(seal(body))
        assert 1 == device.dropped
        assert ["hello"] == [m[0] for m in device.feed(HELLO)]


def test_garbage(library: ctypes.CDLL) -> None:
    """Random bytes get no answer and leave the next frame readable."""
    noise = random.Random(2).randbytes(200_000)
    with LinkDevice(library) as device:
        assert [] == device.feed(noise + b"\0")
        assert 0 < device.dropped
        assert ["hello"] == [m[0] for m in device.feed(HELLO)]


def test_echoes_are_dropped(library: ctypes.CDLL) -> None:
    """Its own frames, sent back by an echoing line, start no dialogue."""
    with LinkDevice(library) as device:
        device.feed(wire("hello_request", 1) + configure(1) + seal(b"\1\x7f\0\0"))
        echo = wire("ack", 9, status=-7) + wire("log", 1, text=b"?")
        assert [] == device.feed(echo)
        assert 2 == device.dropped


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"\x01\x7f\x05\x00", id="unknown type"),
        pytest.param(b"\x63\x01\x05\x00", id="another version"),
        pytest.param(frame_body("hello_request", 5) + b"x", id="too long"),
        pytest.param(b"\x01\x02\x05\x00" + bytes(50), id="configure too short"),
        pytest.param(b"\x01\x03\x05\x00" + bytes(12), id="input without data"),
        pytest.param(b"\x01\x06\x05\x00" + bytes(8), id="state without data"),
        pytest.param(b"\x01\x08\x05\x00\x00", id="profile request too short"),
    ],
)
def test_a_malformed_frame_is_answered(library: ctypes.CDLL, body: bytes) -> None:
    """A sound frame that makes no sense gets an ACK with its number."""
    with LinkDevice(library) as device:
        said = device.feed(seal(body))
    assert [("ack", 5, {"status": Status.ERROR_FRAME})] == said


def test_every_run_length_survives(library: ctypes.CDLL) -> None:
    """Text of any length, zeros at block ends included, is encoded as cobs does."""
    with LinkDevice(library) as device:
        for size in (0, 1, 245, 246, 247, 253, 254, 255, 508, 509, 2048):
            text = b"x" * size
            [(name, _, fields)] = device.log(text)
            assert ("log", text) == (name, fields["text"])


def test_log_is_cut_and_numbered(library: ctypes.CDLL) -> None:
    """Text beyond a chunk is cut off; each text has the next number."""
    with LinkDevice(library) as device:
        said = device.log(b"a" * 3000) + device.log(b"b")
    assert [("log", 0, {"text": b"a" * 2048}), ("log", 1, {"text": b"b"})] == said


def test_one_write_a_frame(library: ctypes.CDLL) -> None:
    """The port is given each frame whole, with its delimiter."""
    with LinkDevice(library) as device:
        writes = device.writes_of(HELLO * 2)
    assert [1, 1] == [len(read_wire(data)) for data in writes]
    assert all(data.endswith(b"\0") for data in writes)


def test_too_little_memory(library: ctypes.CDLL) -> None:
    """A link without room for two images is refused."""
    with LinkDevice(library, window=0) as device:
        assert Status.ERROR_SIZE == device.status


@pytest.mark.parametrize("window", [2, 3, 255, 256])
def test_the_window_follows_the_memory(library: ctypes.CDLL, window: int) -> None:
    """Memory for n images gives a window of n, but at most 255."""
    with LinkDevice(library, window=window, input_bytes=64) as device:
        [(_, _, fields)] = device.feed(HELLO)
    assert min(window, 255) == fields["window"]
