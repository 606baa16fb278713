"""When a gate is said to have seen a change of domain, on gates that are made up."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from changes import SWITCH_EVERY, Change, Changes, change_domains
from held_out import Stream
from native_model import Answers


class Actor:
    """Answers class 0 always; its gate opens and closes as it is told."""

    def __init__(self, gates: Sequence[NDArray[np.bool_]]) -> None:
        self.gates = list(gates)
        self.kept: list[bool] = []

    def configure(self, config: AdaptConfig, *, keep_state: bool = False) -> None:
        """Note whether the state is kept."""
        self.kept.append(keep_state)

    def run(self, images: NDArray[np.uint8]) -> Answers:
        """The next part's gates."""
        logits = np.zeros((len(images), 2), np.int32)
        return Answers(logits, self.gates.pop(0)[: len(images)])


def gate(first: bool, after: int | None) -> NDArray[np.bool_]:
    """A part that finds a gate ``first``, which turns after so many images."""
    found = np.full(SWITCH_EVERY, first)
    if after is not None:
        found[after:] = not first
    return found


def stream(label: int) -> Stream:
    """Two parts of one class."""
    count = 2 * SWITCH_EVERY
    return Stream(np.zeros((count, 1, 1, 1), np.uint8), np.full(count, label))


STREAMS = {"clean": stream(0), "snow": stream(1)}


def test_delays_are_counted_from_each_change() -> None:
    """Opening and closing alike; a gate that does not move has not seen it."""
    parts = [gate(False, 4), gate(True, 7), gate(False, None), gate(False, 30)]
    actor = Actor(parts)
    found = change_domains(actor, AdaptConfig(), STREAMS)
    changes = (
        Change("clean", "snow", 7),
        Change("snow", "clean", None),
        Change("clean", "snow", 30),
    )
    assert Changes(accuracy=50.0, changes=changes) == found
    assert [False, True, True, True] == actor.kept


def test_a_reset_at_each_change_keeps_no_state() -> None:
    """What the stream that keeps it is compared with."""
    actor = Actor([gate(False, 4)] * 4)
    change_domains(actor, AdaptConfig(), STREAMS, reset=True)
    assert [False] * 4 == actor.kept


def changes(*delays: int | None) -> Changes:
    """Changes from one domain to another, with these delays."""
    return Changes(50.0, tuple(Change("a_b", "c", delay) for delay in delays))


def test_changes_seen_soon_are_a_part_of_all() -> None:
    """Twenty images are soon; a change that was never seen counts against it."""
    assert 50.0 == changes(20, 21, None, 1).soon


def test_delays_in_words() -> None:
    """Changes that were never seen are named and counted."""
    assert (
        "of 5 changes 3 were seen within 20 images, half of those seen within 4, the "
        "last after 4; never: a b to c (2)"
    ) == changes(4, None, 4, 3, None).in_words()
    assert (
        "of 1 changes 0 were seen within 20 images; never: a b to c (1)"
    ) == changes(None).in_words()
