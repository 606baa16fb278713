"""The errors refold raises on purpose.

Each carries one message that says what was found, where, what was expected and
what to do; the command line prints it and exits with ``exit_code``. Any other
exception is a bug and keeps its traceback.
"""

from __future__ import annotations

from typing import ClassVar


class RefoldError(Exception):
    """Base of every error the host tool raises on purpose."""

    exit_code: ClassVar[int] = 2


class UserError(RefoldError):
    """The user's input or environment is at fault."""


class TensorsDiffer(RefoldError):
    """A layer of the board gives what the host model does not."""

    exit_code: ClassVar[int] = 1


class InfraError(RefoldError):
    """A board, link or process failed; never counted as a wrong prediction."""

    exit_code: ClassVar[int] = 3

    def __init__(self, found: str, remedy: str = "") -> None:
        """Say what was found; ``remedy`` is what to do where nothing more is known."""
        super().__init__(f"{found}; {remedy}" if remedy else found)
        self.found = found
