"""A board is one process's: a lock across processes that says who has it.

An exclusive open alone does not keep a plain open out, and does not wait. The lock
is the system's and ends with its process; the note beside it only tells whose it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shlex
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from refold.errors import InfraError, UserError
from refold.place import Place

_SHOWN_CHARACTERS = 200

_logger = logging.getLogger(__name__)


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds a board.

    Attributes:
        pid: The process.
        command: Its command line.
        since: When it took the board, ISO 8601 with its offset.
    """

    pid: int
    command: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} ({self.command}) since {self.since}"


@contextlib.contextmanager
def hold(place: Place, *, wait_s: float = 0.0) -> Iterator[None]:
    """Keep other refold processes off a board for the context.

    Args:
        place: Where it is.
        wait_s: How long to wait for whoever has it; said once, as a warning.

    Raises:
        UserError: One of them has it, and is not waited for; the message says which.
        InfraError: It was, in vain.
    """
    path = lock_file(place.key)
    note = path.with_suffix(".owner")
    lock = FileLock(path)
    _acquire(lock, note, place.url, wait_s)
    try:
        note.write_bytes(msgspec.json.encode(_mine()))
        yield
    finally:
        note.unlink(missing_ok=True)
        lock.release()


def _acquire(lock: FileLock, note: Path, url: str, wait_s: float) -> None:
    with contextlib.suppress(Timeout):
        lock.acquire(timeout=0)
        return
    who = holder(note)
    if wait_s <= 0:
        raise UserError(
            f"port {url} is in use by {who}; end that, or wait for it with "
            "--wait SECONDS"
        )
    _logger.warning("port %s is in use by %s: waiting up to %g s", url, who, wait_s)
    try:
        lock.acquire(timeout=wait_s)
    except Timeout:
        raise InfraError(
            f"port {url} was in use by {holder(note)} for {wait_s:g} s; end that, or "
            "wait longer"
        ) from None


def holder(note: Path) -> str:
    """Say who holds a board, by its note; one of a process that ended is not its."""
    with contextlib.suppress(OSError, msgspec.DecodeError):
        found = msgspec.json.decode(note.read_bytes(), type=Note)
        if _runs(found.pid):
            return str(found)
    return "another refold process"


def _runs(pid: int) -> bool:
    if os.name == "nt":  # where signal 0 is Ctrl-C
        return True
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _mine() -> Note:
    command = shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])[:_SHOWN_CHARACTERS]
    since = datetime.now(UTC).astimezone().isoformat(timespec="seconds")
    return Note(pid=os.getpid(), command=command, since=since)


def lock_file(key: str, kind: str = "ports") -> Path:
    """Return the lock file of a board; its folder is there.

    Args:
        key: :attr:`refold.place.Place.key`.
        kind: Locks of another kind do not meet.
    """
    folder = user_cache_path("refold", ensure_exists=True) / kind
    folder.mkdir(exist_ok=True)
    return folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.lock"
