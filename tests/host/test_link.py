from __future__ import annotations

import errno
import os
import subprocess
import sys
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
import serial
from virtual_device import Script, VirtualDevice

from refold.errors import InfraError, UserError
from refold.link import Link, open_link
from refold.protocol import Frame, encode
from refold.wire import SerialWire

ACK = Frame("ack", 3, (0,), b"")
ACK_WIRE = encode("ack", 3, 0)
HOLD = """
import serial, sys
port = serial.Serial(sys.argv[1], exclusive=True)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def pty() -> Iterator[tuple[int, str]]:
    """The master's file and the slave's path of a raw pty."""
    master, slave = os.openpty()
    tty.setraw(slave)
    yield master, os.ttyname(slave)
    for file in (master, slave):
        os.close(file)


@pytest.mark.parametrize("tcp", [False, True], ids=["pty", "tcp"])
def test_frames_cross_a_pty_and_a_socket(tcp: bool) -> None:
    """A request is answered over both kinds of port."""
    with VirtualDevice(tcp=tcp) as device, open_link(device.url) as link:
        link.send(encode("hello_request", 77), timeout_s=5, phase="asking")
        frame = link.receive(5)
    assert frame is not None
    assert ("hello", 77) == (frame.name, frame.sequence)


def test_frames_cross_any_pyserial_port() -> None:
    """The wire of Windows ports and rfc2217 carries frames too."""
    port = serial.serial_for_url("loop://", timeout=0.05)
    with Link(SerialWire(port), "loop://") as link:
        link.send(ACK_WIRE, timeout_s=5, phase="echoing")
        assert link.receive(5) == ACK


def test_nothing_received_is_none(pty: tuple[int, str]) -> None:
    """Waiting ends at its deadline."""
    with open_link(pty[1]) as link:
        assert link.receive(0.01) is None


def test_text_is_kept_for_messages(pty: tuple[int, str]) -> None:
    """What is no frame is remembered beside the frames around it."""
    with open_link(pty[1]) as link:
        os.write(pty[0], b"Guru Meditation Error\r\n\0" + ACK_WIRE)
        assert link.receive(5) == ACK
        assert link.last_words() == "Guru Meditation Error"


def test_log_frames_are_text(pty: tuple[int, str]) -> None:
    """A LOG frame goes where boot text goes, not to the caller."""
    with open_link(pty[1]) as link:
        os.write(pty[0], encode("log", 0, rest=b"brownout soon") + ACK_WIRE)
        assert link.receive(5) == ACK
        assert link.last_words() == "brownout soon"


def test_a_lost_port_is_reported_after_what_it_sent() -> None:
    """Frames that arrived are handed out, then every receive says it is lost."""
    with VirtualDevice(Script(greeting=ACK_WIRE), tcp=True) as device:
        link = open_link(device.url)
        assert link.receive(5) == ACK
        device._pipe.stop()
        device._thread.join()
        device._pipe.close()
        for _ in range(2):
            with pytest.raises(InfraError, match=r"vanished \(.*check the board"):
                link.receive(5)
        link.close()


def test_a_stuck_port_is_reported_with_its_phase(pty: tuple[int, str]) -> None:
    """Writing to a board that does not read ends at its deadline."""
    with (
        open_link(pty[1]) as link,
        pytest.raises(InfraError, match=r"stuck while sending 1 MB.* in 0\.05 s"),
    ):
        link.send(bytes(1 << 20), timeout_s=0.05, phase="sending 1 MB")


def test_closing_twice_is_harmless(pty: tuple[int, str]) -> None:
    """Whoever cleans up need not know whether somebody did."""
    link = open_link(pty[1])
    link.close()
    link.close()


def test_a_missing_port_lists_those_there_are() -> None:
    """The message says what was looked for and what exists."""
    with pytest.raises(UserError, match="/dev/no-such does not exist; serial ports"):
        open_link("/dev/no-such")


def test_a_file_is_no_port(tmp_path: Path) -> None:
    """An ordinary file is refused as such."""
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(UserError, match="is no serial port"):
        open_link(str(path))


def test_a_busy_port_names_its_holder(pty: tuple[int, str]) -> None:
    """The process that holds the port is named."""
    command = [sys.executable, "-c", HOLD, pty[1]]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        who = rf"process {holder.pid} \(" if Path("/proc").is_dir() else "another"
        with pytest.raises(UserError, match=f"in use by .*{who}"):
            open_link(pty[1])


def test_a_forbidden_port_names_the_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Permission denied comes with the command that grants it."""

    def refuse(_: object) -> None:
        raise serial.SerialException(errno.EACCES, "Permission denied")

    path = tmp_path / "ttyUSB0"
    path.touch()
    monkeypatch.setattr(serial.Serial, "open", refuse)
    monkeypatch.setattr(Path, "group", lambda _: "dialout")
    with pytest.raises(UserError, match=r"denied; .*'sudo usermod -aG dialout \$USER'"):
        open_link(str(path))


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("socket://127.0.0.1:1", "nothing answers there"),
        ("socket://127.0.0.1", "expected socket://HOST:PORT"),
        ("socket://host:many", "expected socket://HOST:PORT"),
        ("rfc2217://127.0.0.1:1", "cannot be opened"),
        ("http://host:80", "unknown scheme 'http'"),
    ],
)
def test_wrong_urls_are_user_errors(url: str, message: str) -> None:
    """Each says what is wrong with the URL or the place it names."""
    with pytest.raises(UserError, match=message):
        open_link(url)
