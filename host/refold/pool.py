"""Boards shared by processes that test at the same time: each takes a free one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from time import monotonic

from filelock import FileLock, Timeout

from refold.boards import load_board
from refold.errors import InfraError, RefoldError, UserError
from refold.lock import lock_file
from refold.place import find_place

TRY_SECONDS = 0.2
"""How long one board is waited for before the next one is tried."""


@dataclass(frozen=True)
class Place:
    """A board and where it is attached; ``port`` None where a run starts it."""

    board: str
    port: str | None = None

    def __str__(self) -> str:
        return self.board if self.port is None else f"{self.board} at {self.port}"


def places(boards: Sequence[str], ports: Sequence[str]) -> tuple[Place, ...]:
    """Pair boards with ports: one board for all of them, or one for each.

    Raises:
        UserError: Numbers do not match, or a port is given twice.
    """
    if not ports:
        return tuple(Place(board) for board in boards)
    if len(boards) not in (1, len(ports)):
        raise UserError(
            f"{len(boards)} boards for {len(ports)} ports; expected one board, or one "
            "for each port in their order"
        )
    for port in ports:
        if ports.count(port) > 1:
            raise UserError(f"port {port} is given twice; name each board's own")
    paired = boards if len(boards) > 1 else [boards[0]] * len(ports)
    return tuple(map(Place, paired, ports))


@contextmanager
def take(candidates: Sequence[Place], *, wait_seconds: float) -> Iterator[Place]:
    """Hold one of the places, the first that becomes free, for the context.

    Places without a port are always free. A run locks its port by itself; this
    lock comes before it, so that whoever waits waits here.

    Raises:
        InfraError: None became free in time.
    """
    with ExitStack() as held:
        yield _first_free(candidates, held, wait_seconds)


def _first_free(
    candidates: Sequence[Place], held: ExitStack, wait_seconds: float
) -> Place:
    """Go round the places until one can be entered into ``held``."""
    deadline = monotonic() + wait_seconds
    once = min(TRY_SECONDS, wait_seconds)
    while True:
        for place in candidates:
            if place.port is None:
                return place
            with suppress(Timeout):
                held.enter_context(_lock(place).acquire(timeout=once))
                return place
        if monotonic() >= deadline:
            names = ", ".join(map(str, candidates))
            raise InfraError(
                f"no board became free within {wait_seconds:g} s of {names}",
                "end what holds them, or wait longer",
            )


def _lock(place: Place) -> FileLock:
    """Return the lock of a board, by whatever name it is given."""
    return FileLock(lock_file(_key(place), kind="pool"))


def _key(place: Place) -> str:
    """What the board is; one that is away has no more than the name given."""
    try:
        return find_place(load_board(place.board), place.port).key
    except RefoldError:
        return os.path.realpath(str(place.port))
