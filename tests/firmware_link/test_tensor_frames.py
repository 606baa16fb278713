"""TENSOR frames: every layer's output while an image runs, in bounded chunks."""

from __future__ import annotations

import ctypes

import pytest
from link_device import LinkDevice, chunks, configure, images_of, wire

from refold.facts import CHUNK_BYTES, Status


def switch(device: LinkDevice, on: int) -> Status:
    """The verdict on TRACE."""
    [(name, sequence, fields)] = device.feed(wire("trace", 5, on=on))
    assert ("ack", 5) == (name, sequence)
    return Status(fields["status"])


@pytest.mark.parametrize("size", [1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES])
def test_chunks_hold_the_output(library: ctypes.CDLL, size: int) -> None:
    """The stub's one layer copies the image, which arrives whole before the RESULT."""
    [image] = images_of(1, size)
    with LinkDevice(library, input_bytes=size) as device:
        device.feed(configure(3))
        assert Status.OK == switch(device, 1)
        *tensors, last = device.talk(b"".join(chunks(3, 0, image)))
        assert "result" == last[0]
        data = b""
        for name, _, fields in tensors:
            assert ("tensor", 3, 0, 0) == (
                name,
                *(fields[field] for field in ("stream", "index", "layer")),
            )
            assert len(data) == fields["offset"]
            assert len(fields["data"]) <= CHUNK_BYTES
            data += fields["data"]
        assert image == data


def test_off_and_a_new_stream_end_it(library: ctypes.CDLL) -> None:
    """Nothing but results again; a switch that is neither on nor off is refused."""
    image = images_of(1, 12)[0]
    with LinkDevice(library, input_bytes=12) as device:
        for number, end in ((1, lambda: switch(device, 0)), (2, lambda: None)):
            device.feed(configure(2 * number))
            assert Status.OK == switch(device, 1)
            end()
            stream = 2 * number + (number == 2)
            device.feed(configure(stream))
            said = device.talk(b"".join(chunks(stream, 0, image)))
            assert ["result"] == [name for name, _, _ in said]
        assert Status.ERROR_FRAME == switch(device, 2)
