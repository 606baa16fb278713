"""When a whole command must have ended."""

from __future__ import annotations

import math
import time

from refold.errors import InfraError


class Deadline:
    """A point in time after which nothing is waited for any more.

    Args:
        seconds: From now; None for one that never comes.

    Attributes:
        at: By :func:`time.monotonic`.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self.at = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that remain; none where it has passed."""
        return max(0.0, self.at - time.monotonic())

    def require(self) -> None:
        """Raise where it has passed.

        Raises:
            InfraError: So; whoever waits adds the phase.
        """
        if self._seconds is not None and not self.left:
            raise InfraError(
                f"the deadline of {self._seconds:g} s has passed",
                "raise --deadline, stream fewer images, or see with -v what is slow",
            )
