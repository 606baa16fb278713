"""What the terminal shows: progress and tables. Uses rich; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from refold import score
from refold.baseline_record import BaselineRecord
from refold.corrupt import CORRUPTIONS
from refold.cost import TITLES, run_cost
from refold.power.recorder import Energy
from refold.profile import profile_lines
from refold.result import Profile, Result, Run
from refold.schedule import Step
from refold.watch import Watch

# Names, specs and messages are shown as they are: [x] is no style in them.
OUT = Console(markup=False, emoji=False)
ERR = Console(stderr=True, markup=False, emoji=False)


_MEAN = "mean of corrupted"
_NAMES = max(map(len, (_MEAN, *CORRUPTIONS)))
_RULES = 3
"""A column's border and margins."""


class ProgressWatch(Watch):
    """Shows a run as one bar over all images."""

    def __init__(self, progress: Progress) -> None:
        """Draw with ``progress``, which is live already."""
        self._progress = progress
        self._task = progress.add_task("starting", total=None)

    def stage(self, text: str) -> None:
        """Show what is being done."""
        super().stage(text)
        self._describe(text)

    def _describe(self, text: str) -> None:
        self._progress.update(self._task, description=text)

    def plan(self, images: int) -> None:
        """Give the bar its length."""
        self._progress.update(self._task, total=images)

    def step(self, step: Step) -> None:
        """Show which stream runs."""
        self._describe(f"{step.mode.text}: {step.corruption.replace('_', ' ')}")

    def image(self) -> None:
        """Advance the bar."""
        self._progress.advance(self._task)

    def back(self, images: int) -> None:
        """Take the bar back."""
        self._progress.advance(self._task, -images)


@contextmanager
def watching() -> Iterator[ProgressWatch]:
    """Show progress on stderr while the block runs."""
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=ERR,
        transient=True,
        disable=not ERR.is_terminal,
    ) as progress:
        yield ProgressWatch(progress)


def accuracy_tables(result: Result, width: int) -> Iterator[Table]:
    """Yield accuracy per corruption and mode, with the difference to off.

    One table where ``width`` allows it, else several with some of the modes each.
    """
    part: list[_Column] = []
    for column in _columns(result):
        needed = [_NAMES, *(c.width for c in part), column.width]
        if part and sum(needed) + _RULES * len(needed) + 1 > width:
            yield _accuracy_table(result, part)
            part = []
        part.append(column)
    yield _accuracy_table(result, part)


def _accuracy_table(result: Result, columns: Sequence[_Column]) -> Table:
    table = Table(title=f"{result.model.name} on {result.board.id}: top-1, %")
    table.add_column("corruption")
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True)
    names = dict.fromkeys(name for c in columns for name in c.accuracy)
    for name in names:
        table.add_row(name.replace("_", " "), *(c.cell(name) for c in columns))
    if any(c.mean for c in columns):
        table.add_section()
        table.add_row(_MEAN, *(c.mean for c in columns), style="bold")
    return table


def _stacked(mode: str) -> str:
    """Break a mode between its keys, where nothing is torn apart."""
    return mode.replace(":", ":\n", 1).replace(";", ";\n")


@dataclass(frozen=True)
class _Column:
    """One mode of the table; ``plain`` is the accuracy off, if it is compared."""

    title: str
    accuracy: dict[str, float]
    plain: dict[str, float]
    mean: str

    @property
    def width(self) -> int:
        """Of its widest line."""
        cells = (self.cell(name) for name in self.accuracy)
        return max(map(len, (*self.title.split("\n"), *cells, self.mean)))

    def cell(self, name: str) -> str:
        """Return the accuracy in one row."""
        if name not in self.accuracy:
            return ""
        text = f"{self.accuracy[name]:.1f}"
        if name not in self.plain:
            return text
        return f"{text} ({self.accuracy[name] - self.plain[name]:+.1f})"


