"""Streams whose domain changes: what that costs, and when the gate sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from held_out import Stream
from native_model import Answers, NativeModel

from refoldc.adapt import AdaptConfig

SWITCH_EVERY = 200
SOON = 20
"""Images within which a change is to be seen."""


@dataclass(frozen=True)
class Change:
    """One change of domain.

    Attributes:
        before, after: Names of the domains.
        delay: Images of the new one after which the gate went to its other state;
            None where it stayed as the change had found it.
    """

    before: str
    after: str
    delay: int | None

    @property
    def is_soon(self) -> bool:
        """Whether it was seen within :data:`SOON` images."""
        return self.delay is not None and self.delay <= SOON


@dataclass(frozen=True)
class Changes:
    """What became of a stream of changing domains; accuracy in percent."""

    accuracy: float
    changes: tuple[Change, ...]

    @property
    def soon(self) -> float:
        """Percent of the changes that were seen within :data:`SOON` images."""
        return 100 * sum(change.is_soon for change in self.changes) / len(self.changes)

    def in_words(self) -> str:
        """The delays, and which changes were never seen."""
        seen = sorted(c.delay for c in self.changes if c.delay is not None)
        soon = sum(change.is_soon for change in self.changes)
        text = f"of {len(self.changes)} changes {soon} were seen within {SOON} images"
        if seen:
            text += f", half of those seen within {int(np.median(seen))}"
            text += f", the last after {seen[-1]}"
        never = Counter(
            f"{c.before} to {c.after}" for c in self.changes if c.delay is None
        )
        if never:
            pairs = ", ".join(f"{pair} ({n})" for pair, n in never.most_common())
            text += f"; never: {pairs.replace('_', ' ')}"
        return text


def change_domains(
    device: NativeModel,
    config: AdaptConfig,
    streams: Mapping[str, Stream],
    *,
    reset: bool = False,
) -> Changes:
    """Take part after part of each stream in turn, :data:`SWITCH_EVERY` images long.

    Args:
        device: That runs them.
        config: Whose state is kept from part to part.
        streams: By the domain's name, all of one length.
        reset: Start every part from the clean state instead.
    """
    accuracy: list[float] = []
    found: list[Change] = []
    before = ""
    for start in range(0, len(next(iter(streams.values())).labels), SWITCH_EVERY):
        part = slice(start, start + SWITCH_EVERY)
        for name, stream in streams.items():
            device.configure(config, keep_state=not reset and bool(accuracy))
            answers = device.run(stream.images[part])
            accuracy.append(answers.accuracy(stream.labels[part]))
            found.append(Change(before, name, first_reaction(answers)))
            before = name
    return Changes(float(np.mean(accuracy)), tuple(found[1:]))


def first_reaction(answers: Answers) -> int | None:
    """Images after which the gate was no longer as the first one had found it."""
    moved = answers.is_open != answers.is_open[0]
    return int(moved.argmax()) if moved.any() else None
