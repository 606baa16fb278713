"""Records an instrument beside a run, and says what each stream took."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np

from refold.errors import InfraError
from refold.power.energy import (
    ADAPT_BIT,
    INFER_BIT,
    TIMESTAMP_BIT,
    Edge,
    Edges,
    Pulses,
    Samples,
    mj_per_ua,
)

_logger = logging.getLogger(__name__)

SETTLE_S = 2.0
"""How long samples may be under way from the instrument."""


class Meter(Protocol):
    """An instrument that samples.

    Attributes:
        voltage_mv: At the board.
        sample_hz: Samples a second.
    """

    voltage_mv: int
    sample_hz: int

    def samples(self) -> Iterator[Samples]:
        """Yield samples until :meth:`stop`.

        Raises:
            InfraError: The instrument is lost.
        """

    def stop(self) -> None:
        """Make :meth:`samples` end; may be called from another thread."""


class Energy(NamedTuple):
    """Of one stream, a mean image, in millijoules; ``adapt_mj`` is part of it."""

    image_mj: float
    adapt_mj: float


class Recorder:
    """What the pins have shown so far; without a meter nothing ever."""

    def __init__(self, meter: Meter | None = None) -> None:
        self._meter = meter
        unit = mj_per_ua(meter.voltage_mv, meter.sample_hz) if meter else 0.0
        self._images = Pulses(INFER_BIT, unit)
        self._adaptations = Pulses(ADAPT_BIT, unit)
        self._edges = Edges(TIMESTAMP_BIT, unit)
        self._begun = False
        self._failure: InfraError | None = None
        self._changed = threading.Condition()

    def record(self) -> None:
        """Take samples until the meter stops; runs in a thread of its own."""
        if self._meter is None:
            return
        try:
            for samples in self._meter.samples():
                with self._changed:
                    self._begun = True
                    self._adaptations.add(samples)
                    self._images.add(samples)
                    self._edges.add(samples)
                    self._changed.notify_all()
        except InfraError as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()

    def mark(self) -> tuple[int, int]:
        """Return a mark for :meth:`take`: before a stream."""
        with self._changed:
            return len(self._images.energies), len(self._adaptations.energies)

    def take(self, mark: tuple[int, int], images: int) -> Energy | None:
        """Return what ``images`` images since ``mark`` took.

        None where there is no meter or it did not see exactly so many.
        """
        if self._meter is None or images == 0:
            return None
        with self._changed:
            self._changed.wait_for(lambda: self._seen(mark, images), SETTLE_S)
            whole = self._images.energies[mark[0] :]
            adapt = self._adaptations.energies[mark[1] :]
        if len(whole) != images:
            _logger.warning(
                "the power meter saw %d inferences of %d: no energy for this stream; "
                "check the wire from the board's pin to D0 (docs/power.md)",
                *(len(whole), images),
            )
            return None
        known = np.isfinite(whole)
        if not known.any():
            _logger.warning("the power meter lost samples in every inference")
            return None
        # An adaptation with lost samples lies in an image that is left out, too.
        adapted = float(np.nansum(adapt)) / int(known.sum())
        return Energy(float(np.mean(np.array(whole)[known])), adapted)

    def _seen(self, mark: tuple[int, int], images: int) -> bool:
        return self._failure is not None or (
            len(self._images.energies) - mark[0] >= images
        )

    def edges(self) -> int:
        """Return how many falling edges the timestamp pin has had: before a wait.

        Waits for the first samples: an edge before them would not be seen.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._begun or self._failure, SETTLE_S)
            return len(self._edges.found)

    def await_edges(self, since: int, count: int) -> tuple[Edge, ...]:
        """Return the edges after the first ``since``: ``count``, or what there is.

        Raises:
            InfraError: The instrument was lost.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._failure is not None or len(self._edges.found) >= since + count
                ),
                SETTLE_S,
            )
            found = tuple(self._edges.found[since:])
        self.require_meter()
        return found

    def require_meter(self) -> None:
        """Raise what ended the recording, if anything did.

        Raises:
            InfraError: The instrument was lost.
        """
        if self._failure is not None:
            raise self._failure


@contextmanager
def recording(meter: Meter | None) -> Iterator[Recorder]:
    """Record ``meter`` while the context is open; with None, measure nothing."""
    recorder = Recorder(meter)
    if meter is None:
        yield recorder
        return
    thread = threading.Thread(target=recorder.record, daemon=True)
    thread.start()
    try:
        yield recorder
    finally:
        meter.stop()
        thread.join(SETTLE_S)
