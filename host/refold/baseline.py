"""The regression gate: a result against an earlier one.

Comparable are runs of one model on one board over the same images in the same
streams. The model goes by its name: trained or compiled anew it stays comparable,
for that is what the gate is there to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from refold.baseline_record import BaselineRecord, Comparison
from refold.boards import load_board
from refold.errors import UserError
from refold.result import Result, Run
from refold.score import StreamKey, by_corruption, slowest

MEMORY = ("arena_bytes", "weights_bytes", "adapt_state_bytes", "code_bytes")
LATENCY = 1.25
SHOWN = 3
"""Streams that a message names."""
PARTS: tuple[Literal["p50", "p95"], ...] = ("p50", "p95")


@dataclass(frozen=True, kw_only=True)
class Tolerances:
    """How much worse than the baseline is not yet worse.

    Attributes:
        accuracy: Points, of each corruption's accuracy and their mean.
        latency: Ratio, of the slowest stream's median and 95th percentile. None is
            ``LATENCY``, or any where the board's times are this computer's.
        memory: Ratio, of each size in bytes.
    """

    accuracy: float = 1.0
    latency: float | None = None
    memory: float = 1.05


@dataclass(frozen=True, eq=False)
class Baseline:
    """An earlier result, what may be lost against it, and what messages call it."""

    result: Result
    tolerances: Tolerances
    name: str


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What two runs must have in common; ``streams`` are those of each mode."""

    model: str
    board: str
    images: int
    data_sha256: str
    seed: int
    streams: Mapping[str, frozenset[StreamKey]]


def setting(result: Result) -> Setting:
    """Return what a result was measured under."""
    return Setting(
        model=result.model.name,
        board=result.board.id,
        images=result.data.images,
        data_sha256=result.data.sha256,
        seed=result.data.seed,
        streams={
            run.adapt: frozenset(s.key for s in run.streams) for run in result.runs
        },
    )


def require_comparable(baseline: Baseline, planned: Setting) -> None:
    """Refuse a baseline that says nothing about a run.

    Modes that the baseline has not are no obstacle: they are not compared.

    Raises:
        UserError: The baseline is incomplete, or of another model, board, data or
            seed, or has modes or streams that the run has not.
    """
    complaints = list(_obstacles(baseline.result, planned))
    if complaints:
        raise UserError(
            f"baseline {baseline.name} cannot be compared: {'; '.join(complaints)}. "
            "Run with the baseline's options, or make a new one with 'refold run "
            "--json'"
        )


def _obstacles(earlier: Result, planned: Setting) -> Iterator[str]:
    if not earlier.complete:
        yield f"its run ended early ({earlier.verdict})"
    known = setting(earlier)
    for what in ("model", "board", "images", "data_sha256", "seed"):
        was, now = getattr(known, what), getattr(planned, what)
        if was != now:
            yield f"its {what} is {was}, here it is {now}"
    for mode, streams in known.streams.items():
        if mode not in planned.streams:
            yield f"it has mode '{mode}', which does not run here"
        elif odd := streams ^ planned.streams[mode]:
            yield f"under '{mode}' its streams are others ({_names(odd)})"


def _names(streams: Iterable[StreamKey]) -> str:
    names = sorted({f"{name} at severity {level}" for name, level, *_ in streams})
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")


def compare(baseline: Baseline, result: Result) -> BaselineRecord:
    """Set every number beside the baseline's, and judge it.

    Args:
        baseline: Found comparable by :func:`require_comparable`.
        result: Of a complete run.
    """
    allowed = baseline.tolerances
    ratio = allowed.latency or _usual_ratio(result.board.id)
    return BaselineRecord(
        name=baseline.name,
        accuracy_points=allowed.accuracy,
        latency_ratio=ratio,
        memory_ratio=allowed.memory,
        compared=tuple(_compared(baseline.result, result, allowed, ratio)),
    )


def _compared(
    earlier: Result, result: Result, allowed: Tolerances, ratio: float | None
) -> Iterator[Comparison]:
    """Pair all numbers; sizes and times that are unknown (0) are left out."""
    for was in earlier.runs:
        now = result.run(was.adapt)
        if now is None:
            continue
        yield from _accuracies(was, now, allowed.accuracy)
        if ratio is not None:
            yield from _latencies(was, now, ratio)
    for size in MEMORY:
        before, bytes_ = getattr(earlier.memory, size), getattr(result.memory, size)
        if before and bytes_:
            yield _judged(size, "", before, bytes_, before * allowed.memory)


def _usual_ratio(board_id: str) -> float | None:
    """None where a time says how busy this computer is, and nothing of the model."""
    return None if load_board(board_id).host_timed else LATENCY


def _accuracies(was: Run, now: Run, points: float) -> Iterator[Comparison]:
    found = by_corruption(now)
    for name, before in by_corruption(was).items():
        if name in found:
            whose = f"{was.adapt}, {name}"
            yield _judged("accuracy", whose, before, found[name], before - points)
    mean, mean_now = was.mean_accuracy, now.mean_accuracy
    if mean is not None and mean_now is not None:
        yield _judged("mean_accuracy", was.adapt, mean, mean_now, mean - points)


def _latencies(was: Run, now: Run, ratio: float) -> Iterator[Comparison]:
    for part in PARTS:
        before, after = (slowest(run, "latency_us", part) for run in (was, now))
        if before and after:
            measure = f"latency_{part}_us"
            yield _judged(measure, was.adapt, before, after, before * ratio)


def _judged(
    measure: str, whose: str, before: float, now: float, limit: float
) -> Comparison:
    """Find out whether the limit is passed: accuracies are to be high, the rest low."""
    beyond = limit - now if measure.endswith("accuracy") else now - limit
    return Comparison(
        measure=measure,
        whose=whose,
        before=before,
        now=now,
        limit=limit,
        worse=beyond > 1e-9 * abs(limit),  # limits come of inexact decimals
    )
