"""The native board in MLPerf Tiny's protocol, byte by byte."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pytest
import serial

from refoldc.artefact import Artefact

from refold.boards import load_board
from refold.build import build
from refold.data import load_data
from refold.mlperf.expected import expected_vectors
from refold.process import spawn

WAIT_S = 20.0
SIZE = 576
"""Of an input of the bundled network, in bytes."""


class Talk:
    """Raw bytes to and from the device."""

    def __init__(self, url: str) -> None:
        self._port = serial.Serial(url, 115200, timeout=WAIT_S)

    def close(self) -> None:
        """Leave the port."""
        self._port.close()

    def __call__(self, sent: str) -> list[str]:
        """Send characters; return the lines up to the next m-ready."""
        self._port.write(sent.encode())
        return self.hear()

    def hear(self) -> list[str]:
        """The lines up to the next m-ready."""
        lines: list[str] = []
        while not lines or lines[-1] != "m-ready":
            raw = self._port.read_until(b"\r\n")
            assert raw.endswith(b"\r\n"), (lines, raw)
            lines.append(raw.decode().removesuffix("\r\n"))
        return lines[:-1]

    @property
    def silent(self) -> bool:
        """Nothing more has been said."""
        return not self._port.in_waiting


@pytest.fixture(scope="module")
def url(artefact: Artefact) -> Iterator[str]:
    """A device that runs."""
    built = build(artefact.path, load_board("native"))
    command = (str(built.executable), "--pty", "--mlperf", "ic01")
    with spawn(command) as port:
        yield port


@pytest.fixture
def talk(url: str) -> Iterator[Talk]:
    """A line to it, opened anew; what it announced at its start is gone."""
    opened = Talk(url)
    yield opened
    opened.close()


def load(talk: Talk, data: bytes) -> list[str]:
    """Put an input into the device; return the last reply."""
    assert [f"m-[Expecting {len(data)} bytes]"] == talk(f"db load {len(data)}%")
    pieces = [data[i : i + 31] for i in range(0, len(data), 31)]
    for piece in pieces[:-1]:
        assert [] == talk(f"db {piece.hex()}%")
    return talk(f"db {pieces[-1].hex()}%")


def digits(count: int) -> np.ndarray:
    """Images as the device takes them."""
    return load_data("digits", split="test", limit=count).images


def test_it_says_who_it_is(talk: Talk) -> None:
    """Name, and the benchmark that picks the runner's script."""
    assert ["m-name-dut-[refold]"] == talk("name%")
    profile, model = talk("profile%")
    assert re.fullmatch(r"m-profile-\[.+\]", profile)
    assert "m-model-[ic01]" == model


def test_the_start_is_announced(artefact: Artefact) -> None:
    """Mode, time and m-init-done, before any command."""
    built = build(artefact.path, load_board("native"))
    command = (str(built.executable), "--tcp", "0", "--mlperf", "ic01")
    with spawn(command) as port:
        line = serial.serial_for_url(port, timeout=WAIT_S)
        line.write(b"name%")
        assert line.read_until(b"m-ready\r\n").startswith(b"m-name-dut")
        line.close()


def test_an_image_is_loaded_and_printed(talk: Talk) -> None:
    """The buffer holds what was sent, eight bytes a line."""
    data = digits(1)[0].tobytes()
    assert ["m-load-done"] == load(talk, data)
    printed = talk("db print%")
    assert all(line.startswith("m-buffer-") for line in printed)
    assert [8] * (len(data) // 8) == [line.count("-") - 1 for line in printed]
    text = "".join(line.removeprefix("m-buffer-") + "-" for line in printed)
    assert data.hex() == text.replace("-", "")


def test_results_are_the_host_models(talk: Talk, artefact: Artefact) -> None:
    """INFER answers in the protocol's order, with the expected probabilities."""
    images = digits(3)
    for image, expected in zip(images, expected_vectors(artefact, images), strict=True):
        load(talk, image.tobytes())
        lines = talk("infer 4 2%")
        laps = [int(line[9:]) for line in lines if line.startswith("m-lap-us-")]
        assert 0 <= laps[1] - laps[0] < WAIT_S * 1e6
        vector = "m-results-[" + ",".join(f"{p:.3f}" for p in expected) + "]"
        assert [
            "m-warmup-start-2",
            "m-warmup-done",
            "m-infer-start-4",
            f"m-lap-us-{laps[0]}",
            f"m-lap-us-{laps[1]}",
            "m-infer-done",
            vector,
        ] == lines
        assert [vector] == talk("results%")


def test_time_goes_on(talk: Talk) -> None:
    """Timestamps rise."""
    times = [int(talk("timestamp%")[0].removeprefix("m-lap-us-")) for _ in range(3)]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("sent", "complaint"),
    [
        ("bogus%", "e-[Unknown command: bogus]"),
        ("%", "e-[Unknown command: ]"),
        ("db load 12%", "e-[The model takes 576 bytes]"),
        ("db load%", "e-[The model takes 576 bytes]"),
        ("db load 576x%", "e-[The model takes 576 bytes]"),
        ("infer 0%", "e-[Expected infer N [W] with N > 0]"),
        ("infer 1 2 3%", "e-[Expected infer N [W] with N > 0]"),
        ("infer 99999999999%", "e-[Expected infer N [W] with N > 0]"),
        ("x" * 81 + "%", "e-[Command of more than 80 characters]"),
        ("x" * 80 + "%", f"e-[Unknown command: {'x' * 80}]"),
    ],
)
def test_faults_are_named_once(talk: Talk, sent: str, complaint: str) -> None:
    """Each faulty command gets its e-[...] and one m-ready, and is over."""
    assert [complaint] == talk(sent)
    assert ["m-name-dut-[refold]"] == talk("name%")
    assert talk.silent


def test_bytes_are_refused_whole(talk: Talk) -> None:
    """A faulty piece stores nothing, so that it can be sent again."""
    data = bytes(i % 251 for i in range(SIZE))
    last = SIZE // 31 * 31
    talk(f"db load {SIZE}%")
    assert ["e-[Insufficent number of hex digits]"] == talk("db 012%")
    assert ["e-[Bytes are not hexadecimal]"] == talk("db 00zz%")
    for start in range(0, last, 31):
        assert [] == talk(f"db {data[start : start + 31].hex()}%")
    assert ["e-[More bytes than db load announced]"] == talk(
        f"db {data[last:].hex()}00%"
    )
    assert ["e-[No input is loaded]"] == talk("infer 1 0%")
    assert ["m-load-done"] == talk(f"db {data[last:].hex()}%")
    assert "m-infer-done" in talk("infer 1 0%")


def test_the_port_may_be_closed_and_opened_again(url: str) -> None:
    """What was loaded is still there, and no reply is left over."""
    first = Talk(url)
    load(first, bytes(SIZE))
    first.close()
    second = Talk(url)
    assert "m-infer-done" in second("infer 1 0%")
    assert second.silent
    second.close()


def test_what_arrives_during_infer_is_dropped(talk: Talk) -> None:
    """A hasty runner gets no second m-ready, which would shift its replies."""
    load(talk, bytes(SIZE))
    talk("infer 500 0%name%")
    assert ["m-name-dut-[refold]"] == talk("name%")
    assert talk.silent
