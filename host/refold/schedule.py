"""Which stream runs when: corruptions, modes, rounds, repeats and segments.

``reset``: adaptation starts from the clean state for each stream. Modes
alternate on one stream's images, so that they are compared under one condition
of the machine. ``continual``: one mode runs through all streams and keeps its
state; with ``switch_every`` the corruption changes every so many images and
comes round again until all images have been seen under each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refold.corrupt import CORRUPTIONS
from refold.errors import UserError
from refold.modes import Mode
from refold.score import StreamKey

CLEAN = "clean"


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How images follow each other.

    Attributes:
        switch_every: Images before the corruption changes (continual only).
        rounds: Passes through all streams with the state kept (continual only).
        repeats: Passes from the clean state, each in its own order with shuffle.
        shuffle: Permute the images; the same way for every stream of a repeat.
    """

    stream: Literal["reset", "continual"] = "reset"
    switch_every: int | None = None
    rounds: int = 1
    repeats: int = 1
    shuffle: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse combinations that mean nothing."""
        if self.stream == "reset" and (self.switch_every or self.rounds > 1):
            option = "--switch-every" if self.switch_every else "--rounds"
            raise UserError(
                f"{option} keeps the adaptation state from stream to stream, which "
                "--stream reset does not; add --stream continual"
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class Step:
    """One stream to run: ``indices`` [N] into the data set, in stream order.

    ``fresh`` is False where the adaptation state of the step before is kept.
    """

    mode: Mode
    corruption: str
    severity: int
    indices: NDArray[np.int64]
    fresh: bool
    round: int = 0
    repeat: int = 0
    segment: int = 0

    @property
    def key(self) -> StreamKey:
        """The stream's place in the result."""
        where = (self.round, self.repeat, self.segment)
        return (self.corruption, self.severity, *where)

    @property
    def label(self) -> str:
        """The stream's name within its run."""
        return stream_label(self.corruption, self.round, self.repeat, self.segment)


def stream_label(corruption: str, round_: int, repeat: int, segment: int) -> str:
    """Return a stream's name within its run: mostly its corruption."""
    if not (round_ or repeat or segment):
        return corruption
    return f"{corruption}[round={round_} repeat={repeat} segment={segment}]"


def parse_corruptions(text: str) -> tuple[str, ...]:
    """Return the corruptions of ``all``, ``none`` or a list, in table order.

    Raises:
        UserError: A name is unknown.
    """
    if text == "all":
        return tuple(CORRUPTIONS)
    if text == "none":
        return ()
    names = {part.strip() for part in text.split(",")}
    for name in sorted(names - {CLEAN} - set(CORRUPTIONS)):
        close = get_close_matches(name, CORRUPTIONS, n=1)
        hint = f" (did you mean '{close[0]}'?)" if close else ""
        raise UserError(
            f"--corruptions: unknown corruption '{name}'{hint}; "
            f"known: all, none, {', '.join(CORRUPTIONS)}"
        )
    return tuple(name for name in CORRUPTIONS if name in names)


def plan_steps(
    schedule: Schedule,
    modes: Sequence[Mode],
    streams: Sequence[tuple[str, int]],
    *,
    images: int,
) -> list[Step]:
    """Return the steps in the order they run.

    Args:
        schedule: How streams follow each other.
        modes: In the order of ``--adapt``.
        streams: (corruption, severity), clean first.
        images: Length of the data set.
    """
    make = _reset_steps if schedule.stream == "reset" else _continual_steps
    return list(make(schedule, modes, streams, images))


def _reset_steps(
    schedule: Schedule,
    modes: Sequence[Mode],
    streams: Sequence[tuple[str, int]],
    images: int,
) -> Iterator[Step]:
    for repeat in range(schedule.repeats):
        indices = _order(schedule, repeat, images)
        for corruption, severity in streams:
            for mode in modes:
                yield Step(
                    mode=mode,
                    corruption=corruption,
                    severity=severity,
                    indices=indices,
                    fresh=True,
                    repeat=repeat,
                )


def _continual_steps(
    schedule: Schedule,
    modes: Sequence[Mode],
    streams: Sequence[tuple[str, int]],
    images: int,
) -> Iterator[Step]:
    for mode in modes:
        for repeat in range(schedule.repeats):
            order = _order(schedule, repeat, images)
            fresh = True
            for round_, segment, (corruption, severity), indices in _visits(
                schedule, streams, order
            ):
                yield Step(
                    mode=mode,
                    corruption=corruption,
                    severity=severity,
                    indices=indices,
                    fresh=fresh,
                    round=round_,
                    repeat=repeat,
                    segment=segment,
                )
                fresh = False


def _visits(
    schedule: Schedule, streams: Sequence[tuple[str, int]], order: NDArray[np.int64]
) -> Iterator[tuple[int, int, tuple[str, int], NDArray[np.int64]]]:
    """Yield (round, segment, stream, indices) of one continual repeat."""
    length = schedule.switch_every or len(order)
    for round_ in range(schedule.rounds):
        for segment, start in enumerate(range(0, len(order), length)):
            for stream in streams:
                yield round_, segment, stream, order[start : start + length]


def _order(schedule: Schedule, repeat: int, images: int) -> NDArray[np.int64]:
    if not schedule.shuffle:
        return np.arange(images)
    return np.random.default_rng((schedule.seed, repeat)).permutation(images)
