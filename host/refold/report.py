"""The HTML report: one self-contained page for one result or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from refold import plots, score
from refold.baseline_record import BaselineRecord, Comparison
from refold.cost import TITLES, run_cost
from refold.files import write_text
from refold.plots import Series, Style
from refold.result import Result, Run

MISSING = "–"


@dataclass(frozen=True)
class _Row:
    """One mode in the summary table, ready to print."""

    label: str
    style: Style
    clean: str
    mean: str
    gain: str
    worst: str
    clean_change: str
    parity: str
    latency: str
    adapt: str
    energy: str | None


@dataclass(frozen=True)
class _Compared:
    """A quantity of a gate, ready to print: was, is, change and limit."""

    measure: str
    whose: str
    numbers: tuple[str, ...]


@dataclass(frozen=True)
class _Gate:
    """What one result was compared with: rows of those beyond their limit first."""

    name: str
    baseline: str
    tolerances: str
    worse: tuple[_Compared, ...]
    rest: tuple[_Compared, ...]


def render_report(results: Sequence[tuple[str, Result]]) -> str:
    """Return the page for named results.

    Args:
        results: (name, result); the name tells them apart where there are several.
    """
    series = _series(results)
    names = _corruptions(series)
    summary = [_row(item) for item in series]
    return (
        environment()
        .get_template("report.html")
        .render(
            results=[(name, result, _facts(name, result)) for name, result in results],
            gates=[_gate(name, r.baseline) for name, r in results if r.baseline],
            summary=summary,
            energy=any(row.energy for row in summary),
            spent=TITLES,
            spending=[(item, c) for item in series if (c := run_cost(item.run))],
            corruptions=[_accuracies(name, series) for name in names],
            series=series,
            figures=_figures(results, series, names) if names else [],
        )
    )


def environment() -> Environment:
    """Return what renders the pages, with everything from results escaped."""
    return Environment(
        loader=PackageLoader("refold"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
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
            style=plots.style(number),
            run=run,
            result=result,
        )
        for number, (name, result, run) in enumerate(pairs)
    ]


def _figures(
    results: Sequence[tuple[str, Result]],
    series: Sequence[Series],
    names: Sequence[str],
) -> list[tuple[str, str, str]]:
    """Return title, description and drawing of each plot."""
    figures = [
        (
            "Accuracy per corruption",
            f"Dots: top-1 accuracy of {len(series)} modes on {len(names)} corruptions; "
            "the numbers are in the last table.",
            plots.accuracy_per_corruption(series, names),
        ),
        (
            "Accuracy along the stream",
            f"Lines: top-1 accuracy of {len(series)} modes over images since the "
            "stream began, the mean over corrupted streams.",
            plots.accuracy_along(series),
        ),
        (
            "Inference time",
            f"Lines: share of images answered within a time, {len(series)} modes; "
            "median and 95th percentile are in the summary.",
            plots.latency_distribution(series),
        ),
        ("Memory", f"Bars: {_memory(results)}.", plots.memory_map(results)),
    ]
    measured = [item for item in series if score.energy(item.run)]
    if measured:
        text = f"Bars: millijoules of a mean image, {len(measured)} modes; see above."
        figures.append(("Energy", text, plots.energy_bars(measured)))
    return figures


def _memory(results: Sequence[tuple[str, Result]]) -> str:
    """Return the sizes behind the memory plot in words."""
    sizes = [(name, result.memory) for name, result in results]
    return "; ".join(
        f"{name}: weights {m.weights_bytes:,}, code {m.code_bytes:,}, "
        f"arena {m.arena_bytes:,} bytes, of it adaptation state "
        f"{m.adapt_state_bytes:,}"
        for name, m in sizes
    )


def _facts(name: str, result: Result) -> list[tuple[str, str]]:
    """Return what the result's card lists: (term, text).

    Nothing is said twice: neither a model named as the result nor a chip as its board.
    """
    model, board, data = result.model, result.board, result.data
    facts = [
        ("model", model.name if model.name != name else None),
        ("size", f"{model.macs:,} MACs, {model.parameters:,} parameters"),
        ("recalibration sites", f"{model.sites} ({model.site_channels:,} channels)"),
        ("board", board.id),
        ("chip", board.chip if board.chip != board.id else None),
        ("port", board.port),
        ("data", data.spec),
        (
            "images a stream",
            f"{data.images:,}, severity {data.severity}, seed {data.seed}",
        ),
        ("streams", _streams(result)),
    ]
    return [(term, text) for term, text in facts if text]


def _streams(result: Result) -> str:
    """Return how often the data was streamed.

    Rounds and segments exist only where state is kept from stream to stream.
    """
    streams = [s for run in result.runs for s in run.streams]
    repeats, rounds, segments = (
        1 + max((getattr(s, field) for s in streams), default=0)
        for field in ("repeat", "round", "segment")
    )
    texts = [_count(repeats, "repeat")]
    if rounds > 1 or segments > 1:
        texts = ["continual", *texts, _count(rounds, "round")]
        texts += [f"{_count(segments, 'segment')} a round"]
    return ", ".join(texts)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _gate(name: str, record: BaselineRecord) -> _Gate:
    ratio = record.latency_ratio
    # What says it all in one number comes before its parts.
    ordered = sorted(record.compared, key=lambda item: item.measure == "accuracy")
    rows = [(item.worse, _compared(item)) for item in ordered]
    return _Gate(
        name=name,
        baseline=record.name,
        tolerances=f"accuracy lower by {in_points(record.accuracy_points)}, "
        + (f"{ratio:g} times the latency, " if ratio else "any latency, ")
        + f"{record.memory_ratio:g} times the memory",
        worse=tuple(row for worse, row in rows if worse),
        rest=tuple(row for worse, row in rows if not worse),
    )


def _compared(item: Comparison) -> _Compared:
    digits = 2 if item.measure.endswith("accuracy") else 0
    was, now, limit = (
        f"{number:,.{digits}f}" for number in (item.before, item.now, item.limit)
    )
    change = f"{round(item.now - item.before, digits) + 0.0:+,.{digits}f}"
    return _Compared(item.measure, item.whose, (was, now, change, limit))


def _corruptions(series: Sequence[Series]) -> list[str]:
    """Return every corruption that was streamed, in the order of first sight."""
    seen = (s.corruption for item in series for s in item.run.streams if s.images)
    return list(dict.fromkeys(seen))


def _accuracies(name: str, series: Sequence[Series]) -> tuple[str, list[str]]:
    found = [score.by_corruption(item.run).get(name) for item in series]
    return name.replace("_", " "), [_points(value) for value in found]


def _row(item: Series) -> _Row:
    run, off = item.run, item.result.run("off")
    base = off if off is not run else None
    return _Row(
        label=item.label,
        style=item.style,
        clean=_points(run.clean_accuracy),
        mean=_points(run.mean_accuracy),
        gain=_signed(score.gain(run, base) if base else None),
        worst=_signed(score.worst(run, base) if base else None),
        clean_change=_signed(_clean_change(run, base) if base else None),
        parity=_parity(run),
        latency=_slowest(run, "latency_us"),
        adapt=_slowest(run, "adapt_us"),
        energy=_energy(run),
    )


def _clean_change(run: Run, off: Run) -> float | None:
    """Return mode - off on clean images, signed as the gain is."""
    loss = score.clean_loss(run, off)
    return None if loss is None else -loss


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


def _energy(run: Run) -> str | None:
    """Return a mean image's millijoules and those of its adaptation."""
    found = score.energy(run)
    return f"{found.image_mj:.3g} / {found.adapt_mj:.3g}" if found else None


def in_points(tolerance: float) -> str:
    """Return it with its unit."""
    return f"{tolerance:g} point{'' if tolerance == 1 else 's'}"


def _points(value: float | None) -> str:
    return MISSING if value is None else f"{value:.1f}"


def _signed(value: float | None) -> str:
    return MISSING if value is None else f"{round(value, 1) + 0.0:+.1f}"
