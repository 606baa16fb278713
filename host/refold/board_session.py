"""A session with a board: started or found, locked, greeted, and let go.

A native or emulated board is spawned. Any other sits behind a port, given or found
over USB, which one process at a time may use.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Iterator, Sequence

from refold import emulator
from refold.boards import Board
from refold.build import Build
from refold.device import Device, Patience
from refold.emulation import lacking
from refold.errors import UserError
from refold.link import open_link
from refold.lock import hold
from refold.place import find_place
from refold.process import spawn

_WAY = ("--tcp", "0") if os.name == "nt" else ("--pty",)
"""What a spawned board listens on: Windows has no pseudo-terminals."""


@contextlib.contextmanager
def connect(
    board: Board,
    build: Build,
    port: str | None = None,
    *,
    arguments: Sequence[str] = (),
    patience: Patience | None = None,
    wait_s: float = 0.0,
) -> Iterator[Device]:
    """Yield the device that runs ``build``, greeted; release it at the end.

    Args:
        board: Which it is.
        build: What must run there.
        port: URL of a board that runs already; None starts one that is spawned,
            and takes the one other that is attached.
        arguments: More arguments for a spawned board.
        patience: Deadlines of the device.
        wait_s: How long to wait for a process that has the board.

    Raises:
        UserError: No port is known, it cannot be opened, another process holds
            it, or the board runs other firmware.
        InfraError: The board does not start, is silent or is lost; where it was
            spawned the message says how it ended.
    """
    with contextlib.ExitStack() as stack:
        if port is None and board.link.kind == "spawn":
            command = (*_start(board, build), *arguments)
            port = stack.enter_context(spawn(command))
        else:
            place = find_place(board, port)
            stack.enter_context(hold(place, wait_s=wait_s))
            port = place.url
        link = stack.enter_context(open_link(port, baud=board.link.baud))
        device = Device(
            link,
            build_hash=build.build_hash,
            remedy=remedy(board, build),
            default_sites=build.default_sites,
            patience=patience,
        )
        device.hello()
        yield device


def _start(board: Board, build: Build) -> tuple[str, ...]:
    """The command that runs ``build`` on this computer.

    Raises:
        UserError: The board's emulator is not installed.
    """
    firmware = str(build.executable)
    if not board.link.emulator:
        return (firmware, *_WAY)
    missing = lacking(board)
    if missing is not None:
        raise UserError(
            f"board {board.id} runs in an emulator, and {missing}; install it "
            f"({board.link.install})"
        )
    filled = (part.replace("{firmware}", firmware) for part in board.link.emulator)
    return (sys.executable, "-I", emulator.__file__, *filled)


def remedy(board: Board, build: Build) -> str:
    """Say how ``build`` comes to run on the board."""
    if board.link.kind == "spawn":
        command = shlex.join(_start(board, build))
        return f"end it and start the program that is built now: '{command}'"
    artefact = build.directory.parent.parent
    verb = "build" if board.flash is None else "flash"
    command = f"refold {verb} {shlex.quote(str(artefact))} --board {board.id}"
    port = "" if board.flash is None else " --port PORT"
    return f"put that on the board with '{command}{port}'"
