"""Whether a board's emulator is installed and knows the board's machine."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

from refold.boards import Board

HELP_S = 30.0


def lacking(board: Board) -> str | None:
    """Say what of a board's emulator is missing; None where nothing is.

    Builds of QEMU differ in their machines, so its list is asked.
    """
    if not board.link.emulator:
        return None
    program, *arguments = board.link.emulator
    if shutil.which(program) is None:
        return f"there is no {program} on PATH"
    machine = arguments[arguments.index("-M") + 1] if "-M" in arguments else None
    if machine is not None and machine not in _machines(program):
        return f"the {program} on PATH has no machine '{machine}'"
    return None


@cache
def _machines(program: str) -> frozenset[str]:
    """First words of the lines that ``-M help`` prints; empty where it fails."""
    try:
        done = subprocess.run(
            [program, "-M", "help"],
            capture_output=True,
            text=True,
            timeout=HELP_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(line.split()[0] for line in done.stdout.splitlines() if line)
