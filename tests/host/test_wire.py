"""Serial ports: opening and closing one resets no board."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import termios
from collections.abc import Iterator

import pytest

from refold.wire import open_wire

DTR, RTS = termios.TIOCM_DTR, termios.TIOCM_RTS


@pytest.fixture
def pty() -> Iterator[str]:
    """A pseudo-terminal's name."""
    master, slave = os.openpty()
    yield os.ttyname(slave)
    os.close(master)
    os.close(slave)


class Lines:
    """A port's DTR and RTS, as the driver and then the program set them."""

    def __init__(self, raised: bool) -> None:
        self.states = [DTR | RTS if raised else 0]

    def ioctl(self, _: int, request: int, argument: object = 0) -> object:
        """Take what a program asks of the driver."""
        if request not in (termios.TIOCMBIS, termios.TIOCMBIC, termios.TIOCMSET):
            return argument
        assert isinstance(argument, bytes)
        (bits,) = struct.unpack("I", argument)
        now = self.states[-1]
        after = {
            termios.TIOCMBIS: now | bits,
            termios.TIOCMBIC: now & ~bits,
            termios.TIOCMSET: bits,
        }
        self.states.append(after[request])
        return argument


@pytest.mark.parametrize("raised", [True, False], ids=["raised", "left-low"])
def test_opening_and_closing_resets_nothing(
    raised: bool, pty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RTS without DTR holds a chip in reset: it never comes to that.

    A driver raises both lines when a port is opened, unless somebody told it not to,
    and drops both when it is closed.
    """
    lines = Lines(raised)
    monkeypatch.setattr(fcntl, "ioctl", lines.ioctl)
    wire = open_wire(pty, baud=921600)
    opened = len(lines.states)
    wire.close()
    assert 1 < opened == len(lines.states), "closing leaves the lines to the driver"
    assert RTS not in {state & (DTR | RTS) for state in lines.states}
    assert DTR | RTS == lines.states[-1]


@pytest.mark.parametrize("code", [errno.ENOTTY, errno.EINVAL])
def test_a_port_without_lines_is_opened(
    code: int, pty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pseudo-terminals and some bridges have none."""

    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    open_wire(pty, baud=921600).close()
