"""The adaptation state, read, written and reset over the link."""

from __future__ import annotations

import ctypes

import pytest
from link_device import LinkDevice, Message, chunks, configure, images_of, wire

from refold.facts import CHUNK_BYTES, Status


def begin(device: LinkDevice, stream: int) -> None:
    """Begin a stream that keeps the state."""
    device.feed(configure(stream, keep_state=1))


def run_one(device: LinkDevice, stream: int, image: bytes) -> tuple[int, ...]:
    """Run one image as the first of a stream; return its logits."""
    begin(device, stream)
    [(_, _, fields)] = device.talk(b"".join(chunks(stream, 0, image)))
    logits: tuple[int, ...] = fields["logits"]
    return logits


def read(device: LinkDevice, offset: int, length: int = CHUNK_BYTES) -> Message:
    """The answer to one STATE_READ."""
    [answer] = device.feed(wire("state_read", 8, offset=offset, length=length))
    return answer


def read_all(device: LinkDevice) -> bytes:
    """The whole state."""
    state, total = b"", 1
    while len(state) < total:
        _, _, fields = read(device, len(state))
        assert len(state) == fields["offset"]
        total, state = fields["total"], state + fields["data"]
    return state


def write(device: LinkDevice, state: bytes, start: int, end: int) -> Status:
    """The verdict on one STATE_WRITE."""
    frame = wire(
        "state_write", 9, total=len(state), offset=start, data=state[start:end]
    )
    [(name, sequence, fields)] = device.feed(frame)
    assert ("ack", 9) == (name, sequence)
    return Status(fields["status"])


def write_all(device: LinkDevice, state: bytes) -> list[Status]:
    """The verdict on every chunk."""
    starts = range(0, len(state), CHUNK_BYTES)
    return [write(device, state, start, start + CHUNK_BYTES) for start in starts]


@pytest.mark.parametrize("state_bytes", [8, 2048, 2049, 5000])
def test_round_trip(library: ctypes.CDLL, state_bytes: int) -> None:
    """A state that was read, written back later, brings the old answers back."""
    images = images_of(3, 3000)
    with LinkDevice(library, state_bytes=state_bytes) as device:
        run_one(device, 1, images[0])
        state = read_all(device)
        expected = run_one(device, 2, images[1])
        run_one(device, 3, images[2])
        begin(device, 4)
        assert {Status.OK} == set(write_all(device, state))
        assert expected == run_one(device, 4, images[1])
    assert state_bytes == len(state)


def test_a_read_is_a_snapshot(library: ctypes.CDLL) -> None:
    """Later chunks belong to the state at offset 0, whatever has run between."""
    images = images_of(2, 3000)
    with LinkDevice(library) as device:
        run_one(device, 1, images[0])
        expected = read_all(device)
        first = read(device, 0)[2]["data"]
        run_one(device, 2, images[1])
        rest = read(device, 2048)[2]["data"] + read(device, 4096)[2]["data"]
        assert expected == first + rest
        assert expected != read_all(device)


@pytest.mark.parametrize(
    ("offset", "length", "expected"),
    [(0, 0, 0), (0, 5, 5), (4999, 2048, 1), (5000, 2048, 0), (0, 65535, 2048)],
)
def test_read_lengths(
    library: ctypes.CDLL, offset: int, length: int, expected: int
) -> None:
    """A read is cut at the end of the state and at a chunk."""
    with LinkDevice(library) as device:
        read(device, 0)
        name, sequence, fields = read(device, offset, length)
    assert ("state", 8, 5000) == (name, sequence, fields["total"])
    assert expected == len(fields["data"])


@pytest.mark.parametrize("offset", [1, 5001, 2**32 - 1])
def test_a_read_needs_a_snapshot(library: ctypes.CDLL, offset: int) -> None:
    """A read that does not begin at 0, or lies beyond the end, is refused."""
    with LinkDevice(library) as device:
        if offset > 5000:
            read(device, 0)
        assert ("ack", 8, {"status": Status.ERROR_STATE}) == read(device, offset)


