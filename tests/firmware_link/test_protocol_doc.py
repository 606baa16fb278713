"""docs/protocol.md is byte-exact."""

from __future__ import annotations

import ctypes
import re
import struct
import zlib
from typing import NamedTuple

import pytest
from cbuild import ROOT
from link_device import LinkDevice, Message, frame_body, read_wire, seal

TEXT = (ROOT / "docs/protocol.md").read_text(encoding="utf-8")


class Line(NamedTuple):
    """One frame of the conversation: who sends it, what it is said to be, its bytes."""

    who: str
    words: list[str]
    data: bytes


def conversation() -> list[Line]:
    """The frames of the worked example, in order."""
    [block] = re.findall(r"```conversation\n(.*?)```", TEXT, re.DOTALL)
    entries = re.findall(r"^(host|board): (.*)\n((?:    .*\n)+)", block, re.MULTILINE)
    return [Line(who, head.split(), bytes.fromhex(data)) for who, head, data in entries]


def shown(value: object) -> str:
    """A field as the page writes it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("line", conversation(), ids=lambda line: " ".join(line.words))
def test_bytes_are_what_they_are_said_to_be(line: Line) -> None:
    """Each frame decodes to the name, number and fields above it."""
    [(name, sequence, fields)] = read_wire(line.data)
    expected: Message = (name, sequence, fields)
    stated = dict(word.split("=") for word in line.words[2:])
    assert [expected[0], str(expected[1])] == line.words[:2]
    assert {key: shown(fields[key]) for key in stated} == stated


def test_the_board_answers_so(library: ctypes.CDLL) -> None:
    """The firmware, given the host's frames, sends the board's, byte for byte."""
    lines = conversation()
    sizes = {"input_bytes": 12, "outputs": 3, "state_bytes": 8, "window": 2}
    with LinkDevice(library, **sizes) as device:
        heard = []
        for line in lines:
            if line.who == "host":
                heard += device.writes_of(line.data)
                while more := device.poll_writes():
                    heard += more
    assert [line.data for line in lines if line.who == "board"] == heard


def test_the_first_example() -> None:
    """The three steps of HELLO_REQUEST are what the codec makes of it."""
    body = frame_body("hello_request", 1)
    wire = seal(body)
    guarded = body + struct.pack("<I", zlib.crc32(body))
    steps = {"header, payload": body, "with its CRC": guarded, "on the wire": wire}
    for label, data in steps.items():
        assert re.search(rf"    {label} +{data.hex(' ')}( {{3}}|\n)", TEXT), label
