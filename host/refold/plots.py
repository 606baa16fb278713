"""Plots of results as SVG text.

Each is drawn 5 inches wide, so that its text stays readable when a phone shrinks
the page to 390 pixels.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.markers import MarkerStyle
from matplotlib.ticker import Locator, LogLocator, MaxNLocator
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

from refold.result import Memory, Result, Run
from refold.score import QUANTILES, by_corruption, energy

COLOURS = (
    "#5b6472",
    "#0b6e4f",
    "#d1495b",
    "#2e5eaa",
    "#b8730a",
    "#7b4b94",
    "#00809d",
    "#6b4226",
)
"""Each at least 3:1 against white."""
DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1.2), (5, 1.5, 1, 1.5))
"""On and off lengths in widths of the line."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINE_POINTS, MARKER_POINTS = 1.6, 4.5
WIDTH_INCHES = 5.0
TALLEST_INCHES = 6.5
NAME_CHARACTERS = 22
"""Of a result's name beside a bar; more would leave the bars no room."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#5b6472",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e9ee",
}


@dataclass(frozen=True)
class Style:
    """How one series looks; colour and dash are of the line, both have the marker."""

    colour: str
    dash: tuple[float, ...]
    marker: str

    @property
    def linestyle(self) -> str | tuple[float, tuple[float, ...]]:
        """The dash as matplotlib takes it."""
        return (0, self.dash) if self.dash else "solid"

    @property
    def outline(self) -> str:
        """The marker as points of an SVG polygon 9 units wide around the origin."""
        marker = MarkerStyle(self.marker)
        sized = marker.get_transform() + Affine2D().scale(9, -9)
        (polygon, *_) = marker.get_path().transformed(sized).to_polygons()
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in np.asarray(polygon))


def style(number: int) -> Style:
    """Return the look of a series; the first 32 differ in colour or dash."""
    return Style(
        colour=COLOURS[number % len(COLOURS)],
        dash=DASHES[number // len(COLOURS) % len(DASHES)],
        marker=MARKERS[number % len(MARKERS)],
    )


@dataclass(frozen=True, eq=False)
class Series:
    """One run, as plots and tables name and draw it."""

    label: str
    style: Style
    run: Run
    result: Result


def accuracy_per_corruption(series: Sequence[Series], names: Sequence[str]) -> str:
    """Draw one row of dots a corruption, ``names`` from top to bottom."""
    row_inches = 0.25 + 0.02 * len(series)
    figure, axes = new_figure(min(0.7 + row_inches * len(names), TALLEST_INCHES))
    for row in range(0, len(names), 2):
        axes.axhspan(row - 0.5, row + 0.5, color="#f4f6f8", lw=0, zorder=0)
    for item, accuracy, rows in zip(
        series,
        [by_corruption(item.run) for item in series],
        dot_rows(series, names),
        strict=True,
    ):
        axes.plot(
            [accuracy[names[round(row)]] for row in rows],
            rows,
            color=item.style.colour,
            marker=item.style.marker,
            ms=MARKER_POINTS + 1,
            mec="white",
            mew=0.5,
            ls="none",
        )
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(-1, 101)
    axes.grid(visible=False, axis="y")
    return finish(figure, axes, "top-1 accuracy, %")


def dot_rows(series: Sequence[Series], names: Sequence[str]) -> list[list[float]]:
    """Return each series' heights, one for each of ``names`` that it saw.

    Those that saw a corruption share its row evenly around the middle, so that
    equal accuracies do not hide each other and absent ones leave no gap.
    """
    seen = [by_corruption(item.run) for item in series]
    rows: list[list[float]] = [[] for _ in series]
    for row, name in enumerate(names):
        present = [number for number, found in enumerate(seen) if name in found]
        for place, number in enumerate(present):
            rows[number].append(row + 0.7 * ((place + 0.5) / len(present) - 0.5))
    return rows


def accuracy_along(series: Sequence[Series]) -> str:
    """Draw accuracy along the stream, the mean over corrupted streams."""
    figure, axes = new_figure(2.7)
    for number, item in enumerate(series):
        _line(axes, number, item, *_along(item.run))
    axes.set_ylim(0, 100)
    axes.set_ylabel("top-1 accuracy, %")
    return finish(figure, axes, "images since the stream began")


def _along(run: Run) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the middle of each block and its accuracy over all full streams."""
    shown = [s for s in run.streams if s.blocks]
    streams = [s for s in shown if s.corrupted] or shown
    count = min((len(s.blocks) for s in streams), default=0)
    if not count:
        return np.zeros(0), np.zeros(0)
    edges = np.array([0, *(streams[0].block_images * (i + 1) for i in range(count))])
    edges[-1] = min(edges[-1], streams[0].images)
    accuracy = [
        100 * fmean(s.blocks[i] for s in streams) / (edges[i + 1] - edges[i])
        for i in range(count)
    ]
    return (edges[:-1] + edges[1:]) / 2, np.array(accuracy)


