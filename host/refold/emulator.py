"""Runs a board's emulator as a process that behaves like a native board.

    python emulator.py COMMAND...

QEMU says on its standard error where its serial port listens, and outlives
whoever started it. This prints the port as ``port: URL`` on standard output,
passes everything else through, and ends the emulator when standard input closes,
which the system sees to even where the parent was killed.

A script of its own process: it imports nothing of refold.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO, cast

_LISTENS = re.compile(r"waiting for connection on: \S*?tcp:([^,\s]+)")
"""QEMU's words for a socket with ``server=on,wait=on``."""


def main(command: Sequence[str]) -> int:
    """Run ``command`` until it ends or standard input closes; return its exit code."""
    try:
        emulator = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
    except OSError as error:
        sys.stderr.write(f"cannot start {command[0]}: {error.strerror}\n")
        return 1
    threading.Thread(target=_end_with_input, args=(emulator,), daemon=True).start()
    try:
        _listen(cast("IO[str]", emulator.stderr))
        return emulator.wait()
    finally:
        emulator.kill()


def _end_with_input(emulator: subprocess.Popen[str]) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    emulator.kill()


def _listen(errors: IO[str]) -> None:
    for line in errors:
        match = _LISTENS.search(line)
        if match:
            sys.stdout.write(f"port: socket://{match[1]}\n")
            sys.stdout.flush()
        else:
            sys.stderr.write(line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
