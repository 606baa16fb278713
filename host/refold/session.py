"""A board that a command works with: reached, greeted, and found again if it is lost.

Everything that is waited for here ends: each phase has a deadline of its own, and the
whole command may have one.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from refold.deadline import Deadline
from refold.device import Device, Patience
from refold.errors import (
    GarbledError,
    InfraError,
    LostError,
    RefoldError,
    RestartError,
    SilentError,
    UserError,
    during,
)
from refold.facts import ResetReason
from refold.link import Link
from refold.phase import Phase
from refold.power_cycle import cycle_power
from refold.protocol import Hello
from refold.signs import telling_lines

POLL_S = 0.05
"""How often opening a port is tried that is on its way back."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Way:
    """How a board is reached.

    Attributes:
        open: Opens its port, for what is left of a command's time and until a point
            of :func:`time.monotonic`; what else it starts ends with the stack.
        greet: Makes the device of a link.
        power_cycle: Shell command that cuts its power for a moment; None: there is
            none.
        started: Opening starts the board anew.
        suspect: Finds out more where it says what is no frame.
    """

    open: Callable[[contextlib.ExitStack, Deadline, float], Link]
    greet: Callable[[Link], Device]
    power_cycle: str | None = None
    started: bool = False
    suspect: Callable[[GarbledError], RefoldError] = lambda error: error


@dataclass(frozen=True)
class Loss:
    """A board that was lost.

    Attributes:
        error: By which it showed; where it is not back, also what was found then.
        reason: Why it restarted, a :class:`ResetReason` in lower case; where it did
            not, or is not back, ``disconnect`` of a line and ``silent`` of a board.
        boot_count: The board's, now; None where it is not back.
        text: What it said of it, outside frames.
    """

    error: InfraError
    reason: str
    boot_count: int | None
    text: str


