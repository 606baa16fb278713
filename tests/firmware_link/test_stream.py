"""Streams: windows, order, repeats, and what is lacking."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from link_device import (
    LinkDevice,
    Message,
    chunks,
    configure,
    expected_logits,
    images_of,
    wire,
)

from refold.facts import Gate, Status

STREAM = 77


def begun(library: ctypes.CDLL, **sizes: int) -> LinkDevice:
    """A device on which a stream has begun."""
    device = LinkDevice(library, **sizes)
    assert [("ack", 3, {"status": Status.OK})] == device.feed(configure(STREAM, 3))
    return device


def send(device: LinkDevice, index: int, image: bytes) -> list[Message]:
    """Send a whole image and let it run."""
    return device.talk(b"".join(chunks(STREAM, index, image)))


def ask(device: LinkDevice, index: int, stream: int = STREAM) -> list[Message]:
    """Ask for a result."""
    return device.feed(wire("result_request", 500, stream=stream, index=index))


def summary(said: list[Message]) -> list[tuple[str, int | None]]:
    """Frame names with the image or status they are about."""
    return [
        (name, fields.get("index", fields.get("status"))) for name, _, fields in said
    ]


def test_a_result_has_every_field(library: ctypes.CDLL) -> None:
    """RESULT carries times, score, adaptation and logits of its image."""
    [image] = images_of(1, 3000)
    with begun(library) as device:
        [(name, sequence, fields)] = send(device, 0, image)
    assert ("result", 2048) == (name, sequence)  # of the frame that completed it
    assert {
        "stream": STREAM,
        "index": 0,
        "infer_us": 500,
        "adapt_us": 20,
        "search_us": 7,
        "shift_score": 0.25,
        "adapted": 1,
        "gate": Gate.NONE,
        "forward_passes": 1,
        "offset": 0,
        "logits": expected_logits([image], 10)[0],
    } == fields


def test_images_run_in_order(library: ctypes.CDLL) -> None:
    """Images that arrive in any order within the window run in index order."""
    images = images_of(4, 3000)
    with begun(library) as device:
        for index in (2, 3, 1):
            assert "result" not in dict(summary(send(device, index, images[index])))
        said = [m for m in send(device, 0, images[0]) if m[0] == "result"]
    assert [0, 1, 2, 3] == [fields["index"] for _, _, fields in said]
    logits = [fields["logits"] for _, _, fields in said]
    assert expected_logits(images, 10) == logits


def test_feeding_runs_nothing(library: ctypes.CDLL) -> None:
    """An image runs in poll, one a call."""
    images = images_of(3, 100)
    with begun(library, input_bytes=100) as device:
        for index, image in enumerate(images):
            device.feed(b"".join(chunks(STREAM, index, image)))
        runs = []
        for _ in range(4):
            runs.append(device.images_run)
            device.poll()
    assert [0, 1, 2, 3] == runs


def test_a_repeated_image_is_not_run_again(library: ctypes.CDLL) -> None:
    """An image that comes again gets the result that was kept."""
    images = images_of(4, 3000)
    with begun(library) as device:
        first = [send(device, i, image)[0][2] for i, image in enumerate(images)]
        again = [send(device, i, image)[0][2] for i, image in enumerate(images)]
        asked = [ask(device, i)[0][2] for i in range(4)]
        assert 4 == device.images_run
    assert first == again == asked


def test_results_are_kept_for_two_windows(library: ctypes.CDLL) -> None:
    """The last 2 * window results can be asked for; older ones are refused."""
    images = images_of(9, 64)
    with begun(library, input_bytes=64, window=2) as device:
        kept = [send(device, i, image)[0][2] for i, image in enumerate(images)]
        for index in range(9):
            [(name, _, fields)] = ask(device, index)
            if index >= 5:
                assert ("result", kept[index]) == (name, fields)
            else:
                assert ("ack", {"status": Status.ERROR_STREAM}) == (name, fields)


def test_a_lost_chunk_is_asked_for_once(library: ctypes.CDLL) -> None:
    """NEED says where the gap begins, once for all that follows the gap."""
    [image] = images_of(1, 8000)
    first, _lost, *later = chunks(STREAM, 0, image)
    with begun(library, input_bytes=8000) as device:
        said = device.feed(first + b"".join(later))
        assert [("need", {"stream": STREAM, "index": 0, "offset": 2048})] == [
            (name, fields) for name, _, fields in said
        ]
        said = device.talk(b"".join(chunks(STREAM, 0, image, start=2048)))
    assert expected_logits([image], 10) == [m[2]["logits"] for m in said]


def test_each_gap_is_asked_for(library: ctypes.CDLL) -> None:
    """A second gap, after the first was filled, is asked for too; so in any slot."""
    images = images_of(3, 8000)
    with begun(library, input_bytes=8000, window=2) as device:
        for index, image in enumerate(images):
            parts = list(chunks(STREAM, index, image))
            assert [("need", index)] == summary(device.feed(parts[1]))
            assert [] == device.feed(parts[0])
            assert [("need", index)] == summary(device.feed(parts[3] + parts[2][:-1]))
            rest = b"\0" + b"".join(parts[1:])
            assert ("result", index) == summary(device.talk(rest))[-1]


def test_a_lost_tail_shows_with_the_next_image(library: ctypes.CDLL) -> None:
    """What an image lacks is asked for when bytes of a later one arrive."""
    images = images_of(2, 3000)
    with begun(library) as device:
        device.feed(next(chunks(STREAM, 0, images[0])))
        said = send(device, 1, images[1])
        assert [("need", 0)] == summary(said)
        assert 2048 == said[0][2]["offset"]
        said = device.talk(b"".join(chunks(STREAM, 0, images[0], start=2048)))
    assert [("result", 0), ("result", 1)] == summary(said)


def test_asking_says_what_is_lacking(library: ctypes.CDLL) -> None:
    """A request for an image that cannot run yet names the first gap, each time."""
    images = images_of(3, 3000)
    with begun(library) as device:
        assert [("need", 0)] == summary(ask(device, 0))
        assert [("need", 0)] == summary(ask(device, 2))
        device.feed(b"".join(chunks(STREAM, 0, images[0])))
        assert [] == ask(device, 0)  # it lacks nothing and will be answered
        assert [("need", 1)] == summary(ask(device, 1))


def test_other_chunk_sizes(library: ctypes.CDLL) -> None:
    """Chunks may be of any size, and overlap what is known."""
    [image] = images_of(1, 3000)
    with begun(library) as device:
        device.feed(b"".join(chunks(STREAM, 0, image[:999], size=7)))
        said = device.talk(b"".join(chunks(STREAM, 0, image, size=1000)))
    assert expected_logits([image], 10) == [m[2]["logits"] for m in said]


def test_the_first_bytes_stay(library: ctypes.CDLL) -> None:
    """Other bytes for a place that is filled change nothing."""
    image = bytes(3000)
    with begun(library) as device:
        device.feed(next(chunks(STREAM, 0, image)))
        device.feed(next(chunks(STREAM, 0, b"\xff" * 3000)))
        said = device.talk(b"".join(chunks(STREAM, 0, image, start=2048)))
    assert expected_logits([image], 10) == [m[2]["logits"] for m in said]


@pytest.mark.parametrize(
    ("stream", "index", "status"),
    [
        (STREAM, 4, Status.ERROR_STREAM),
        (STREAM, 2**32 - 1, Status.ERROR_STREAM),
        (STREAM + 1, 0, Status.ERROR_STREAM),
    ],
)
def test_outside_the_window(
    library: ctypes.CDLL, stream: int, index: int, status: Status
) -> None:
    """Images of another stream or beyond the window are refused."""
    with begun(library) as device:
        frame = next(chunks(stream, index, bytes(3000)))
        assert [("ack", status)] == summary(device.talk(frame))
        assert [("ack", status)] == summary(ask(device, index, stream))


@pytest.mark.parametrize(
    ("offset", "size"), [(0, 2049), (2999, 2), (3001, 1), (2**32 - 1, 2)]
)
def test_bytes_beyond_the_image(library: ctypes.CDLL, offset: int, size: int) -> None:
    """A chunk that is too long or reaches past the image is malformed."""
    frame = wire("input", 1, stream=STREAM, index=0, offset=offset, data=bytes(size))
    with begun(library) as device:
        assert [("ack", Status.ERROR_FRAME)] == summary(device.talk(frame))


def test_nothing_before_configure(library: ctypes.CDLL) -> None:
    """Without a stream every image is refused."""
    with LinkDevice(library) as device:
        frame = next(chunks(0, 0, bytes(3000)))
        assert [("ack", Status.ERROR_STREAM)] == summary(device.talk(frame))
        assert [("ack", Status.ERROR_STREAM)] == summary(ask(device, 0, 0))


def test_a_repeated_configure_changes_nothing(library: ctypes.CDLL) -> None:
    """CONFIGURE of the current stream is acknowledged; the stream goes on."""
    images = images_of(2, 3000)
    with begun(library) as device:
        said = send(device, 0, images[0])
        assert [("ack", Status.OK)] == summary(device.feed(configure(STREAM, 3)))
        said += send(device, 1, images[1])
    assert expected_logits(images, 10) == [m[2]["logits"] for m in said]


def test_a_new_stream_forgets_the_old(library: ctypes.CDLL) -> None:
    """A new stream starts at image 0, without state, bytes or results of the old."""
    images = images_of(2, 3000)
    with begun(library) as device:
        send(device, 0, images[0])
        device.feed(next(chunks(STREAM, 1, images[1])))
        device.feed(configure(STREAM + 1))
        assert [("need", 0)] == summary(ask(device, 0, STREAM + 1))
        said = device.talk(b"".join(chunks(STREAM + 1, 0, images[1])))
    assert expected_logits([images[1]], 10) == [m[2]["logits"] for m in said]


def test_keep_state(library: ctypes.CDLL) -> None:
    """With keep_state the statistics of the stream before are kept."""
    images = images_of(2, 3000)
    with begun(library) as device:
        send(device, 0, images[0])
        device.feed(configure(STREAM + 1, keep_state=1))
        said = device.talk(b"".join(chunks(STREAM + 1, 0, images[1])))
    assert expected_logits(images, 10)[1:] == [m[2]["logits"] for m in said]


def test_a_late_image_of_the_stream_before_is_not_absorbed(
    library: ctypes.CDLL,
) -> None:
    """An image that comes again after the next CONFIGURE with keep_state is refused."""
    images = images_of(2, 3000)
    with begun(library) as device:
        send(device, 0, images[0])
        device.feed(configure(STREAM + 1, keep_state=1))
        assert {("ack", Status.ERROR_STREAM)} == set(
            summary(send(device, 0, images[0]))
        )
        assert 1 == device.images_run
        said = device.talk(b"".join(chunks(STREAM + 1, 0, images[1])))
    assert expected_logits(images, 10)[1:] == [m[2]["logits"] for m in said]


def test_a_whole_stream_that_comes_again_is_not_absorbed(library: ctypes.CDLL) -> None:
    """Nor is it where its CONFIGURE comes late, too: streams are not begun twice."""
    images = images_of(2, 3000)
    old = configure(STREAM, 3) + b"".join(chunks(STREAM, 0, images[0]))
    new = configure(STREAM + 1, 4, keep_state=1)
    with LinkDevice(library) as device:
        device.talk(old)
        said = device.talk(new + old + new)
        refused, status = ("ack", {"status": Status.ERROR_STREAM}), Status.OK
        assert ("ack", 4, {"status": status}) == said[0] == said[-1]
        assert [refused] * (len(said) - 2) == [(m[0], m[2]) for m in said[1:-1]]
        assert 1 == device.images_run
        said = device.talk(b"".join(chunks(STREAM + 1, 0, images[1])))
    assert expected_logits(images, 10)[1:] == [m[2]["logits"] for m in said]


@pytest.mark.parametrize(
    ("number", "status"),
    [
        (STREAM - 256, Status.ERROR_STREAM),
        (STREAM - 257, Status.OK),
        (STREAM + 2**31, Status.OK),
    ],
)
def test_which_streams_are_late(
    library: ctypes.CDLL, number: int, status: Status
) -> None:
    """The 256 numbers before the current one, round the end of the range."""
    with begun(library) as device:
        said = device.feed(configure(number % 2**32))
    assert [("ack", status)] == summary(said)


@pytest.mark.parametrize(
    "change", [{"interval": 0}, {"shrinkage": float("nan")}, {"keep_state": 2}]
)
def test_a_refused_configure_keeps_the_stream(
    library: ctypes.CDLL, change: dict[str, Any]
) -> None:
    """Settings out of range are refused, and the stream before goes on."""
    [image] = images_of(1, 3000)
    with begun(library) as device:
        said = device.feed(configure(STREAM + 1, **change))
        assert [("ack", Status.ERROR_CONFIG)] == summary(said)
        assert [("result", 0)] == summary(send(device, 0, image))


@pytest.mark.parametrize("outputs", [1, 511, 512, 513, 1500])
def test_long_results_are_split(library: ctypes.CDLL, outputs: int) -> None:
    """Logits beyond a chunk come in further frames that repeat the fields."""
    [image] = images_of(1, 3000)
    with begun(library, outputs=outputs) as device:
        said = send(device, 0, image)
        assert said == [(n, 2048, f) for n, _, f in ask(device, 0)]
    logits = [value for _, _, fields in said for value in fields.pop("logits")]
    assert list(expected_logits([image], outputs)[0]) == logits
    offsets = [fields.pop("offset") for _, _, fields in said]
    assert list(range(0, outputs, 512)) == offsets
    assert all(said[0][2] == fields for _, _, fields in said)


def test_a_failed_inference_ends_the_stream(library: ctypes.CDLL) -> None:
    """The status of a failed inference is sent, and nothing runs after it."""
    images = images_of(2, 3000)
    with begun(library) as device:
        device.fail_at(0)
        assert [("ack", Status.ERROR_SIZE)] == summary(send(device, 0, images[0]))
        said = send(device, 1, images[1])
    assert {("ack", Status.ERROR_STREAM)} == set(summary(said))
