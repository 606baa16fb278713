"""Emulators behave like native boards: they name a port and never stay behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from refold import emulator
from refold.errors import InfraError
from refold.process import spawn

WAITS = (
    "info: QEMU waiting for connection on: disconnected:tcp:127.0.0.1:4711,server=on"
)
DEADLINE_S = 10.0
WRAPPER = (sys.executable, "-I", emulator.__file__)

posix = pytest.mark.skipif(os.name != "posix", reason="looks at process ids")


def fake_qemu(tmp_path: Path, *after: str) -> tuple[str, ...]:
    """A program that writes its process id and QEMU's words, then does ``after``."""
    script = tmp_path / "qemu.py"
    lines = (
        "import os, sys, time",
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))",
        "print('warning: an old board', file=sys.stderr)",
        f"print({WAITS!r}, file=sys.stderr, flush=True)",
        *after,
    )
    script.write_text("\n".join(lines))
    return (*WRAPPER, sys.executable, str(script))


def ends(pid_file: Path) -> bool:
    """Tell whether the process of a file ends in time."""
    pid = int(pid_file.read_text())
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def wrapped(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return the wrapper around an emulator that runs until it is ended."""
    command = fake_qemu(tmp_path, "time.sleep(60)")
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield process
        process.kill()


def test_the_port_is_named(tmp_path: Path) -> None:
    """QEMU's address becomes a URL that a link can open."""
    with spawn(fake_qemu(tmp_path, "time.sleep(60)")) as port:
        assert "socket://127.0.0.1:4711" == port


@posix
def test_the_emulator_ends_with_the_session(tmp_path: Path) -> None:
    """Once the session is over its process is gone."""
    with spawn(fake_qemu(tmp_path, "time.sleep(60)")):
        pass
    assert ends(tmp_path / "pid")


@posix
def test_the_emulator_ends_with_a_parent_that_was_killed(
    wrapped: subprocess.Popen[str], tmp_path: Path
) -> None:
    """The system closes a dead parent's pipe; that is enough."""
    assert wrapped.stdout is not None
    assert wrapped.stdin is not None
    assert wrapped.stdout.readline().startswith("port: ")
    wrapped.stdin.close()
    assert ends(tmp_path / "pid")


def test_an_emulator_that_ends_is_infrastructure(tmp_path: Path) -> None:
    """Its exit code and words, those for the port apart, are in the message."""
    crash = fake_qemu(tmp_path, "sys.exit('machine on fire')")
    with pytest.raises(
        InfraError,
        match=r"exited with 1, saying: warning: an old board\nmachine on fire$",
    ):
        use_until_it_ends(crash)


def use_until_it_ends(command: tuple[str, ...]) -> None:
    """Fail as a link does whose port is gone."""
    with spawn(command):
        raise InfraError("port vanished")


def test_an_emulator_that_refuses_its_options_is_told(tmp_path: Path) -> None:
    """It names no port; what it said is shown."""
    refuses = (*WRAPPER, sys.executable, "-c", "import sys; sys.exit('no machine x')")
    with pytest.raises(InfraError, match=r"exited with 1, saying: no machine x"):
        use_until_it_ends(refuses)


def test_an_emulator_that_cannot_start_is_told(tmp_path: Path) -> None:
    """The wrapper's message has the program and the system's reason."""
    missing = (*WRAPPER, str(tmp_path / "nowhere"))
    with pytest.raises(InfraError, match=r"cannot start \S+nowhere: No such file"):
        use_until_it_ends(missing)
