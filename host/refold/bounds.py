"""Bounds on results: the expressions of ``--fail-under``.

``[mode.]metric op number``, for instance ``forge.gain>=20`` or ``parity==0``.
A bound without a mode holds for every run, and one on a number of streams for
every stream. ``gain``, ``worst`` and ``clean_loss`` are in points and compare a
mode with ``off``.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from refold import score
from refold.errors import UserError
from refold.result import Result, Run, Stream

_EXPRESSION = re.compile(
    r"(?:(?P<mode>\S+)\.)?(?P<metric>[a-z][a-z0-9_]*)\s*"
    r"(?P<op>>=|<=|==|>|<)\s*(?P<value>-?\d+(?:\.\d+)?(?:[eE]-?\d+)?)"
)

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}

Number = float | None

_COMPARED: Mapping[str, Callable[[Run, Run], Number]] = {
    "gain": score.gain,
    "worst": score.worst,
    "clean_loss": score.clean_loss,
}
_OF_RUN: Mapping[str, Callable[[Run], Number]] = {
    "mean_accuracy": lambda run: run.mean_accuracy,
    "clean_accuracy": lambda run: run.clean_accuracy,
    "seconds": lambda run: run.seconds,
}
_OF_STREAM: Mapping[str, Callable[[Stream], Number]] = {
    "parity": lambda s: s.parity_mismatches,
    "parity_mismatches": lambda s: s.parity_mismatches,
    "accuracy": lambda s: s.accuracy,
    "correct": lambda s: s.correct,
    "images": lambda s: s.images,
    "frames_resent": lambda s: s.frames_resent,
    "latency_p50_us": lambda s: s.latency_us.p50,
    "latency_p95_us": lambda s: s.latency_us.p95,
    "latency_max_us": lambda s: s.latency_us.max,
    "adapt_p50_us": lambda s: s.adapt_us.p50,
    "adapt_p95_us": lambda s: s.adapt_us.p95,
    "adapt_max_us": lambda s: s.adapt_us.max,
    "forward_passes": lambda s: s.forward_passes,
    "full_passes": lambda s: s.full_passes,
    "passes_per_image": lambda s: s.forward_passes / max(s.images, 1),
    "adapted_images": lambda s: s.adapted_images,
    "mean_shift_score": lambda s: s.mean_shift_score,
    "gate": lambda s: s.gate,
    "energy_mj": lambda s: s.energy_mj,
}
_OF_RESULT: Mapping[str, Callable[[Result], Number]] = {
    "arena_bytes": lambda r: r.memory.arena_bytes,
    "weights_bytes": lambda r: r.memory.weights_bytes,
    "adapt_state_bytes": lambda r: r.memory.adapt_state_bytes,
    "code_bytes": lambda r: r.memory.code_bytes,
    "macs": lambda r: r.model.macs,
    "parameters": lambda r: r.model.parameters,
    "sites": lambda r: r.model.sites,
    "site_channels": lambda r: r.model.site_channels,
}

METRICS = (*_COMPARED, *_OF_RUN, *_OF_STREAM, *_OF_RESULT)


@dataclass(frozen=True)
class Bound:
    """One parsed expression; ``mode`` None means every run."""

    text: str
    mode: str | None
    metric: str
    op: str
    value: float

    def holds(self, found: float) -> bool:
        """Whether one number satisfies the bound."""
        return _OPERATORS[self.op](found, self.value)


def parse_bound(text: str, *, metrics: Sequence[str] = METRICS) -> Bound:
    """Parse one expression.

    Raises:
        UserError: It is malformed or names an unknown metric.
    """
    match = _EXPRESSION.fullmatch(text.strip())
    if match is None:
        raise UserError(
            f"--fail-under '{text}' is no bound; expected [mode.]metric, one of "
            ">= <= == > <, and a number, such as forge.gain>=20"
        )
    metric = match["metric"]
    if metric not in metrics:
        close = get_close_matches(metric, metrics, n=2)
        likely = " or ".join(f"'{name}'" for name in metrics if name in close)
        hint = f" (did you mean {likely}?)" if close else ""
        raise UserError(
            f"--fail-under '{text}': unknown metric '{metric}'{hint}; "
            f"known: {', '.join(metrics)}"
        )
    return Bound(
        text.strip(), match["mode"], metric, match["op"], float(match["value"])
    )


def check_bounds(
    bounds: Iterable[Bound],
    *,
    modes: Sequence[str],
    clean: bool,
    corrupted: bool,
    checked: bool,
) -> None:
    """Refuse, before anything runs, bounds that the run cannot answer.

    Args:
        modes: Canonical modes that will run.
        clean: A clean stream will run.
        corrupted: A corrupted stream will run.
        checked: Parity will be checked.

    Raises:
        UserError: A bound names a mode or number that the run will not have.
    """
    for bound in bounds:
        for complaint in _unanswerable(bound, modes, clean, corrupted, checked):
            raise UserError(f"--fail-under '{bound.text}': {complaint}")


def _unanswerable(
    bound: Bound, modes: Sequence[str], clean: bool, corrupted: bool, checked: bool
) -> Iterator[str]:
    if bound.mode is not None and bound.mode not in modes:
        yield f"no mode '{bound.mode}' runs; --adapt gives {', '.join(modes)}"
    if bound.mode is not None and bound.metric in _OF_RESULT:
        yield f"{bound.metric} is one number for all modes; leave the mode out"
    if bound.metric in _COMPARED:
        others = [mode for mode in modes if mode != "off"]
        if bound.mode == "off" or not others:
            yield f"{bound.metric} compares a mode with off; name a mode that adapts"
        if "off" not in modes:
            yield f"{bound.metric} compares with off; add off to --adapt"
    if bound.metric in ("clean_loss", "clean_accuracy") and not clean:
        yield "the data has no clean images"
    if bound.metric in ("gain", "worst", "mean_accuracy") and not corrupted:
        yield "no corrupted stream runs; see --corruptions"
    if bound.metric.startswith("parity") and not checked:
        yield "parity is not checked with --no-check"


def measure(bound: Bound, result: Result) -> list[tuple[str, float]]:
    """Return every number of ``result`` that the bound speaks of, and whose it is."""
    if bound.metric in _OF_RESULT:
        numbers = [("", _OF_RESULT[bound.metric](result))]
    else:
        runs = [r for r in result.runs if bound.mode in (None, r.adapt)]
        numbers = list(_numbers(bound.metric, runs, result.run("off")))
    return [(whose, float(x)) for whose, x in numbers if x is not None]


def _numbers(
    metric: str, runs: Sequence[Run], off: Run | None
) -> Iterator[tuple[str, Number]]:
    for run in runs:
        if metric in _OF_RUN:
            yield run.adapt, _OF_RUN[metric](run)
        elif metric in _OF_STREAM:
            for stream in run.streams:
                yield f"{run.adapt}, {stream.corruption}", _OF_STREAM[metric](stream)
        elif off is not None and run is not off:
            yield run.adapt, _COMPARED[metric](run, off)


def missed(bounds: Iterable[Bound], result: Result) -> tuple[str, ...]:
    """Return one sentence for every bound that ``result`` does not keep.

    What was not measured misses its bound: silence is no evidence.
    """
    sentences = []
    for bound in bounds:
        numbers = measure(bound, result)
        broken = [found for found in numbers if not bound.holds(found[1])]
        if broken:
            whose, extreme = max(broken, key=lambda found: abs(found[1] - bound.value))
            where = f" ({whose})" if whose else ""
            sentences.append(f"bound {bound.text} is missed: found {extreme:g}{where}")
        elif not numbers:
            sentences.append(
                f"bound {bound.text} is missed: {bound.metric} was not measured on "
                f"board {result.board.id}"
            )
    return tuple(sentences)
