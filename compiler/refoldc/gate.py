"""The safety gate and the detection of new domains; twin of firmware/src/gate.c.

docs/numerics.md, "Gate". A state machine over scores of a window of images; it
knows neither sites nor tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from refoldc.facts import (
    CHANGE_MARGIN,
    CHANGE_SETTLED,
    CHANGE_WINDOW,
    GATE_FIRST,
    GATE_MARGIN,
    GATE_WINDOW,
    TRIAL_MARGIN,
    Phase,
)

Look = Literal["not", "clean", "stream"]
"""What the window is compared with after an image: nothing, targets, running."""
Verdict = Literal["none", "window", "open", "forget"]
"""``window``: it begins again; ``open``: so it does, and tables come into force;
``forget``: window and running statistics begin again."""


@dataclass(frozen=True)
class GateState:
    """Where the gate stands.

    Attributes:
        phase: Which tables are in force.
        images: Of the window.
    """

    phase: Phase = Phase.CLOSED
    images: int = 0

    def look(self, absorbed: int) -> Look:
        """What the coming image's window is compared with.

        Args:
            absorbed: Images in the running statistics, the coming one included.
        """
        n = self.images + 1
        if n < (CHANGE_WINDOW if self.phase == Phase.TRIAL else GATE_FIRST):
            return "not"
        if self.phase != Phase.OPEN:
            return "clean"
        return "stream" if absorbed >= CHANGE_SETTLED else "not"

    def decide(
        self, look: Look, score: np.float32, *, level: float, noise: float
    ) -> tuple[GateState, Verdict]:
        """Count the image that ``look`` was announced for.

        Args:
            look: What the score was taken of.
            score: Mean divergence of the window; not used where nothing was.
            level, noise: Clean windows of n images score about level + noise / n.
        """
        n = self.images + 1
        shifted = look != "not" and bool(score > self._chance(look, level, noise))
        if self.phase == Phase.OPEN and shifted:
            return GateState(Phase.TRIAL), "forget"
        if shifted:
            return GateState(
                Phase.OPEN
            ), "open" if self.phase == Phase.CLOSED else "window"
        if n < (GATE_WINDOW if self.phase == Phase.CLOSED else CHANGE_WINDOW):
            return GateState(self.phase, n), "none"
        if self.phase == Phase.OPEN:
            return GateState(Phase.OPEN), "window"
        return GateState(), "forget"

    def _chance(self, look: Look, level: float, noise: float) -> np.float32:
        """The score beyond which a window has shifted; see gate.c."""
        n = np.float32(self.images + 1)
        if look == "stream":
            return np.float32(CHANGE_MARGIN) * np.float32(noise) / n
        margin = TRIAL_MARGIN if self.phase == Phase.TRIAL else GATE_MARGIN
        return np.float32(level) + np.float32(margin) * np.float32(noise) / n
