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
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

from refold import emulator
from refold.baud import suspect_baud
from refold.boards import Board
from refold.build import Build
from refold.deadline import Deadline
from refold.device import Device, Patience
from refold.emulation import lacking
from refold.errors import UserError
from refold.link import Link, open_link
from refold.lock import hold
from refold.place import Place, find_again, find_place
from refold.process import spawn
from refold.session import Session, Way

_WAY = ("--tcp", "0") if os.name == "nt" else ("--pty",)
"""What a spawned board listens on: Windows has no pseudo-terminals."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a command gives a board: time, and help.

    Attributes:
        patience: Deadlines of the device.
        wait_s: How long to wait for a process that has the board.
        power_cycle: Shell command that cuts the board's power for a moment; None
            takes what its place says.
        deadline: Of everything that is done with it.
    """

    patience: Patience | None = None
    wait_s: float = 0.0
    power_cycle: str | None = None
    deadline: Deadline = field(default_factory=Deadline)


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

    What :func:`open_session` does for a board that need not be found again.
    """
    terms = Terms(patience=patience, wait_s=wait_s)
    with open_session(board, build, port, arguments=arguments, terms=terms) as session:
        yield session.device


@contextlib.contextmanager
def open_session(
    board: Board,
    build: Build | None,
    port: str | None = None,
    *,
    arguments: Sequence[str] = (),
    terms: Terms,
) -> Iterator[Session]:
    """Yield a session with the board that runs ``build``; release it at the end.

    Args:
        board: Which it is.
        build: What must run there; None takes any firmware of a board that runs.
        port: URL of a board that runs already; None starts one that is spawned,
            and takes the one other that is attached.
        arguments: More arguments for a spawned board.
        terms: What it is given.

    Raises:
        UserError: No port is known, it cannot be opened, another process holds
            it, or the board runs other firmware.
        InfraError: The board does not start, is silent or is lost; where it was
            spawned the message says how it ended.
    """

    def greet(link: Link) -> Device:
        if build is None:
            return Device(link, patience=terms.patience)
        return Device(
            link,
            build_hash=build.build_hash,
            remedy=remedy(board, build),
            default_sites=build.default_sites,
            patience=terms.patience,
        )

    with ExitStack() as stack:
        if port is None and board.link.kind == "spawn" and build is not None:
            command = (*_start(board, build), *arguments)
            way = Way(
                partial(_spawned, command), greet, terms.power_cycle, started=True
            )
        else:
            place = find_place(board, port)
            stack.enter_context(
                hold(place, wait_s=min(terms.wait_s, terms.deadline.left))
            )
            way = Way(
                partial(_attached, place, board),
                greet,
                terms.power_cycle or place.power_cycle,
                suspect=partial(suspect_baud, board, place.url),
            )
        yield stack.enter_context(Session(way, terms.patience, terms.deadline))


def _spawned(
    command: Sequence[str], line: ExitStack, deadline: Deadline, _until: float
) -> Link:
    port = line.enter_context(spawn(command, deadline))
    return line.enter_context(open_link(port, deadline=deadline))


def _attached(
    place: Place, board: Board, line: ExitStack, deadline: Deadline, until: float
) -> Link:
    port = find_again(place, min(until, deadline.at))
    return line.enter_context(open_link(port, baud=board.link.baud, deadline=deadline))


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
