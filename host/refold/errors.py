"""The errors refold raises on purpose.

Each carries one message that says what was found, where, what was expected and
what to do; the command line prints it and exits with ``exit_code``. Any other
exception is a bug and keeps its traceback.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from refold.phase import Phase


class RefoldError(Exception):
    """Base of every error the host tool raises on purpose."""

    exit_code: ClassVar[int] = 2


class UserError(RefoldError):
    """The user's input or environment is at fault."""


class TensorsDiffer(RefoldError):
    """A layer of the board gives what the host model does not."""

    exit_code: ClassVar[int] = 1


class InfraError(RefoldError):
    """A board, link or process failed; never counted as a wrong prediction.

    Attributes:
        found: What was, without the remedy.
        phase: In which; :func:`during` fills it in.
    """

    exit_code: ClassVar[int] = 3

    def __init__(
        self, found: str, remedy: str = "", *, phase: Phase | None = None
    ) -> None:
        """Say what was found; ``remedy`` is what to do where nothing more is known."""
        super().__init__(f"{found}; {remedy}" if remedy else found)
        self.found = found
        self.phase = phase

    def __str__(self) -> str:
        """Return the message, which begins with the phase where that is known."""
        text = super().__str__()
        return text if self.phase is None else f"phase {self.phase}: {text}"


class LostError(InfraError):
    """The port is gone."""


class RestartError(InfraError):
    """The board started anew: what it held is gone."""


class SilentError(InfraError):
    """The port is there, and no byte comes from it."""


class GarbledError(InfraError):
    """Bytes come that are no frames."""


@contextmanager
def during(phase: Phase) -> Iterator[None]:
    """Name ``phase`` in every :class:`InfraError` of the block that names none."""
    try:
        yield
    except InfraError as error:
        error.phase = error.phase or phase
        raise
