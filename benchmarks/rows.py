"""The rows of docs/results.md: modes, what they must reach, and tables of both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

CLEAN = "clean"

OFF = "off"
PUBLISHED = "forge:sites=all;rule=published"
UNGATED = "forge:sites=all;gate=off"
GATED = "forge:sites=all"
THREE_UNGATED = "forge:sites=auto:3;gate=off"
THREE = "forge:sites=auto:3"
PACE = "pace"
BOTH = "forge+pace:sites=all"
TITLES = {
    OFF: "off",
    PUBLISHED: "published rule",
    UNGATED: "FORGE, no gate",
    GATED: "FORGE",
    THREE_UNGATED: "three sites, no gate",
    THREE: "three sites",
    PACE: "PACE",
    BOTH: "FORGE+PACE",
}
"""Sites are named, so that a row does not depend on what was compiled as default."""

Accuracies = Mapping[str, float]
"""Of each stream, ``clean`` included, in percent."""


@dataclass(frozen=True)
class Bound:
    """What a mode must reach, compared with another, in points.

    Attributes:
        mode: What is judged.
        against: What it is compared with.
        mean: Least change of the mean of the corrupted streams.
        each: Least change of a corrupted stream.
        clean: Least change of the clean one.
        stretch: Hoped for: missing it fails no command.
    """

    mode: str
    against: str
    mean: float = -math.inf
    each: float = -math.inf
    clean: float = -math.inf
    stretch: bool = False


@dataclass(frozen=True)
class Verdict:
    """A figure beside its bound.

    Attributes:
        fails: It is missed, and no stretch.
    """

    text: str
    fails: bool = False

    def __str__(self) -> str:
        """As a page lists it."""
        return f"- {self.text}"


def verdict(found: str, limit: str, *, holds: bool, stretch: bool = False) -> Verdict:
    """What was found, and whether it is within the bound."""
    kind = "stretch" if stretch else "bound"
    missed = "" if holds else "; **missed**"
    return Verdict(f"{found} ({kind}: {limit}{missed})", not (holds or stretch))


def judge(bound: Bound, table: Mapping[str, Accuracies]) -> Iterator[Verdict]:
    """Each part of a bound that is one."""
    one, other = table[bound.mode], table[bound.against]
    changes = {name: one[name] - other[name] for name in one if name != CLEAN}
    worst = min(changes, key=lambda name: changes[name])
    mean = corrupted_mean(one) - corrupted_mean(other)
    found = {
        f"mean {mean:+.2f}": (mean, bound.mean),
        f"least change of a corruption {changes[worst]:+.2f}, {words(worst)}": (
            changes[worst],
            bound.each,
        ),
        f"clean {one[CLEAN] - other[CLEAN]:+.2f}": (
            one[CLEAN] - other[CLEAN],
            bound.clean,
        ),
    }
    title = f"{TITLES[bound.mode]} against {TITLES[bound.against]}"
    for text, (value, least) in found.items():
        if least > -math.inf:
            yield verdict(
                f"{title}: {text}",
                f">= {least:+g}",
                holds=round(value, 6) >= least,
                stretch=bound.stretch,
            )


def corrupted_mean(accuracies: Accuracies) -> float:
    """Over all streams but the clean one."""
    return float(np.mean([v for name, v in accuracies.items() if name != CLEAN]))


def words(name: str) -> str:
    """A stream's name for people."""
    return name.replace("_", " ")


def stream_table(columns: Mapping[str, Accuracies]) -> Iterator[str]:
    """In Markdown: a row a stream and their mean, a column each title."""
    yield f"| stream | {' | '.join(columns)} |"
    yield f"|---|{'---:|' * len(columns)}"
    for name in next(iter(columns.values())):
        cells = (f"{found[name]:.1f}" for found in columns.values())
        yield f"| {words(name)} | {' | '.join(cells)} |"
    means = (f"{corrupted_mean(found):.1f}" for found in columns.values())
    yield f"| **mean of corrupted** | {' | '.join(means)} |"
