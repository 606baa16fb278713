"""The native port: a process behind a pty or a TCP port."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pytest
from cbuild import STRICT, compile_c, compilers
from link_device import (
    FIRMWARE,
    STUB_SOURCES,
    SUITE,
    Message,
    chunks,
    configure,
    expected_logits,
    images_of,
    read_wire,
    wire,
)

STREAM = 9
HELLO = wire("hello_request", 3)
DEADLINE_S = 20.0


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The native port over the stub runtime."""
    if not compilers():
        pytest.skip("no C compiler")
    model = SUITE / "stub_model"
    return compile_c(
        [*STUB_SOURCES, *(FIRMWARE / "ports/native").glob("*.c"), model / "model.c"],
        tmp_path_factory.mktemp("native") / "board",
        cc=compilers()[0],
        flags=["-O2", *STRICT, '-DREFOLD_BUILD_HASH="00112233445566aa"'],
        include=[SUITE, model],
    )


class Port:
    """One end of the line: an open pty or socket, with deadlines."""

    def __init__(self, url: str) -> None:
        self._socket: socket.socket | None = None
        if url.startswith("socket://"):
            host, port = url.removeprefix("socket://").split(":")
            self._socket = socket.create_connection((host, int(port)), DEADLINE_S)
            self._fd = self._socket.fileno()
        else:
            self._fd = os.open(url, os.O_RDWR | os.O_NOCTTY)
        os.set_blocking(self._fd, False)
        self._data = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()
        else:
            os.close(self._fd)

    def write(self, data: bytes) -> None:
        """Write all of ``data``."""
        while data:
            assert select.select([], [self._fd], [], DEADLINE_S)[1], "not taken"
            data = data[os.write(self._fd, data) :]

    def read(self, wait_s: float) -> bytes | None:
        """What has come within ``wait_s``: nothing at the end, None if silent."""
        if not select.select([self._fd], [], [], wait_s)[0]:
            return None
        return os.read(self._fd, 65536)

    def hear(self, wait_s: float) -> list[Message]:
        """The frames that come within ``wait_s``."""
        *pieces, self._data = (self._data + (self.read(wait_s) or b"")).split(b"\0")
        return read_wire(b"\0".join(pieces))

    def expect(self, count: int) -> list[Message]:
        """``count`` frames."""
        said: list[Message] = []
        end = time.monotonic() + DEADLINE_S
        while len(said) < count:
            assert time.monotonic() < end, f"only {said}"
            said += self.hear(0.1)
        return said


Board = subprocess.Popen[str]


@contextmanager
def running(program: Path, *options: str) -> Iterator[tuple[Board, str]]:
    """The process and the URL it prints."""
    pipe = subprocess.PIPE
    command = [str(program), *options]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as board:
        assert board.stdout is not None
        try:
            line = board.stdout.readline()
            assert line.startswith("port: "), line
            yield board, line.removeprefix("port: ").strip()
        finally:
            board.kill()


def begin(port: Port) -> None:
    """Begin the stream."""
    port.write(b"\0" + configure(STREAM))
    assert ["ack"] == [name for name, _, _ in port.expect(1)]


@pytest.fixture(params=["--pty", "--tcp"])
def options(request: pytest.FixtureRequest) -> list[str]:
    """Either kind of port."""
    return ["--pty"] if request.param == "--pty" else ["--tcp", "0"]


def test_a_stream(program: Path, options: list[str]) -> None:
    """A window of images sent at once is answered in order."""
    images = images_of(32, 3000)
    with running(program, *options) as (_, url), Port(url) as port:
        port.write(HELLO)
        [(_, _, hello)] = port.expect(1)
        begin(port)
        for index, image in enumerate(images):
            port.write(b"".join(chunks(STREAM, index, image)))
        said = port.expect(32)
    assert (b"native".ljust(16, b"\0"), "00112233445566aa", 32) == (
        hello["chip"],
        hello["build_hash"].hex(),
        hello["window"],
    )
    assert list(range(32)) == [fields["index"] for _, _, fields in said]
    assert expected_logits(images, 10) == [fields["logits"] for _, _, fields in said]


def test_hosts_come_and_go(program: Path, options: list[str]) -> None:
    """A host that leaves in mid-frame, replies unread, does not trouble the next."""
    images = images_of(20, 3000)
    with running(program, *options) as (board, url):
        with Port(url) as port:
            begin(port)
            for index, image in enumerate(images):
                port.write(b"".join(chunks(STREAM, index, image)))
            port.write(HELLO[:7])
        for sequence in (100, 101):
            with Port(url) as port:
                port.write(b"\0" + wire("hello_request", sequence))
                while ("hello", sequence) not in [m[:2] for m in port.expect(1)]:
                    pass  # results that the host before did not wait for
        assert board.poll() is None


