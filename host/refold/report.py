"""The HTML report: one self-contained page for one result or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from refold import plots, score
from refold.plots import COLOURS, Series
from refold.result import Result, Run, write_text

MISSING = "–"


@dataclass(frozen=True)
class _Row:
    """One mode in the summary table, ready to print."""

    label: str
    colour: str
    clean: str
    mean: str
    gain: str
    worst: str
    clean_loss: str
    parity: str
    latency: str
    adapt: str


def render_report(results: Sequence[tuple[str, Result]]) -> str:
    """Return the page for named results.

    Args:
        results: (name, result); the name tells them apart where there are several.
    """
    series = _series(results)
    names = _corruptions(series)
    template = Environment(
        loader=PackageLoader("refold"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template("report.html")
    prefixed = [(f"{n} " if len(results) > 1 else "", r) for n, r in results]
    return template.render(
        results=results,
        summary=[_row(item) for item in series],
        corruptions=[_accuracies(name, series) for name in names],
        series=series,
        figures=[
            ("Accuracy per corruption", plots.accuracy_per_corruption(series, names)),
            ("Accuracy along the stream", plots.accuracy_along(series)),
            ("Inference time", plots.latency_distribution(series)),
            ("Memory", plots.memory_map(prefixed)),
        ]
        if names
        else [],
    )


def write_report(results: Sequence[tuple[str, Result]], path: Path) -> None:
    """Write :func:`render_report` to ``path``.

    Raises:
        UserError: The place cannot be written.
    """
    write_text(path, render_report(results))


def _series(results: Sequence[tuple[str, Result]]) -> list[Series]:
    pairs = [(name, result, run) for name, result in results for run in result.runs]
    return [
        Series(
            label=run.adapt if len(results) == 1 else f"{name} {run.adapt}",
            colour=COLOURS[number % len(COLOURS)],
            run=run,
            result=result,
        )
        for number, (name, result, run) in enumerate(pairs)
    ]


def _corruptions(series: Sequence[Series]) -> list[str]:
    """Return every corruption that was streamed, in the order of first sight."""
    seen = (s.corruption for item in series for s in item.run.streams if s.images)
    return list(dict.fromkeys(seen))


def _accuracies(name: str, series: Sequence[Series]) -> tuple[str, list[str]]:
    found = [score.by_corruption(item.run).get(name) for item in series]
    return name.replace("_", " "), [_points(value) for value in found]


def _row(item: Series) -> _Row:
    run, off = item.run, item.result.run("off")
    compared = off is not None and run is not off
    return _Row(
        label=item.label,
        colour=item.colour,
        clean=_points(run.clean_accuracy),
        mean=_points(run.mean_accuracy),
        gain=_signed(score.gain(run, off) if compared and off else None),
        worst=_signed(score.worst(run, off) if compared and off else None),
        clean_loss=_signed(score.clean_loss(run, off) if compared and off else None),
        parity=_parity(run),
        latency=_slowest(run, "latency_us"),
        adapt=_slowest(run, "adapt_us"),
    )


def _parity(run: Run) -> str:
    counts = [s.parity_mismatches for s in run.streams]
    known = [count for count in counts if count is not None]
    return str(sum(known)) if known else "not checked"


def _slowest(run: Run, field: str) -> str:
    """Return median and 95th percentile of the slowest stream, in milliseconds."""
    spans = [getattr(s, field) for s in run.streams if s.images]
    if not spans:
        return MISSING
    return (
        f"{max(span.p50 for span in spans) / 1000:.3f} / "
        f"{max(span.p95 for span in spans) / 1000:.3f}"
    )


def _points(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}"


def _signed(value: float | None) -> str:
    return MISSING if value is None else f"{round(value, 1) + 0.0:+.1f}"
