"""The lock of a board: across processes, with names, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from refold.errors import InfraError, UserError
from refold.lock import Note, hold, holder, lock_file
from refold.place import Place

HOLDER = """
import sys
from refold.lock import hold
from refold.place import Place
with hold(Place(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
ENDED = 2**22
"""A process number that Linux gives to none."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep locks to this test, its child processes included."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def device(tmp_path: Path) -> str:
    """Return a path that stands for a board's port."""
    (tmp_path / "ttyACM0").touch()
    return str(tmp_path / "ttyACM0")


@contextmanager
def held_elsewhere(device: str) -> Iterator[subprocess.Popen[bytes]]:
    """Let another process hold the board."""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", HOLDER, device]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment) as process:
        assert process.stdout is not None
        assert b"held\n" == process.stdout.readline()
        yield process


def let_go(process: subprocess.Popen[bytes]) -> None:
    """End the holder in order."""
    assert process.stdin is not None
    process.stdin.close()


def test_a_board_is_one_processes(device: str, tmp_path: Path) -> None:
    """By whatever link it is named; the message says whose, what and since when."""
    link = tmp_path / "by-id"
    link.symlink_to(device)
    with held_elsewhere(device) as process:
        whose = rf"by process {process.pid} \(-c \S+ttyACM0\) since \d{{4}}-\d\d-\d\dT"
        with pytest.raises(UserError, match=whose), hold(Place(str(link))):
            pass
        let_go(process)


def test_the_connector_makes_two_names_one_board(device: str) -> None:
    """Even where a board came back under another device path meanwhile."""
    first, second = (Place(name, usb_path="1-2") for name in (device, "/dev/other"))
    with (
        hold(first),
        pytest.raises(UserError, match="/dev/other is in use"),
        hold(second),
    ):
        pass


def test_different_boards_do_not_meet(device: str) -> None:
    """Each has its own lock."""
    with hold(Place(device)), hold(Place("socket://lab:4000")):
        pass


def test_waiting_ends_when_the_board_is_let_go(
    device: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said once that and for whom is waited; the lock's release ends it."""
    with held_elsewhere(device) as process:
        told = on_warning(monkeypatch, lambda: let_go(process))
        with hold(Place(device), wait_s=60):
            assert process.wait(60) == 0
    assert 1 == len(told)
    assert f"in use by process {process.pid} " in told[0]
    assert told[0].endswith("waiting up to 60 s")


def on_warning(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> list[str]:
    """Act when the wait begins; return what is said."""
    told: list[str] = []

    def warning(message: str, *arguments: object) -> None:
        told.append(message % arguments)
        threading.Thread(target=act).start()

    monkeypatch.setattr("refold.lock._logger.warning", warning)
    return told


def test_waiting_in_vain_is_infrastructure(device: str) -> None:
    """The board is fine and the command, too: a farm tries again."""
    with held_elsewhere(device) as process:
        who = rf"in use by process {process.pid} .* for 0.01 s; .*wait longer"
        with pytest.raises(InfraError, match=who), hold(Place(device), wait_s=0.01):
            pass
        let_go(process)


def test_a_holder_that_was_killed_holds_nothing(device: str) -> None:
    """Its note stays and blocks nobody."""
    with held_elsewhere(device) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        note = lock_file(Place(device).key).with_suffix(".owner")
        assert note.exists()
        with hold(Place(device)):
            assert os.getpid() == msgspec.json.decode(note.read_bytes(), type=Note).pid


@pytest.mark.parametrize(
    "left",
    [
        msgspec.json.encode(Note(pid=ENDED, command="refold run", since="")),
        b"{",
        b"",
        None,
    ],
    ids=["ended", "damaged", "empty", "none"],
)
def test_a_note_that_tells_nothing_names_nobody(
    left: bytes | None, tmp_path: Path
) -> None:
    """Between taking the lock and writing the note there is an old one, or none."""
    note = tmp_path / "x.owner"
    if left is not None:
        note.write_bytes(left)
    assert "another refold process" == holder(note)


def test_an_error_lets_go(device: str) -> None:
    """Whatever ends the work, the board is free, and no note stays."""
    with pytest.raises(ZeroDivisionError), hold(Place(device)):
        raise ZeroDivisionError
    with hold(Place(device)):
        pass
    assert [] == list(lock_file(Place(device).key).parent.glob("*.owner"))