def test_replies_that_nobody_reads(program: Path, options: list[str]) -> None:
    """A host that never reads loses replies at most; the board stays alive."""
    flood = HELLO * 3000
    with running(program, *options) as (board, url), Port(url) as port:
        for _ in range(8):
            port.write(flood)
        assert board.poll() is None
        end = time.monotonic() + DEADLINE_S
        while port.hear(0.2):
            assert time.monotonic() < end
        port.write(wire("hello_request", 77))
        assert ("hello", 77) == port.expect(1)[-1][:2]


def test_it_ends_with_its_input(program: Path, options: list[str]) -> None:
    """The process exits when its standard input closes."""
    with running(program, *options) as (board, _):
        assert board.stdin is not None
        board.stdin.close()
        assert 0 == board.wait(DEADLINE_S)


def test_it_ends_when_told(program: Path, options: list[str]) -> None:
    """SIGTERM ends the process."""
    with running(program, *options) as (board, _):
        board.terminate()
        assert -signal.SIGTERM == board.wait(DEADLINE_S)


def test_a_busy_tcp_port(program: Path) -> None:
    """A second host finds its connection closed, and the first is not disturbed."""
    with running(program, "--tcp", "0") as (_, url), Port(url) as first:
        first.write(HELLO)
        first.expect(1)
        with Port(url) as second:
            assert b"" == second.read(DEADLINE_S)
        first.write(HELLO)
        assert ["hello"] == [name for name, _, _ in first.expect(1)]


def test_it_dies_as_asked(program: Path, options: list[str]) -> None:
    """--exit-after answers that many images and ends with exit code 1.

    The last answer may be lost: a pty drops what is unread when a side closes.
    """
    images = images_of(3, 3000)
    dying = running(program, *options, "--exit-after", "3")
    with dying as (board, url), Port(url) as port:
        begin(port)
        for index, image in enumerate(images[:2]):
            port.write(b"".join(chunks(STREAM, index, image)))
            assert [index] == [fields["index"] for _, _, fields in port.expect(1)]
        assert board.poll() is None
        port.write(b"".join(chunks(STREAM, 2, images[2])))
        assert 1 == board.wait(DEADLINE_S)


def test_pace(program: Path) -> None:
    """--pace-us holds back each image."""
    images = images_of(10, 3000)
    with running(program, "--pace-us", "20000") as (_, url), Port(url) as port:
        begin(port)
        start = time.monotonic()
        for index, image in enumerate(images):
            port.write(b"".join(chunks(STREAM, index, image)))
        port.expect(10)
    assert 9 * 0.02 <= time.monotonic() - start


def test_a_damaged_line(program: Path, options: list[str]) -> None:
    """With damage in both directions, asking again brings every result, once."""
    images = images_of(40, 3000)
    logits = []
    damaged = running(program, *options, "--damage-every", "9973")
    with damaged as (_, url), Port(url) as port:
        insist(port, b"\0" + configure(STREAM), "ack", None)
        for index, image in enumerate(images):
            frames = b"".join(chunks(STREAM, index, image))
            logits.append(insist(port, frames, "result", index)["logits"])
    assert expected_logits(images, 10) == logits


def insist(
    port: Port, frames: bytes, name: str, index: int | None
) -> dict[str, tuple[int, ...]]:
    """Send until the answer to ``index`` comes; return its fields."""
    for _ in range(50):
        port.write(frames)
        for message in port.hear(0.05):
            if message[0] == name and message[2].get("index") == index:
                return message[2]
    raise AssertionError("no answer")


@pytest.mark.parametrize(
    "wrong", [["--what"], ["--tcp"], ["--tcp", "70000"], ["--pace-us", "-1"], ["x"]]
)
def test_wrong_options(program: Path, wrong: list[str]) -> None:
    """Options that are unknown or no numbers: usage, exit code 2."""
    done = subprocess.run(
        [program, *wrong], capture_output=True, text=True, check=False
    )
    assert 2 == done.returncode
    assert "usage: " in done.stderr


def test_a_taken_tcp_port(program: Path) -> None:
    """A TCP port that is in use is named in the message."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = str(taken.getsockname()[1])
        done = subprocess.run(
            [program, "--tcp", number], capture_output=True, text=True, check=False
        )
    assert 1 == done.returncode
    assert f"127.0.0.1:{number}" in done.stderr
