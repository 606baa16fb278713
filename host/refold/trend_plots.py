"""Plots along time as SVG text; see :mod:`refold.plots` for those of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num
from matplotlib.figure import Figure

from refold.plots import LINE_POINTS, MARKER_POINTS, Style, finish, new_figure


@dataclass(frozen=True)
class Point:
    """One run: accuracy in %, None where nothing was scored, and milliseconds."""

    when: datetime
    accuracy: float | None
    latency_ms: float


@dataclass(frozen=True)
class Trend:
    """The runs of one mode on one board, the oldest first."""

    label: str
    style: Style
    points: tuple[Point, ...]


def accuracy_trend(trends: Sequence[Trend], group: str) -> str:
    """Draw a line of accuracies a trend; ``group`` tells a page's plots apart."""
    figure, axes = new_figure(2.7)
    for trend in trends:
        known = [(p.when, p.accuracy) for p in trend.points if p.accuracy is not None]
        _line(axes, trend, known)
    axes.set_ylabel("top-1 accuracy, %")
    return _along_time(figure, axes, f"accuracy {group}")


def latency_trend(trends: Sequence[Trend], group: str) -> str:
    """Draw a line of latencies a trend, from zero; likewise."""
    figure, axes = new_figure(2.7)
    for trend in trends:
        _line(axes, trend, [(p.when, p.latency_ms) for p in trend.points])
    axes.set_ylim(bottom=0)
    axes.set_ylabel("median inference, ms")
    return _along_time(figure, axes, f"latency {group}")


def _line(axes: Axes, trend: Trend, points: Sequence[tuple[datetime, float]]) -> None:
    axes.plot(
        [date2num(when) for when, _ in points],  # type: ignore[no-untyped-call]
        [value for _, value in points],
        color=trend.style.colour,
        ls=trend.style.linestyle,
        lw=LINE_POINTS,
        marker=trend.style.marker,
        ms=MARKER_POINTS,
    )


def _along_time(figure: Figure, axes: Axes, salt: str) -> str:
    locator = AutoDateLocator(minticks=2, maxticks=6)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    return finish(figure, axes, "time, UTC", salt=salt)
