"""Over any line that repairs itself, each image runs exactly once, in order."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from link_device import (
    LinkDevice,
    Message,
    chunks,
    configure,
    expected_logits,
    images_of,
    read_wire,
    sound,
    wire,
)

STREAM = 5
INPUT_BYTES = 300
CHUNK = 128
FAULTS = ("none", "drop", "flip", "cut", "twice", "late", "merge", "insert")
Fault = tuple[str, int]


class BadLine:
    """Carries frames with the faults given, then without any."""

    def __init__(self, faults: list[Fault], pieces: list[int]) -> None:
        self._faults = iter(faults)
        self._pieces = pieces
        self._late: list[bytes] = []

    def carry(self, frame: bytes) -> bytes:
        """What arrives for ``frame``, and for earlier ones that were late."""
        fault, amount = next(self._faults, ("none", 0))
        place = amount % len(frame)
        late, self._late = self._late, []
        if fault == "late":
            self._late = [frame]
            return b"".join(late)
        arrives = {
            "none": frame,
            "drop": b"",
            "flip": frame[:place] + bytes([frame[place] ^ 0x41]) + frame[place + 1 :],
            "cut": frame[:place],
            "twice": frame + frame,
            "merge": frame[:-1],
            "insert": frame[:place] + bytes([amount % 256]) + frame[place:],
        }[fault]
        return arrives + b"".join(late)

    def split(self, data: bytes) -> Iterator[bytes]:
        """Cut what arrives anywhere."""
        for size in self._pieces:
            yield data[:size]
            data = data[size:]
        yield data


class Host:
    """Sends images with credits, answers NEED, asks when nothing comes."""

    def __init__(self, device: LinkDevice, out: BadLine, back: BadLine) -> None:
        self._device, self._out, self._back = device, out, back
        self.results: dict[int, tuple[int, ...]] = {}

    def run(self, images: list[bytes]) -> None:
        """Stream ``images`` until every result is there; fail on a dead end."""
        sent, quiet = 0, 0
        while len(self.results) < len(images):
            oldest = min(set(range(len(images))) - set(self.results))
            if sent < len(images) and sent - oldest < self._device.window:
                said = self._send(chunks(STREAM, sent, images[sent], size=CHUNK))
                sent += 1
            else:
                request = wire("result_request", 0, stream=STREAM, index=oldest)
                said = self._send(iter([request]))
            quiet = 0 if said else quiet + 1
            assert quiet < 100, "the device has nothing more to say"
            self._hear(said, images)

    def _send(self, frames: Iterator[bytes]) -> list[Message]:
        data = b"".join(map(self._out.carry, frames))
        writes = []
        for piece in self._out.split(data):
            writes += self._device.writes_of(piece)
        writes += self._polled()
        return sound_of(writes, self._back.carry)

    def _polled(self) -> list[bytes]:
        writes = []
        while more := self._device.poll_writes():
            writes += more
        return writes

    def _hear(self, said: list[Message], images: list[bytes]) -> None:
        for name, _, fields in said:
            if name == "result":
                first = self.results.setdefault(fields["index"], fields["logits"])
                assert first == fields["logits"]
            elif name == "need" and fields["index"] not in self.results:
                image, start = images[fields["index"]], fields["offset"]
                frames = chunks(STREAM, fields["index"], image, size=CHUNK, start=start)
                self._hear(self._send(frames), images)


def sound_of(writes: list[bytes], carry: Callable[[bytes], bytes]) -> list[Message]:
    """The frames that reach the host of those that the device sent."""
    assert len(writes) == len(sound(writes))
    return read_wire(b"".join(map(carry, writes)))


faults = st.lists(
    st.tuples(st.sampled_from(FAULTS), st.integers(0, 1000)), min_size=0, max_size=60
)


@settings(max_examples=150, deadline=None)
@given(
    out=faults,
    back=faults,
    pieces=st.lists(st.integers(0, 400), max_size=8),
    window=st.integers(2, 5),
    count=st.integers(1, 12),
)
def test_exactly_once_in_order(
    library: ctypes.CDLL,
    out: list[Fault],
    back: list[Fault],
    pieces: list[int],
    window: int,
    count: int,
) -> None:
    """Loss, damage, repeats and reordering never change what is run, nor its order."""
    images = images_of(count, INPUT_BYTES)
    with LinkDevice(library, input_bytes=INPUT_BYTES, window=window) as device:
        device.feed(configure(STREAM))
        host = Host(device, BadLine(out, pieces), BadLine(back, []))
        host.run(images)
        assert count == device.images_run
    results = [host.results[index] for index in range(count)]
    assert expected_logits(images, 10) == results
