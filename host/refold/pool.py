"""Boards shared by processes that test at the same time: each takes a free one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from refold.errors import InfraError, UserError

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
    paired = boards if len(boards) > 1 else boards * len(ports)
    return tuple(map(Place, paired, ports))


@contextmanager
def take(candidates: Sequence[Place], *, wait_seconds: float) -> Iterator[Place]:
    """Hold one of the places, the first that becomes free, for the context.

    Places without a port are always free. A run locks its port by itself; this
    lock lies before it, so that whoever waits waits here.

    Raises:
        InfraError: None became free in time.
    """
    deadline = monotonic() + wait_seconds
    while True:
        for place in candidates:
            if place.port is None:
                yield place
                return
            lock = _lock(place.port)
            try:
                lock.acquire(timeout=min(TRY_SECONDS, wait_seconds))
            except Timeout:
                continue
            with lock:
                lock.release()
                yield place
            return
        if monotonic() >= deadline:
            names = ", ".join(map(str, candidates))
            raise InfraError(
                f"no board became free within {wait_seconds:g} s of {names}",
                "end what holds them, or wait longer",
            )


def _lock(port: str) -> FileLock:
    folder = user_cache_path("refold", ensure_exists=True) / "pool"
    folder.mkdir(exist_ok=True)
    return FileLock(folder / f"{hashlib.sha256(port.encode()).hexdigest()[:16]}.lock")
