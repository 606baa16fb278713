"""The user's command that cuts a board's power for a moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

from refold.deadline import Deadline
from refold.errors import InfraError

POWER_CYCLE_S = 30.0
"""Longest that the command may take."""
_SHOWN_CHARACTERS = 300


def cycle_power(command: str, deadline: Deadline) -> None:
    """Run ``command`` in a shell and wait for its end.

    Raises:
        InfraError: It fails, or takes too long and is ended.
    """
    limit = min(POWER_CYCLE_S, deadline.left)
    with subprocess.Popen(  # noqa: S602  # the user's own words, as in a CI file
        command,
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as child:
        try:
            said, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            _end(child)
            raise InfraError(
                f"the power-cycle command '{command}' took longer than {limit:g} s",
                "run it by hand to see why",
            ) from None
        except BaseException:
            _end(child)
            raise
    if child.returncode != 0:
        words = said.decode(errors="replace").strip()[-_SHOWN_CHARACTERS:]
        raise InfraError(
            f"the power-cycle command '{command}' ended with {child.returncode}"
            + (f", saying: {words}" if words else ""),
            "run it by hand to see why",
        )


def _end(child: subprocess.Popen[bytes]) -> None:
    """End it with its own children."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
