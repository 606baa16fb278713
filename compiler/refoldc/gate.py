"""The safety gate and the detection of new domains; twin of firmware/src/gate.c.

docs/numerics.md, "Gate". A state machine over distances of a window of images; it
knows neither sites nor tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from refoldc.facts import (
    GATE_FIRST,
    GATE_OPEN_WINDOW,
    GATE_RECHECK,
    GATE_SETTLED,
    GATE_WINDOW,
    Phase,
)

Look = Literal["not", "clean", "stream"]
"""What the window is compared with after an image: nothing, clean, running."""
Verdict = Literal["none", "switch", "open", "forget"]
"""``switch``: other tables come into force, and the window begins again; ``open``: so
it is, and the momentum is warm again; ``forget``: the stream begins again."""


@dataclass(frozen=True)
class GateState:
    """Where the gate stands.

    Attributes:
        phase: Which tables are in force.
        images: Of the window; no more than :attr:`window` are counted.
    """

    phase: Phase = Phase.CLOSED
    images: int = 0

    @property
    def window(self) -> int:
        """The images that the window looks back on: above it, the oldest fade."""
        return GATE_OPEN_WINDOW if self.phase == Phase.OPEN else GATE_WINDOW

    def look(self, absorbed: int) -> Look:
        """What the coming image's window is compared with.

        Args:
            absorbed: Images in the running statistics before it.
        """
        if self.phase == Phase.OPEN:
            return "stream" if absorbed >= GATE_SETTLED else "not"
        return "clean" if self.images + 1 >= GATE_FIRST else "not"

    def decide(
        self,
        look: Look,
        distance: np.float32,
        *,
        absorbed: int,
        margin: float,
        doubt: float,
    ) -> tuple[GateState, Verdict]:
        """Count the image that ``look`` was announced for.

        Args:
            look: What the distance was taken from.
            distance: Mean over the channels; not used where none was taken.
            absorbed: Images in the running statistics, this one included.
            margin: Times by which it must exceed what chance brings about.
            doubt: 1 / images behind what the window is compared with.
        """
        n = min(self.images + 1, self.window)
        chance = np.float32(1) / np.float32(n) + np.float32(doubt)
        shifted = look != "not" and bool(distance > np.float32(margin) * chance)
        if self.phase == Phase.OPEN:
            if shifted:
                return GateState(), "forget"
            if absorbed % GATE_RECHECK == 0:
                return GateState(Phase.RECHECK), "switch"
        elif shifted:
            return GateState(Phase.OPEN), self._opens
        elif self.phase == Phase.RECHECK and n == self.window:
            return GateState(), "forget"
        return GateState(self.phase, n), "none"

    @property
    def _opens(self) -> Verdict:
        return "open" if self.phase == Phase.CLOSED else "switch"