def _columns(result: Result) -> list[_Column]:
    off = result.run("off")
    plain = dict(score.by_corruption(off)) if off else {}
    return [
        _Column(
            title=_stacked(run.adapt),
            accuracy=dict(score.by_corruption(run)),
            plain={} if run is off else plain,
            mean=_mean(run, result.gain),
        )
        for run in result.runs
    ]


def _mean(run: Run, gain: dict[str, float]) -> str:
    if run.mean_accuracy is None:
        return ""
    points = f" ({gain[run.adapt]:+.1f})" if run.adapt in gain else ""
    return f"{run.mean_accuracy:.1f}{points}"


def cost_table(result: Result) -> Table:
    """Return time, of it the median of adaptation, energy and parity per mode.

    Energy has a column only where something measured it.
    """
    energies = [score.energy(run) for run in result.runs]
    measured = any(energies)
    table = Table(
        title="per image, the slowest stream; times in ms"
        + ("; energy, of it adaptation, in mJ, the mean" if measured else "")
    )
    table.add_column("mode", no_wrap=True)
    titles = ["p50", "p95", "adapt", "images", "total, s", "parity misses"]
    for title in [*titles, "energy"] if measured else titles:
        table.add_column(title, justify="right")
    for run, energy in zip(result.runs, energies, strict=True):
        streams = [s for s in run.streams if s.images]
        table.add_row(
            _stacked(run.adapt),
            _slowest(s.latency_us.p50 for s in streams),
            _slowest(s.latency_us.p95 for s in streams),
            _slowest(s.adapt_us.p50 for s in streams),
            str(sum(s.images for s in streams)),
            f"{run.seconds:.1f}",
            _mismatches(s.parity_mismatches for s in streams),
            *([_energy(energy)] if measured else []),
        )
    return table


def _energy(energy: Energy | None) -> str:
    return "" if energy is None else f"{energy.image_mj:.3g} ({energy.adapt_mj:.3g})"


def spending_table(result: Result) -> Table:
    """Return where the time of a mean image went, and its forward passes."""
    table = Table(title="a mean image: the device's time, and forward passes")
    table.add_column("mode", no_wrap=True)
    for title in TITLES:
        table.add_column(title, justify="right")
    for run in result.runs:
        if cost := run_cost(run):
            table.add_row(_stacked(run.adapt), *cost.cells)
    return table


def _slowest(times_us: Iterable[int]) -> str:
    return f"{max(times_us, default=0) / 1000:.3f}"


def _mismatches(counts: Iterable[int | None]) -> str:
    known = [count for count in counts if count is not None]
    return str(sum(known)) if known else "not checked"


def _show_profile(profile: Profile) -> None:
    text = f"layers under {profile.adapt}, median of {profile.images} images"
    OUT.print(text, highlight=False)
    width = OUT.width if OUT.is_terminal else None
    for line in profile_lines(profile, width):
        OUT.print(line, highlight=False, soft_wrap=True)


def show_result(result: Result) -> None:
    """Print the tables of a result, and why it is no pass, if it is none."""
    if any(s.images for run in result.runs for s in run.streams):
        for table in accuracy_tables(result, OUT.width):
            OUT.print(table)
        OUT.print(cost_table(result))
        spending = spending_table(result)
        if spending.row_count:
            OUT.print(spending)
    for profile in result.profile:
        _show_profile(profile)
    for reason in result.reasons:
        # Not wrapped: the reason may hold a command to copy.
        text = f"{result.verdict}: {reason}"
        ERR.print(text, highlight=False, soft_wrap=True)


def show_regressions(record: BaselineRecord) -> None:
    """Print what got worse than the baseline, or that nothing did."""
    if not record.worse:
        OUT.print(f"nothing is worse than in {record.name}", highlight=False)
        return
    table = Table(title=f"worse than in {record.name}")
    table.add_column("measure")
    table.add_column("of")
    for title in ("was", "is", "limit"):
        table.add_column(title, justify="right", no_wrap=True)
    for item in record.worse:
        numbers = (f"{n:,.6g}" for n in (item.before, item.now, item.limit))
        table.add_row(item.measure, item.whose, *numbers)
    OUT.print(table)
