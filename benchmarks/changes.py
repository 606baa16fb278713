"""Streams whose domain changes: what that costs, and when the gate sees it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from held_out import Stream
from native_model import Answers, NativeModel

from refoldc.adapt import AdaptConfig

SWITCH_EVERY = 200
SOON = 20
"""Images within which a change is to be seen."""


@dataclass(frozen=True)
class Changes:
    """What became of a stream of changing domains.

    Attributes:
        accuracy: Percent of all images.
        delays: Of each change: images of the new domain after which the gate went to
            its other state; None where it stayed as the change had found it.
    """

    accuracy: float
    delays: tuple[int | None, ...]

    @property
    def seen(self) -> list[int]:
        """The delays of the changes that the gate reacted to."""
        return [delay for delay in self.delays if delay is not None]

    @property
    def soon(self) -> float:
        """Percent of the changes that were seen within :data:`SOON` images."""
        return 100 * sum(delay <= SOON for delay in self.seen) / len(self.delays)


def change_domains(
    device: NativeModel,
    config: AdaptConfig,
    streams: Sequence[Stream],
    *,
    reset: bool = False,
) -> Changes:
    """Take part after part of each stream in turn, :data:`SWITCH_EVERY` images long.

    Args:
        device: That runs them.
        config: Whose state is kept from part to part.
        streams: All of one length.
        reset: Start every part from the clean state instead.
    """
    accuracy: list[float] = []
    delays: list[int | None] = []
    for start in range(0, len(streams[0].labels), SWITCH_EVERY):
        part = slice(start, start + SWITCH_EVERY)
        for stream in streams:
            device.configure(config, keep_state=not reset and bool(accuracy))
            answers = device.run(stream.images[part])
            accuracy.append(answers.accuracy(stream.labels[part]))
            delays.append(first_reaction(answers))
    return Changes(float(np.mean(accuracy)), tuple(delays[1:]))


def first_reaction(answers: Answers) -> int | None:
    """Images after which the gate was no longer as the first one had found it."""
    moved = answers.is_open != answers.is_open[0]
    return int(moved.argmax()) if moved.any() else None


def distribution(changes: Changes) -> str:
    """The delays in words."""
    seen = sorted(changes.seen)
    middle, most = np.percentile(seen, [50, 90], method="inverted_cdf")
    return (
        f"of {len(changes.delays)} changes {len(seen)} were seen, half of these within "
        f"{middle} images, nine in ten within {most}, all within {seen[-1]}"
    )