def test_a_write_ends_the_snapshot(library: ctypes.CDLL) -> None:
    """A read is not continued across an upload, nor an upload across a read."""
    with LinkDevice(library) as device:
        state = read_all(device)
        assert Status.OK == write(device, state, 0, 2048)
        assert "ack" == read(device, 2048)[0]
        assert "state" == read(device, 0)[0]
        assert Status.ERROR_STATE == write(device, state, 2048, 4096)


def test_repeated_chunks(library: ctypes.CDLL) -> None:
    """A chunk that comes again is acknowledged as before, the last one too."""
    images = images_of(2, 3000)
    with LinkDevice(library) as device:
        run_one(device, 1, images[0])
        state = read_all(device)
        expected = run_one(device, 2, images[1])
        begin(device, 3)
        for start in (0, 0, 2048, 2048, 4096, 4096):
            assert Status.OK == write(device, state, start, start + 2048)
        assert expected == run_one(device, 3, images[1])


def test_a_write_that_comes_again_late_is_refused(library: ctypes.CDLL) -> None:
    """Once an image of the stream has run, what it taught is not undone."""
    images = images_of(3, 3000)
    with LinkDevice(library) as device:
        run_one(device, 1, images[0])
        state = read_all(device)
        begin(device, 2)
        write_all(device, state)
        run_one(device, 2, images[1])
        taught = read_all(device)
        assert {Status.ERROR_STREAM} == set(write_all(device, state))
        assert taught == read_all(device)


def test_chunks_come_in_order(library: ctypes.CDLL) -> None:
    """An upload with a gap, or over the edge of what is known, is refused."""
    with LinkDevice(library) as device:
        state = read_all(device)
        assert Status.ERROR_STATE == write(device, state, 2048, 4096)
        assert Status.OK == write(device, state, 0, 1000)
        assert Status.ERROR_STATE == write(device, state, 1001, 2000)
        assert Status.ERROR_STATE == write(device, state, 999, 2000)
        assert Status.OK == write(device, state, 1000, 3000)


def test_a_damaged_state_is_refused(library: ctypes.CDLL) -> None:
    """The verdict of the runtime comes with the last chunk, and when repeated."""
    with LinkDevice(library) as device:
        state = bytearray(read_all(device))
        state[100] ^= 1
        statuses = write_all(device, bytes(state))
        assert [Status.OK, Status.OK, Status.ERROR_STATE] == statuses
        assert Status.ERROR_STATE == write(device, bytes(state), 4096, 6144)


@pytest.mark.parametrize("size", [4999, 5001])
def test_a_state_of_another_size_is_refused(library: ctypes.CDLL, size: int) -> None:
    """The announced total must be the model's."""
    with LinkDevice(library) as device:
        assert Status.ERROR_STATE == write(device, bytes(size), 0, 2048)


@pytest.mark.parametrize("offset", [4000, 5001, 2**32 - 1])
def test_bytes_beyond_the_state(library: ctypes.CDLL, offset: int) -> None:
    """A chunk that reaches past the end is malformed."""
    frame = wire("state_write", 9, total=5000, offset=offset, data=bytes(1001))
    with LinkDevice(library) as device:
        [(_, _, fields)] = device.feed(frame)
    assert Status.ERROR_FRAME == fields["status"]


def test_reset(library: ctypes.CDLL) -> None:
    """STATE_RESET forgets the stream, and the stream goes on."""
    images = images_of(2, 3000)
    with LinkDevice(library) as device:
        fresh = run_one(device, 1, images[1])
        run_one(device, 2, images[0])
        said = device.feed(wire("state_reset", 4))
        assert [("ack", 4, {"status": Status.OK})] == said
        assert fresh == run_one(device, 3, images[1])