def latency_distribution(series: Sequence[Series]) -> str:
    """Draw the share of images whose inference ended within a time."""
    figure, axes = new_figure(2.7)
    for number, item in enumerate(series):
        known = [
            found
            for stream in item.run.streams
            if len(found := stream.latency_quantiles_us) == len(QUANTILES)
        ]
        if known:
            mean = np.mean(known, axis=0) / 1000
            _line(axes, number, item, mean, np.array(QUANTILES, np.float64))
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(_ticks(*axes.get_xlim()))
    axes.xaxis.set_minor_formatter("")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(0, 100)
    axes.set_ylabel("images, %")
    return finish(figure, axes, "inference within … milliseconds")


def _line(
    axes: Axes,
    number: int,
    item: Series,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
) -> None:
    """Draw a line with a few markers, elsewhere for each ``number``."""
    apart = max(1, len(x) // 5)
    axes.plot(
        x,
        y,
        color=item.style.colour,
        ls=item.style.linestyle,
        lw=LINE_POINTS,
        marker=item.style.marker,
        ms=MARKER_POINTS,
        markevery=(number % apart, apart),
        clip_on=False,
    )


def _ticks(low: float, high: float) -> Locator:
    """Return what places the ticks of a logarithmic axis: a few in every range."""
    if high / low < 10:
        return MaxNLocator(5)
    return LogLocator(subs=(1, 2, 5) if high / low < 1000 else (1,))


def memory_map(results: Sequence[tuple[str, Result]]) -> str:
    """Draw what lies in flash and in RAM, two bars a result.

    Args:
        results: (name, result).
    """
    figure, axes = new_figure(1.0 + 0.55 * len(results))
    names = [
        f"{_short(name)} {kind}" if len(results) > 1 else kind
        for name, _ in results
        for kind in ("flash", "RAM")
    ]
    left = np.zeros(len(names))
    for label, colour, sizes in _memory_parts([r.memory for _, r in results]):
        kib = np.array(sizes).reshape(-1) / 1024
        axes.barh(range(len(names)), kib, left=left, color=colour, label=label)
        left += kib
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    figure.legend(loc="outside upper left", ncols=2, frameon=False)
    return finish(figure, axes, "KiB")


def _short(name: str) -> str:
    """Return the end of a long name, where paths differ."""
    return name if len(name) <= NAME_CHARACTERS else f"…{name[1 - NAME_CHARACTERS :]}"


def _memory_parts(
    memories: Sequence[Memory],
) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
    """Yield label, colour and (flash, RAM) bytes per result of each part.

    The arena holds the adaptation state, which is shown apart.
    """
    yield "weights", COLOURS[3], [(m.weights_bytes, 0) for m in memories]
    yield "code", COLOURS[0], [(m.code_bytes, 0) for m in memories]
    rest = [(0, m.arena_bytes - m.adapt_state_bytes) for m in memories]
    yield "activations", COLOURS[1], rest
    yield "adaptation state", COLOURS[4], [(0, m.adapt_state_bytes) for m in memories]


def energy_bars(series: Sequence[Series]) -> str:
    """Draw a bar a series: millijoules of a mean image, the hatched end adaptation.

    Args:
        series: Of runs whose energy was measured.
    """
    figure, axes = new_figure(min(0.8 + 0.3 * len(series), TALLEST_INCHES))
    found = [energy(item.run) for item in series]
    spent = [(e.image_mj, e.adapt_mj) for e in found if e is not None]
    whole, adapt = np.array(spent).T
    rows, colours = range(len(series)), [item.style.colour for item in series]
    axes.barh(rows, whole - adapt, color=colours)
    axes.barh(
        rows, adapt, left=whole - adapt, color="white", ec=colours, hatch="////", lw=0.8
    )
    axes.set_yticks(rows, [_short(item.label) for item in series])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    return finish(figure, axes, "mJ an image; hatched: adaptation")


def new_figure(height_inches: float) -> tuple[Figure, Axes]:
    """Return a figure of the common width and look, with axes that fill it."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        return figure, figure.add_subplot()


def finish(figure: Figure, axes: Axes, xlabel: str, *, salt: str = "") -> str:
    """Label the plot and return it as an ``<svg>`` element.

    Plots of one page differ in ``xlabel`` or ``salt``, which make the ids within.
    """
    buffer = io.StringIO()
    bare = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with mpl.rc_context({**STYLE, "svg.hashsalt": f"refold {xlabel}{salt}"}):
        axes.set_xlabel(xlabel)
        figure.savefig(buffer, format="svg", metadata=bare)
    text = buffer.getvalue()
    # Nothing refers to the numbered ids, and every plot has the same.
    return re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text[text.index("<svg") :])
