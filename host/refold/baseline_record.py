"""What the regression gate found; a part of ``result.json``."""

from __future__ import annotations

import msgspec


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One number beside the baseline's; ``limit`` is the worst that is tolerated."""

    measure: str
    whose: str
    before: float
    now: float
    limit: float
    worse: bool

    def __str__(self) -> str:
        of = f" of {self.whose}" if self.whose else ""
        return (
            f"worse than the baseline: {self.measure}{of} is {self.now:g}, was "
            f"{self.before:g}, limit {self.limit:g}"
        )


class BaselineRecord(msgspec.Struct, frozen=True, kw_only=True):
    """All that was compared with an earlier result.

    Attributes:
        name: The earlier result's file.
        accuracy_points, latency_ratio, memory_ratio: What was tolerated; the ratio is
            null where times were not judged.
    """

    name: str
    accuracy_points: float
    latency_ratio: float | None
    memory_ratio: float
    compared: tuple[Comparison, ...]

    @property
    def worse(self) -> tuple[Comparison, ...]:
        """What is beyond its limit."""
        return tuple(item for item in self.compared if item.worse)
