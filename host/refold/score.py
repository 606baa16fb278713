"""From replies and labels to the numbers of a result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refold.device import Reply
from refold.power.recorder import Energy
from refold.result import Percentiles, Run, Split, Stream

BLOCKS = 20
"""Parts into which accuracy along a stream is divided."""

ALL = slice(None)

QUANTILES = tuple(range(0, 101, 5))

StreamKey = tuple[str, int, int, int, int]
"""Corruption, severity, round, repeat, segment."""


def top1(replies: Sequence[Reply], scored: slice = ALL) -> NDArray[np.int64]:
    """Return each reply's class [N]; ties go to the lowest index.

    Args:
        replies: Of one stream.
        scored: The values of the answer that are the classes.
    """
    classes = [int(np.argmax(reply.logits[scored])) for reply in replies]
    return np.array(classes, dtype=np.int64)


def nearest_rank(values: Sequence[int], percents: Iterable[int]) -> tuple[int, ...]:
    """Return the values at the given percentages, zeros where there are none."""
    if not values:
        return tuple(0 for _ in percents)
    ranked = np.percentile(values, list(percents), method="inverted_cdf")
    return tuple(int(value) for value in ranked)


def percentiles(values: Sequence[int]) -> Percentiles:
    """Return median, 95th percentile and maximum by nearest rank."""
    return Percentiles(*nearest_rank(values, (50, 95, 100)))


def score_stream(
    key: StreamKey,
    replies: Sequence[Reply],
    *,
    labels: NDArray[np.integer],
    parity_mismatches: int | None,
    scored: slice = ALL,
    energy: Energy | None = None,
    candidate_part: float = 1.0,
) -> Stream:
    """Score one stream.

    Args:
        key: Names the stream.
        replies: In stream order; fewer than the labels where the board was lost.
        labels: Of the images in stream order [N].
        parity_mismatches: Images found to differ from the host model, or None.
        scored: See :func:`top1`.
        energy: Of a mean image; None where it was not measured.
        candidate_part: Of the network, that a candidate of a search runs.
    """
    corruption, severity, round_, repeat, segment = key
    right = top1(replies, scored) == labels[: len(replies)]
    block = max(1, -(-len(labels) // BLOCKS))
    latencies = [r.infer_us for r in replies]
    gates = [r.gate for r in replies if r.gate is not None]
    passes = sum(r.forward_passes for r in replies)
    return Stream(
        corruption=corruption,
        severity=severity,
        images=len(replies),
        correct=int(right.sum()),
        accuracy=100 * float(right.mean()) if replies else 0.0,
        parity_mismatches=parity_mismatches,
        frames_resent=sum(r.resent for r in replies),
        latency_us=percentiles(latencies),
        adapt_us=percentiles([r.adapt_us for r in replies]),
        forward_passes=passes,
        adapted_images=sum(bool(r.adapted) for r in replies),
        gate=fmean(gates) if gates else None,
        energy_mj=energy.image_mj if energy else None,
        adapt_energy_mj=energy.adapt_mj if energy else None,
        round=round_,
        repeat=repeat,
        segment=segment,
        blocks=tuple(
            int(right[start : start + block].sum())
            for start in range(0, len(replies), block)
        ),
        block_images=block,
        latency_quantiles_us=nearest_rank(latencies, QUANTILES),
        mean_shift_score=fmean(float(r.shift_score) for r in replies)
        if replies
        else 0.0,
        full_passes=len(replies) + candidate_part * (passes - len(replies)),
        split_us=time_split(replies),
    )


def time_split(replies: Sequence[Reply]) -> Split:
    """Return where the time of a mean image went; zeros where there is none."""
    if not replies:
        return Split(0.0, 0.0, 0.0)
    search = fmean(r.search_us for r in replies)
    update = fmean(r.adapt_us for r in replies) - search
    return Split(fmean(r.infer_us for r in replies) - update, update, search)


def score_run(adapt: str, streams: Sequence[Stream], *, seconds: float) -> Run:
    """Summarise the streams of one mode; means are over streams, unweighted."""
    scored = [s for s in streams if s.images]
    corrupted = [s.accuracy for s in scored if s.corrupted]
    clean = [s.accuracy for s in scored if not s.corrupted]
    return Run(
        adapt=adapt,
        mean_accuracy=fmean(corrupted) if corrupted else None,
        clean_accuracy=fmean(clean) if clean else None,
        seconds=seconds,
        streams=tuple(streams),
    )


def by_corruption(run: Run) -> Mapping[str, float]:
    """Return each corruption's accuracy, the mean over its streams."""
    found: dict[str, list[float]] = {}
    for stream in run.streams:
        if stream.images:
            found.setdefault(stream.corruption, []).append(stream.accuracy)
    return {name: fmean(values) for name, values in found.items()}


def slowest(
    run: Run, field: Literal["latency_us", "adapt_us"], part: Literal["p50", "p95"]
) -> int:
    """Return a time of the slowest stream in microseconds, 0 where there is none."""
    spans = [getattr(s, field) for s in run.streams if s.images]
    return max((getattr(span, part) for span in spans), default=0)


def energy(run: Run) -> Energy | None:
    """Return what a mean image took, over the streams where it was measured."""
    known = [
        (s.images, s.energy_mj, s.adapt_energy_mj or 0.0)
        for s in run.streams
        if s.images and s.energy_mj is not None
    ]
    if not known:
        return None
    images, whole, adapt = np.array(known).T
    return Energy(
        float(np.average(whole, weights=images)),
        float(np.average(adapt, weights=images)),
    )


def differences(mode: Run, off: Run) -> Mapping[StreamKey, float]:
    """Return mode - off in points per stream, where both saw the same images."""
    plain = {s.key: s for s in off.streams}
    return {
        s.key: s.accuracy - plain[s.key].accuracy
        for s in mode.streams
        if s.key in plain and 0 < s.images == plain[s.key].images
    }


def gain(mode: Run, off: Run) -> float | None:
    """Return the mean of :func:`differences` over corrupted streams."""
    points = _corrupted(differences(mode, off))
    return fmean(points) if points else None


def worst(mode: Run, off: Run) -> float | None:
    """Return the least of :func:`differences` over corrupted streams."""
    return min(_corrupted(differences(mode, off)), default=None)


def clean_loss(mode: Run, off: Run) -> float | None:
    """Return off - mode in points on clean streams, None where there are none."""
    points = [d for key, d in differences(mode, off).items() if key[0] == "clean"]
    return -fmean(points) if points else None


def gains(runs: Sequence[Run]) -> dict[str, float]:
    """Return the gain of every mode over ``off``; empty without ``off``."""
    off = next((run for run in runs if run.adapt == "off"), None)
    if off is None:
        return {}
    found = {run.adapt: gain(run, off) for run in runs if run is not off}
    return {adapt: points for adapt, points in found.items() if points is not None}


def _corrupted(points: Mapping[StreamKey, float]) -> list[float]:
    return [value for key, value in points.items() if key[0] != "clean"]
