"""Plots of results as SVG text.

Each is drawn 5 inches wide, so that its text stays readable when a phone shrinks
the page to 390 pixels.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from refold.result import Memory, Result, Run
from refold.score import QUANTILES, by_corruption

COLOURS = ("#8a94a6", "#0b6e4f", "#d1495b", "#2e5eaa", "#edae49", "#7b4b94")
WIDTH_INCHES = 5.0
LEGEND_CHARACTERS, LEGEND_KEY_CHARACTERS = 46, 6
"""Width of a legend's row, and of an entry without its text."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "refold",
    "font.family": "sans-serif",
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#5b6472",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e9ee",
    "legend.frameon": False,
}


@dataclass(frozen=True, eq=False)
class Series:
    """One run, as plots and tables name and colour it."""

    label: str
    colour: str
    run: Run
    result: Result


def accuracy_per_corruption(series: Sequence[Series], names: Sequence[str]) -> str:
    """Draw one group of bars a corruption, ``names`` from top to bottom."""
    figure, axes = _figure(1.0 + 0.12 * len(names) * (len(series) + 1))
    height = 0.8 / len(series)
    places = np.arange(len(names))
    for number, item in enumerate(series):
        accuracy = by_corruption(item.run)
        axes.barh(
            places + (number + 0.5) * height - 0.4,
            [accuracy.get(name, 0.0) for name in names],
            height=height,
            color=item.colour,
            label=item.label,
        )
    axes.set_yticks(places, [name.replace("_", " ") for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, 100)
    axes.grid(visible=False, axis="y")
    return _finish(figure, axes, "top-1 accuracy, %")


def accuracy_along(series: Sequence[Series]) -> str:
    """Draw accuracy along the stream, the mean over corrupted streams."""
    figure, axes = _figure(2.7)
    for item in series:
        images, accuracy = _along(item.run)
        axes.plot(images, accuracy, color=item.colour, label=item.label, lw=1.8)
    axes.set_ylim(0, 100)
    axes.set_ylabel("top-1 accuracy, %")
    return _finish(figure, axes, "images since the stream began")


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
    figure, axes = _figure(2.7)
    for item in series:
        known = [s.latency_quantiles_us for s in item.run.streams if s.images]
        if known:
            mean = np.mean([row for row in known if row], axis=0) / 1000
            axes.plot(mean, QUANTILES, color=item.colour, label=item.label, lw=1.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(0, 100)
    axes.set_ylabel("images, %")
    return _finish(figure, axes, "inference within … milliseconds")


def memory_map(results: Sequence[tuple[str, Result]]) -> str:
    """Draw what lies in flash and in RAM, two bars a result.

    Args:
        results: (prefix of the bars' names, result).
    """
    figure, axes = _figure(1.0 + 0.55 * len(results))
    names = [f"{prefix}{kind}" for prefix, _ in results for kind in ("flash", "RAM")]
    left = np.zeros(len(names))
    for label, colour, sizes in _memory_parts([r.memory for _, r in results]):
        kib = np.array(sizes).reshape(-1) / 1024
        axes.barh(range(len(names)), kib, left=left, color=colour, label=label)
        left += kib
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    return _finish(figure, axes, "KiB")


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


def _figure(height_inches: float) -> tuple[Figure, Axes]:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH_INCHES, height_inches), layout="constrained")
        return figure, figure.add_subplot()


def _finish(figure: Figure, axes: Axes, xlabel: str) -> str:
    """Label the plot and return it as an ``<svg>`` element."""
    buffer = io.StringIO()
    with mpl.rc_context(STYLE):
        axes.set_xlabel(xlabel)
        longest = max(map(len, axes.get_legend_handles_labels()[1]), default=0)
        columns = max(1, LEGEND_CHARACTERS // (longest + LEGEND_KEY_CHARACTERS))
        figure.legend(loc="outside upper left", ncols=min(4, columns))
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
