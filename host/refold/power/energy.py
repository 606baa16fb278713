"""From samples of current and of the trigger pins to the energy of each pulse."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

INFER_BIT, ADAPT_BIT, TIMESTAMP_BIT = 0, 1, 2
"""Digital inputs that the board's pins are wired to: D0, D1 and D2."""


class Samples(NamedTuple):
    """A run of samples without a gap.

    Attributes:
        start: Number of the first one; a block that does not begin where the last
            ended tells that some were lost.
        current_ua: Microamperes [N], float64.
        logic: Levels of the digital inputs [N], uint8, bit i for input i.
    """

    start: int
    current_ua: NDArray[np.float64]
    logic: NDArray[np.uint8]


@dataclass
class Pulses:
    """Collects the energy of each pulse of one input, in millijoules.

    One whose beginning was not seen is no pulse; one in which samples were lost, or
    in which the instrument was out of its range, has energy NaN.

    Args:
        bit: Number of the input.
        mj_per_ua: Energy of a sample of one microampere.
    """

    bit: int
    mj_per_ua: float
    energies: list[float] = field(default_factory=list)
    _level: bool | None = None
    _sum: float | None = None
    _next: int = 0

    def add(self, samples: Samples) -> None:
        """Take samples, in order."""
        if self._sum is not None and samples.start != self._next:
            self._sum = float("nan")
        self._next = samples.start + len(samples.logic)
        high = (samples.logic >> self.bit & 1).astype(bool)
        cuts = [0, *(np.flatnonzero(high[1:] != high[:-1]) + 1), len(high)]
        for first, last in pairwise(cuts):
            if last > first:
                self._run(bool(high[first]), samples.current_ua[first:last])

    def _run(self, high: bool, current_ua: NDArray[np.float64]) -> None:
        """Take samples of one level."""
        if high and self._level is False:
            self._sum = 0.0
        if high and self._sum is not None:
            self._sum += float(current_ua.sum()) * self.mj_per_ua
        elif self._sum is not None:
            self.energies.append(self._sum)
            self._sum = None
        self._level = high


class Edge(NamedTuple):
    """The number of its sample, and the millijoules since the edge before."""

    sample: int
    mj: float


@dataclass
class Edges:
    """Collects the falling edges of one input, and the energy between them.

    The energy before the first is unknown (NaN), and where samples were lost.

    Args:
        bit: Number of the input.
        mj_per_ua: Energy of a sample of one microampere.
    """

    bit: int
    mj_per_ua: float
    found: list[Edge] = field(default_factory=list)
    _high: bool = False
    _sum: float = float("nan")
    _next: int = 0

    def add(self, samples: Samples) -> None:
        """Take samples, in order."""
        if samples.start != self._next:
            self._sum = float("nan")
        self._next = samples.start + len(samples.logic)
        high = np.append(self._high, (samples.logic >> self.bit & 1).astype(bool))
        self._high = bool(high[-1])
        spent = samples.current_ua * self.mj_per_ua
        falls = [int(fall) for fall in np.flatnonzero(high[:-1] & ~high[1:])]
        self._sum += float(spent[: falls[0] if falls else None].sum())
        for first, last in pairwise([*falls, len(spent)]):
            self.found.append(Edge(samples.start + first, self._sum))
            self._sum = float(spent[first:last].sum())


def mj_per_ua(voltage_mv: int, sample_hz: int) -> float:
    """Millijoules of a sample of one microampere: uA x mV is nW."""
    return voltage_mv * 1e-6 / sample_hz
