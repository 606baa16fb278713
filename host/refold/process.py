"""Boards that are child processes.

Such a board names its port on its first line of output and ends when its
standard input closes, so it never outlives its parent.
"""

from __future__ import annotations

import contextlib
import queue
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import IO, cast

from refold.deadline import Deadline
from refold.errors import InfraError, UserError, during
from refold.phase import Phase

START_S = 20.0
"""Longest wait for the port's name."""
END_S = 2.0
"""How long it may take to end once its input is closed or its port is gone."""
_PORT_LINE = re.compile(r"port: (\S+)")
_SHOWN_CHARACTERS = 600


@contextlib.contextmanager
def spawn(command: Sequence[str], deadline: Deadline | None = None) -> Iterator[str]:
    """Start a board's process, yield the URL of its port, end it.

    Raises:
        UserError: It cannot be started.
        InfraError: It names no port. One that passes through while the process
            has ended gets its exit code and last words in place of a remedy.
    """
    with tempfile.TemporaryFile() as errors, _running(command, errors) as child:
        try:
            with during(Phase.CONNECT):
                url = _await_port(child, deadline or Deadline())
            yield url
        except InfraError as error:
            if not _ended(child):
                raise
            told = f"{error.found}; {_epitaph(child, errors)}"
            raise type(error)(told, phase=error.phase) from error


@contextlib.contextmanager
def _running(
    command: Sequence[str], errors: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    try:
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors)
    except OSError as error:
        raise UserError(
            f"cannot start {command[0]} ({error.strerror}); build it on this computer "
            "with 'refold build'"
        ) from None
    try:
        yield child
    finally:
        cast("IO[bytes]", child.stdin).close()
        if not _ended(child):
            child.kill()
            child.wait()


def _await_port(child: subprocess.Popen[bytes], deadline: Deadline) -> str:
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    output = cast("IO[bytes]", child.stdout)
    threading.Thread(target=_listen, args=(output, lines), daemon=True).start()
    try:
        line = lines.get(timeout=min(START_S, deadline.left))
    except queue.Empty:
        deadline.require()
        line = ""
    match = _PORT_LINE.fullmatch(line)
    if match is None:
        raise InfraError(
            f"{child.args!r}: expected 'port: ...' within {START_S:g} s of its start, "
            f"got {line!r}; build the board again with 'refold build'"
        )
    return match[1]


def _listen(output: IO[bytes], lines: queue.SimpleQueue[str]) -> None:
    """Read all output, so that the child never blocks on it."""
    with output:
        for line in output:
            lines.put(line.decode(errors="replace").strip())
    lines.put("")


def _ended(child: subprocess.Popen[bytes]) -> bool:
    """Tell whether it has ended, or does so in a moment."""
    try:
        child.wait(END_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _epitaph(child: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    errors.seek(0)
    said = errors.read().decode(errors="replace").strip()
    words = f", saying: {said[-_SHOWN_CHARACTERS:]}" if said else ""
    code = child.returncode
    how = f"was killed by signal {-code}" if code < 0 else f"exited with {code}"
    return f"the board's process {how}{words}"
