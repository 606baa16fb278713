"""What a series of results says that no single one does: breaks, and unlike settings.

A run's accuracy breaks the trend where it is below the median of all earlier complete
runs of its mode and board by more than is tolerated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, pairwise
from statistics import median
from typing import Any, Literal

from refold.result import Result, Run

Measure = Literal["clean_accuracy", "mean_accuracy"]
MEASURES: dict[Measure, str] = {
    "clean_accuracy": "clean accuracy",
    "mean_accuracy": "mean accuracy over corruptions",
}
SHOWN = 4
"""Values that a message lists."""
ROUNDING = 1e-9
"""Of accuracies, which are sums of decimals."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One result; ``when`` is the file's time where the result does not say."""

    when: datetime
    name: str
    result: Result

    @property
    def complete_runs(self) -> tuple[Run, ...]:
        """The runs whose means are over all streams."""
        return self.result.runs if self.result.complete else ()

    def line(self, run: Run) -> str:
        """What a run shares with those that it continues: board and mode."""
        return f"{self.result.board.id} {run.adapt}"


@dataclass(frozen=True)
class Break:
    """An accuracy that is too far below the ``median`` of ``earlier`` results."""

    entry: str
    line: str
    measure: Measure
    accuracy: float
    median: float
    earlier: int

    def __str__(self) -> str:
        return (
            f"{MEASURES[self.measure]} is {self.accuracy:.1f} %, "
            f"{self.median - self.accuracy:.1f} points below the median of "
            f"{self.earlier} earlier"
        )


def breaks(entries: Sequence[Entry], points: float) -> tuple[Break, ...]:
    """Return every break, the oldest first.

    Args:
        entries: Of one model and the same images, the oldest first. A run is judged
            by those of the same streams alone.
        points: How far below the median is tolerated.
    """
    seen: dict[Any, list[float]] = {}
    found = []
    for entry, run, measure, accuracy in _accuracies(entries):
        line, streams = entry.line(run), frozenset(s.key for s in run.streams)
        earlier = seen.setdefault((line, streams, measure), [])
        if earlier and median(earlier) - accuracy > points + ROUNDING:
            middle, count = median(earlier), len(earlier)
            found.append(Break(entry.name, line, measure, accuracy, middle, count))
        earlier.append(accuracy)
    return tuple(found)


def _accuracies(
    entries: Sequence[Entry],
) -> Iterator[tuple[Entry, Run, Measure, float]]:
    """Yield all accuracies that are known."""
    for entry in entries:
        for run in entry.complete_runs:
            for measure in MEASURES:
                accuracy: float | None = getattr(run, measure)
                if accuracy is not None:
                    yield entry, run, measure, accuracy


def still_broken(entries: Sequence[Entry], found: Sequence[Break]) -> tuple[Break, ...]:
    """Return the breaks of each line's last result: those that are no history yet."""
    last = {
        entry.line(run): entry.name for entry in entries for run in entry.complete_runs
    }
    return tuple(item for item in found if last[item.line] == item.entry)


def told(found: Sequence[Break]) -> Iterator[str]:
    """Say it in words, one sentence a run."""
    for (entry, line), group in groupby(found, lambda item: (item.entry, item.line)):
        yield f"{line} in {entry}: {'; '.join(map(str, group))}"


def retrained(entries: Sequence[Entry]) -> Iterator[str]:
    """Say where the model's bytes changed under one name."""
    changes = [
        (entry.name, before.result.model.sha256, entry.result.model.sha256)
        for before, entry in pairwise(entries)
        if before.result.model.sha256 != entry.result.model.sha256
    ]
    if changes:
        times = "once" if len(changes) == 1 else f"{len(changes)} times"
        name, before, after = changes[-1]
        yield (
            f"the model is not the same in all: its bytes changed {times}, last with "
            f"{name} (sha256 {before[:8]}, then {after[:8]})"
        )


def unlike(entries: Sequence[Entry]) -> Iterator[str]:
    """Say in what complete results differ, so that they cannot be compared."""
    results = [entry.result for entry in entries if entry.result.complete]
    differing = [
        f"{name} ({_listed(values)})"
        for name, of in SETTINGS.items()
        if len(values := list(dict.fromkeys(map(of, results)))) > 1
    ]
    if differing:
        yield (
            f"not all results can be compared, they differ in {'; '.join(differing)}; "
            "those of one model and data share a section"
        )
    boards = list(dict.fromkeys(result.board.id for result in results))
    if len(boards) > 1:
        yield (
            f"the results are of {len(boards)} boards ({_listed(boards)}): times "
            "compare within a line alone"
        )


def _corruptions(result: Result) -> str:
    """Name what was streamed, or count it where it is much."""
    streams = [s.corruption for run in result.runs for s in run.streams if s.corrupted]
    names = list(dict.fromkeys(streams))
    return " + ".join(names) if 0 < len(names) <= SHOWN else str(len(names))


def _listed(values: Sequence[str]) -> str:
    more = len(values) - SHOWN
    return ", ".join(values[:SHOWN]) + (f" and {more} more" if more > 0 else "")


SETTINGS: dict[str, Callable[[Result], str]] = {
    "model": lambda result: result.model.name,
    "images": lambda result: f"{result.data.images:,}",
    "data sha256": lambda result: result.data.sha256[:8],
    "corruptions": _corruptions,
    "severity": lambda result: str(result.data.severity),
    "seed": lambda result: str(result.data.seed),
}
"""What results that can be compared have in common."""
