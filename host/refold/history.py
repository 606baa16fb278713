"""The history page: accuracy and latency along time, from a folder of results."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from refold import trend_plots
from refold.baseline import Tolerances
from refold.errors import UserError
from refold.files import write_text
from refold.plots import Style, style
from refold.report import MISSING, environment, in_points
from refold.result import Result, Run, load_result
from refold.score import slowest
from refold.trend import (
    Break,
    Entry,
    Measure,
    breaks,
    retrained,
    still_broken,
    told,
    unlike,
)
from refold.trend_plots import Point, Trend

_logger = logging.getLogger(__name__)

POINTS = Tolerances().accuracy


@dataclass(frozen=True)
class _Accuracy:
    """A cell; ``broken`` says how it breaks the trend, "" where it does not."""

    text: str
    broken: str


@dataclass(frozen=True)
class _Row:
    """One mode of one result in a table, ready to print."""

    when: str
    name: str
    board: str
    mode: str
    clean: _Accuracy
    mean: _Accuracy
    latency: str
    verdict: str


@dataclass(frozen=True)
class _Section:
    """The results of one model over the same images; drawings have titles."""

    model: str
    data: str
    warnings: tuple[str, ...]
    legend: tuple[tuple[Style, str], ...]
    drawings: tuple[tuple[str, str], ...]
    rows: tuple[_Row, ...]


def gather(folder: Path) -> tuple[Entry, ...]:
    """Return all results below a folder, the oldest first.

    JSON files that are no results are left out with a warning.

    Raises:
        UserError: There is no result.
    """
    entries = []
    for path in sorted(folder.rglob("*.json")):
        try:
            result = load_result(path)
        except UserError as error:
            _logger.warning("left out: %s", error)
            continue
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        name = path.relative_to(folder).with_suffix("").as_posix()
        entries.append(Entry(result.finished or written, name, result))
    if not entries:
        raise UserError(
            f"no result below {folder}; expected files that 'refold run --json' wrote"
        )
    return tuple(sorted(entries, key=lambda entry: (entry.when, entry.name)))


def render_history(entries: Sequence[Entry], points: float = POINTS) -> str:
    """Return the page: a section for each model and data, plots and a table each.

    Results over other images are not comparable, so they share no plot.

    Args:
        entries: The oldest first.
        points: How far an accuracy may be below the median of the earlier ones.
    """
    template = environment().get_template("history.html")
    return template.render(
        groups=[_section(*key, group, points) for key, group in _groups(entries)],
        warnings=tuple(unlike(entries)),
        points=in_points(points),
        count=len(entries),
    )


def write_history(entries: Sequence[Entry], path: Path, points: float = POINTS) -> None:
    """Write :func:`render_history` to ``path``, and log its warnings.

    Raises:
        UserError: The place cannot be written.
    """
    write_text(path, render_history(entries, points))
    for warning in unlike(entries):
        _logger.warning("%s", warning)
    for (model, _), group in _groups(entries):
        for warning in _warnings(group, breaks(group, points)):
            _logger.warning("%s: %s", model, warning)


def _groups(entries: Sequence[Entry]) -> Iterable[tuple[tuple[str, str], list[Entry]]]:
    """Return results of one model and data together, with the names of both."""
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault(_group(entry.result), []).append(entry)
    return groups.items()


def _group(result: Result) -> tuple[str, str]:
    data = result.data
    return result.model.name, (
        f"{data.images:,} images of {data.spec}, severity {data.severity}, "
        f"seed {data.seed}, {data.sha256[:8]}"
    )


def _warnings(entries: Sequence[Entry], found: Sequence[Break]) -> Iterator[str]:
    yield from retrained(entries)
    yield from told(still_broken(entries, found))


def _section(
    model: str, data: str, entries: Sequence[Entry], points: float
) -> _Section:
    trends, found = _trends(entries), breaks(entries, points)
    broken = {(item.entry, item.line, item.measure): str(item) for item in found}
    drawings = [
        ("Accuracy along time", trend_plots.accuracy_trend(trends, model + data)),
        ("Inference time", trend_plots.latency_trend(trends, model + data)),
    ]
    return _Section(
        model=model,
        data=data,
        warnings=tuple(_warnings(entries, found)),
        legend=tuple((trend.style, trend.label) for trend in trends),
        drawings=tuple(drawings) if trends else (),
        rows=tuple(row for entry in reversed(entries) for row in _rows(entry, broken)),
    )


def _trends(entries: Sequence[Entry]) -> list[Trend]:
    """Return a line for each mode and board, over complete runs alone.

    The mean of a run that ended early is over fewer streams.
    """
    points: dict[str, list[Point]] = {}
    for entry in entries:
        for run in entry.complete_runs:
            points.setdefault(entry.line(run), []).append(_point(entry.when, run))
    return [
        Trend(label, style(number), tuple(found))
        for number, (label, found) in enumerate(points.items())
    ]


def _point(when: datetime, run: Run) -> Point:
    accuracy = run.clean_accuracy if run.mean_accuracy is None else run.mean_accuracy
    return Point(when, accuracy, slowest(run, "latency_us", "p50") / 1000)


def _rows(
    entry: Entry, broken: Mapping[tuple[str, str, Measure], str]
) -> Iterator[_Row]:
    result = entry.result

    def accuracy(run: Run, measure: Measure) -> _Accuracy:
        key = (entry.name, entry.line(run), measure)
        return _Accuracy(_points(getattr(run, measure)), broken.get(key, ""))

    for run in result.runs:
        yield _Row(
            when=f"{entry.when.astimezone(UTC):%Y-%m-%d %H:%M}",
            name=entry.name,
            board=result.board.id,
            mode=run.adapt,
            clean=accuracy(run, "clean_accuracy"),
            mean=accuracy(run, "mean_accuracy"),
            latency=f"{slowest(run, 'latency_us', 'p50') / 1000:.3f}",
            verdict=result.verdict,
        )


def _points(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}"
