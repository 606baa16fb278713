from __future__ import annotations

import struct
import timeit
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_codec import by_hand

from refold import facts
from refold.protocol import (
    LONGEST_WIRE_FRAME,
    Decoder,
    Frame,
    FrameError,
    Hello,
    OtherVersionError,
    decode,
    encode,
)

SIZES = {"B": (0, 255), "b": (-128, 127), "H": (0, 65535), "I": (0, 2**32 - 1)}


@st.composite
def frames(draw: st.DrawFn) -> Frame:
    """Any frame of the protocol."""
    layout = facts.FRAMES[draw(st.sampled_from(sorted(facts.FRAMES)))]
    values: list[Any] = []
    for size, code in [
        (int(part[:-1] or 1), part[-1]) for part in split_codes(layout.struct[1:])
    ]:
        if code == "s":
            values.append(draw(st.binary(min_size=size, max_size=size)))
        elif code == "f":
            values.append(draw(st.floats(width=32, allow_nan=False)))
        else:
            values.extend(draw(st.integers(*SIZES[code])) for _ in range(size))
    unit = {None: 0, "bytes": 1, "i32[]": 4, "u32[]": 4}[layout.rest_kind]
    rest = b"".join(draw(st.lists(st.binary(min_size=unit, max_size=unit))))
    return Frame(layout.name, draw(st.integers(0, 65535)), tuple(values), rest)


def split_codes(text: str) -> list[str]:
    """``I32sB`` to ``I``, ``32s``, ``B``."""
    codes, count = [], ""
    for character in text:
        if character.isdigit():
            count += character
        else:
            codes.append(count + character)
            count = ""
    return codes


def wire(frame: Frame) -> bytes:
    """The frame's bytes on the wire."""
    return encode(frame.name, frame.sequence, *frame.values, rest=frame.rest)


def feed(data: bytes, *sizes: int) -> tuple[list[Frame], bytes]:
    """What a decoder makes of ``data``: its frames and its stray bytes."""
    stray: list[bytes] = []
    decoder = Decoder(stray.append)
    found, position = [], 0
    for size in (*sizes, len(data)):
        found += decoder.feed(data[position : position + size])
        position += size
    decoder.flush()
    return found, b"".join(stray)


def test_frames_have_the_bytes_of_the_definition() -> None:
    """An INPUT frame is header, fields, data and CRC, stuffed and delimited."""
    data = bytes(range(256)) * 2
    body = b"\x01\x03\x34\x12" + struct.pack("<III", 7, 8, 2048) + data
    assert by_hand(body) == encode("input", 0x1234, 7, 8, 2048, rest=data)


@given(frames())
def test_what_is_encoded_is_decoded(frame: Frame) -> None:
    """Every frame survives the wire, and no zero byte is in it but the last."""
    data = wire(frame)
    assert data.index(b"\0") == len(data) - 1
    assert frame == decode(data[:-1])


@given(st.lists(frames(), max_size=4), st.lists(st.integers(1, 40), max_size=30))
def test_the_cuts_of_the_stream_do_not_matter(
    sent: list[Frame], sizes: list[int]
) -> None:
    """The decoder finds the same frames however the bytes arrive."""
    assert (sent, b"") == feed(b"".join(map(wire, sent)), *sizes)


@given(frames(), st.data())
def test_a_damaged_frame_is_dropped_and_the_next_is_read(
    frame: Frame, data: st.DataObject
) -> None:
    """One turned bit costs one frame; nothing wrong is ever decoded."""
    bytes_sent = bytearray(wire(frame))
    place = data.draw(st.integers(0, len(bytes_sent) - 2))
    bytes_sent[place] ^= 1 << data.draw(st.integers(0, 7))
    after = Frame("result_request", 1, (2, 3), b"")
    found, stray = feed(bytes(bytes_sent) + wire(after))
    assert [after] == found
    assert stray


def test_text_between_frames_is_handed_out() -> None:
    """Boot text is no frame, and the frame behind the next delimiter is found."""
    frame = Frame("ack", 5, (-4,), b"")
    assert ([frame], b"ets Jul 29 2019\r\n") == feed(
        b"ets Jul 29 2019\r\n\0" + wire(frame)
    )


def test_endless_noise_takes_no_memory() -> None:
    """Bytes without a delimiter are given up once longer than any frame."""
    stray: list[bytes] = []
    decoder = Decoder(stray.append)
    assert [] == decoder.feed(b"x" * (LONGEST_WIRE_FRAME + 1))
    assert [LONGEST_WIRE_FRAME + 1] == [len(part) for part in stray]


def test_another_protocol_version_is_told_from_noise() -> None:
    """An intact frame of version 9 is refused by its number."""
    chunk = by_hand(b"\x09\x81\x00\x00")[:-1]
    with pytest.raises(OtherVersionError, match="version 9, expected 1"):
        decode(chunk)
    decoder = Decoder(lambda _: None)
    decoder.feed(chunk + b"\0")
    assert decoder.other_version == 9


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"\x01\x7f\x00\x00", "unknown frame type 0x7f"),
        (b"\x01\x82\x00\x00", "ack frame of 4 bytes"),
        (b"\x01\x82\x00\x00\x00\x00", "ack frame of 6 bytes"),
        (b"\x01\x83\x00\x00" + bytes(28 + 6), "result frame of 38 bytes"),
    ],
)
def test_frames_of_a_wrong_shape_are_refused(body: bytes, what: str) -> None:
    """Unknown types, missing fields, surplus bytes and cut logits."""
    with pytest.raises(FrameError, match=what):
        decode(by_hand(body)[:-1])


def test_hello_has_the_fields_of_the_facts() -> None:
    """The typed Hello follows firmware/facts.toml."""
    assert facts.FRAMES["hello"].fields == tuple(Hello.__dataclass_fields__)


def test_hello_reads_names_and_hashes() -> None:
    """Hashes become hexadecimal, the chip loses its padding."""
    numbers = (1, 7, 3072, 10, 30, 21, 4, 8192, 1000, 20, 0, 0, 0, 0, 0)
    frame = decode(
        encode("hello", 0, 1, b"\xab" * 8, b"\xcd" * 32, b"esp32s3", *numbers)[:-1]
    )
    hello = Hello.of(frame)
    assert ("ab" * 8, "cd" * 32, "esp32s3") == (
        hello.build_hash,
        hello.model_hash,
        hello.chip,
    )
    assert (7, 3072, 4) == (hello.boot_count, hello.input_bytes, hello.window)


def test_the_codec_is_fast() -> None:
    """3 KB are encoded within 60 us and a result decoded within 20 us."""
    image = bytes(range(256)) * 12

    def encode_image() -> None:
        encode("input", 1, 2, 3, 0, rest=image[:2048])
        encode("input", 1, 2, 3, 2048, rest=image[2048:])

    result = encode("result", 1, 2, 3, 4, 5, 0, 0.5, 1, 255, 1, 0, rest=bytes(40))
    decoder = Decoder(lambda _: None)
    assert min(timeit.repeat(encode_image, number=50, repeat=20)) / 50 < 60e-6
    assert (
        min(timeit.repeat(lambda: decoder.feed(result), number=50, repeat=20)) / 50
        < 20e-6
    )