class Session:
    """Context manager: a board that answers.

    Args:
        way: To it.
        patience: Deadlines of what is tried.
        deadline: Of all of it.

    Attributes:
        device: Greeted; another one after :meth:`recover`.
    """

    device: Device

    def __init__(
        self,
        way: Way,
        patience: Patience | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        self._way = way
        self._patience = patience or Patience()
        self._deadline = deadline or Deadline()
        self._line = contextlib.ExitStack()
        self._hello: Hello

    def __enter__(self) -> Self:
        try:
            self._attach(time.monotonic())
        except SilentError:
            if self._way.power_cycle is None:
                raise
            self._cycle_power()
        except GarbledError as error:
            raise self._way.suspect(error) from None
        self._link.take_text()  # of a start before this session
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.__exit__(kind, error, trace)

    @property
    def link(self) -> Link:
        """The line that is open now."""
        return self._link

    def recover(self, error: InfraError, *, restart: bool = True) -> Loss:
        """Get the board back after ``error``, and find out what happened to it.

        Args:
            error: Raised by :attr:`device`.
            restart: A board that is started here may be started anew.

        Raises:
            InfraError: ``error``: the board was not lost, or the deadline has passed.
        """
        if self._deadline.left == 0:
            raise error
        before, words = self._hello, self._link.take_text()
        if isinstance(error, LostError) or not self._answers():
            return self._seek(error, words, restart=restart)
        rebooted = self._hello.boot_count != before.boot_count
        if not (rebooted or isinstance(error, RestartError)):
            raise error
        said = list(telling_lines(words + self._link.take_text()))
        return _loss(error, _reason(self._hello, said), self._hello, said)

    def _seek(self, error: InfraError, words: str, *, restart: bool) -> Loss:
        """Reach a board again whose line is dead; it may have restarted, or not."""
        before = self._hello
        back, found = self._reach_again(error, restart=restart)
        said = list(telling_lines(words + self._link.take_text()))
        if not back:
            return _loss(found, _cause(error, said), None, said)
        rebooted = self._hello.boot_count != before.boot_count
        reason = _reason(self._hello, said) if rebooted else _cause(error, said)
        return _loss(found, reason, self._hello, said)

    # --- ways to the board -------------------------------------------------------

    def _attach(self, until: float) -> None:
        """Open and greet; what fails leaves nothing open."""
        with contextlib.ExitStack() as line:
            with during(Phase.CONNECT):
                self._link = self._open(line, until)
            device = self._way.greet(self._link)
            self._hello = device.hello()
            self.device = device
            self._line = line.pop_all()

    def _return(self) -> None:
        """Attach to a board on its way back; its port may be lost again meanwhile."""
        until = time.monotonic() + self._patience.return_s
        while True:
            try:
                return self._attach(until)
            except LostError:
                if time.monotonic() >= until:
                    raise
            time.sleep(POLL_S)

    def _open(self, line: contextlib.ExitStack, until: float) -> Link:
        """Open, until then again and again: a port may be on its way back."""
        while True:
            self._deadline.require()
            try:
                return self._way.open(line, self._deadline, until)
            except UserError as error:
                left = min(until, self._deadline.at) - time.monotonic()
                if left <= 0:
                    raise
                _logger.debug("%s", error)
            time.sleep(min(POLL_S, left))

    def _answers(self) -> bool:
        """Whether the board answers on the line that is open."""
        try:
            self._hello = self.device.hello()
        except InfraError as error:
            _logger.info("%s", error)
            return False
        return True

    def _reach_again(
        self, error: InfraError, *, restart: bool
    ) -> tuple[bool, InfraError]:
        """Return whether a board that was lost is back, and what there is to tell."""
        if self._way.started and not restart:
            return False, error
        told = self._let_go(error)
        try:
            try:
                self._return()
            except SilentError:
                if self._way.power_cycle is None:
                    raise
                self._cycle_power()
        except (InfraError, UserError) as absent:
            return False, _gone(told, absent)
        return True, told

    def _let_go(self, error: InfraError) -> InfraError:
        """Close the line; return ``error``, or what tells how the board ended."""
        try:
            self._line.__exit__(type(error), error, error.__traceback__)
        except InfraError as told:
            return told
        return error

    def _cycle_power(self) -> None:
        """Wake a board that is there and silent.

        Raises:
            InfraError: The command fails, or the board stays as it is.
        """
        command = self._way.power_cycle
        if command is None:
            return
        _logger.warning("the board is silent: its power is cut with '%s'", command)
        with during(Phase.HELLO):
            cycle_power(command, self._deadline)
        try:
            self._return()
        except (InfraError, UserError) as error:
            raise InfraError(
                f"{_found(error)}, even after a power cycle by '{command}'",
                "check the board's cable and firmware",
                phase=_phase(error),
            ) from error


Said = list[tuple[str, ResetReason]]


def _loss(error: InfraError, reason: str, hello: Hello | None, said: Said) -> Loss:
    now = None if hello is None else hello.boot_count
    return Loss(error, reason, now, "; ".join(line for line, _ in said))


def _reason(hello: Hello, said: Said) -> str:
    """Why a board restarted; its own words tell where its Hello does not."""
    if hello.reset_reason in set(ResetReason) - {ResetReason.UNKNOWN}:
        return ResetReason(hello.reset_reason).name.lower()
    return said[0][1].name.lower() if said else ResetReason.UNKNOWN.name.lower()


def _cause(error: InfraError, said: Said) -> str:
    """Why a board was away of which no Hello tells it."""
    if said:
        return said[0][1].name.lower()
    return "disconnect" if isinstance(error, LostError) else "silent"


def _gone(error: InfraError, absent: InfraError | UserError) -> InfraError:
    """The board did not come back: what showed it, and what was found then."""
    return InfraError(
        f"{error.found}; it did not come back: {_found(absent)}",
        "check the board's cable and power",
        phase=_phase(absent),
    )


def _found(error: InfraError | UserError) -> str:
    return error.found if isinstance(error, InfraError) else str(error)


def _phase(error: InfraError | UserError) -> Phase:
    """Where a board that is sought was not found; connecting has no other errors."""
    found = error.phase if isinstance(error, InfraError) else None
    return found or Phase.CONNECT
