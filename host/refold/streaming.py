"""Steps on a board: stream, read states, and begin again where the board was lost.

A reset never shows in a result. A step that was cut off is streamed once more from its
first image, after the adaptation state with which it began is put back; what the board
answered before is dropped. Where a step ends the board is asked for its last reply
again, which it has only if it ran all of the stream.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from numpy.typing import NDArray

from refold.check import Checker, claim
from refold.device import Device, Reply
from refold.errors import InfraError, RestartError, UserError
from refold.job import OnReset
from refold.ledger import Entry, Ledger
from refold.phase import Phase
from refold.power.recorder import Recorder
from refold.result import Reset
from refold.schedule import Step
from refold.session import Loss, Session
from refold.signs import remedy_of
from refold.watch import Watch

MOST_RESETS = 3
"""In one run; a board that resets more often is in a reset loop."""

_logger = logging.getLogger(__name__)

Pictures = Callable[[str, int], NDArray[Any]]
"""From corruption and severity to images [N, ...] as the device takes them."""


@dataclass(eq=False)
class _Seen:
    """One attempt at a step.

    Attributes:
        seconds: That it took, without seeking a lost board.
        start, end: Adaptation states.
    """

    images: NDArray[Any]
    mark: tuple[int, int]
    seconds: float = 0.0
    replies: list[Reply] = field(default_factory=list)
    start: bytes | None = None
    end: bytes | None = None


@dataclass(eq=False, kw_only=True)
class Streaming:
    """Runs steps and enters what they give.

    Attributes:
        session: With the board.
        pictures: Where images come from.
        ledger: Where results go.
        watch: Told about progress.
        power: What measures energy.
        checker: Compares with the host model; None: nothing does.
        on_reset: What to do where the board was lost.
        keeps: States are read even if nobody checks them: a step may continue from
            the one before.
    """

    session: Session
    pictures: Pictures
    ledger: Ledger
    watch: Watch
    power: Recorder
    checker: Checker | None
    on_reset: OnReset
    keeps: bool
    _state: bytes | None = None
    """After the step before."""

    def run(self, step: Step) -> None:
        """Stream one step and enter what was answered, all of it or not.

        Raises:
            InfraError: The board was lost, and is not to be resumed or not back.
        """
        again = False
        while not self._through(step, again=again):
            again = True

    def _through(self, step: Step, *, again: bool) -> bool:
        """Stream once; False where the board was lost, is back, and nothing counts."""
        images = self.pictures(step.corruption, step.severity)[step.indices]
        seen = _Seen(images, self.power.mark())
        counts = True
        _logger.info("%s under %s: begins", step.corruption, step.mode.text)
        try:
            try:
                self._timed(step, seen, again=again)
            except InfraError as error:
                self._recover(step, seen, error)
                counts = False
                self.watch.back(len(seen.replies))
        finally:
            if counts:
                self._enter(step, seen)
        return counts

    def _timed(self, step: Step, seen: _Seen, *, again: bool) -> None:
        began = perf_counter()
        try:
            self._stream(step, seen, again=again)
        finally:
            seen.seconds = perf_counter() - began

    def _stream(self, step: Step, seen: _Seen, *, again: bool) -> None:
        device = self.session.device
        device.begin(step.mode.config, keep_state=not step.fresh)
        if not step.fresh and self._reads:
            seen.start = self._continue(device, again=again)
        for reply in device.run(image.tobytes() for image in seen.images):
            seen.replies.append(reply)
            self.watch.image()
        end = device.read_state() if self._reads else None
        device.confirm()
        seen.end = self._state = end

    @property
    def _reads(self) -> bool:
        return self.keeps or self.checker is not None

    def _continue(self, device: Device, *, again: bool) -> bytes:
        """Return the state that a step goes on from, which is that of the one before.

        Args:
            device: Configured to keep its state.
            again: It was lost since: put the state back.

        Raises:
            RestartError: It has another one, although it was not lost.
        """
        state, before = device.read_state(), self._state
        if before is None or state == before:
            return state
        if not again:
            raise RestartError(
                f"port {device.port}: the adaptation state is not that after the "
                "stream before: the board restarted between two streams"
            )
        try:
            device.write_state(before)
        except UserError as error:  # it is the board's own state
            raise RestartError(str(error)) from error
        return before

    def _recover(self, step: Step, seen: _Seen, error: InfraError) -> None:
        """Get the board back; enter what happened to it.

        Raises:
            InfraError: The run ends here.
        """
        resume = self.on_reset == "resume"
        loss = self.session.recover(error, restart=resume)
        self.ledger.resets.append(_reset(step, len(seen.replies), loss))
        what = _describe(step, len(seen.replies), loss)
        if loss.boot_count is None:
            raise _gone(loss) from error
        if not resume:
            raise InfraError(
                f"{loss.error.found}; {what}",
                f"{remedy_of(loss.reason)}; --on-reset resume streams on",
            ) from error
        if len(self.ledger.resets) > MOST_RESETS:
            raise InfraError(
                f"the board was lost {len(self.ledger.resets)} times in this run; the "
                f"last time {what}",
                remedy_of(loss.reason),
            ) from error
        _logger.warning("%s: this stream begins again", what)

    def _enter(self, step: Step, seen: _Seen) -> None:
        checked = None
        if self.checker is not None and (step.fresh or seen.start is not None):
            checked = self.checker.submit(
                claim(
                    step.mode.config,
                    seen.images,
                    seen.replies,
                    start=seen.start,
                    end=seen.end,
                )
            )
        energy = self.power.take(seen.mark, len(seen.replies))
        self.ledger.entries.append(
            Entry(step, seen.replies, seen.seconds, checked, energy)
        )
        _logger.info(
            "%s under %s: %d of %d images in %.2f s, %d frames sent again",
            *(step.corruption, step.mode.text, len(seen.replies), len(seen.images)),
            *(seen.seconds, sum(reply.resent for reply in seen.replies)),
        )


def _reset(step: Step, image: int, loss: Loss) -> Reset:
    return Reset(
        phase=Phase.STREAM,
        adapt=step.mode.text,
        stream=step.label,
        image=image,
        reason=loss.reason,
        boot_count=loss.boot_count,
        text=loss.text,
    )


def _gone(loss: Loss) -> InfraError:
    """What ends the run, with the board's last words."""
    if not loss.text:
        return loss.error
    return InfraError(
        f"{loss.error.found}; it said '{loss.text}'",
        remedy_of(loss.reason),
        phase=loss.error.phase,
    )


def _describe(step: Step, image: int, loss: Loss) -> str:
    """What happened, for people."""
    said = f", saying '{loss.text}'" if loss.text else ""
    return (
        f"the board was lost ({loss.reason}{said}) after {image} images of "
        f"{step.label} under {step.mode.text}, and is back with boot count "
        f"{loss.boot_count}"
    )
