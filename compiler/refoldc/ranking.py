"""The order in which sites are worth adapting, as the manifest keeps it."""

from __future__ import annotations

import re

import msgspec


class RankedSite(msgspec.Struct, frozen=True, kw_only=True):
    """One site in the order of choice.

    Attributes:
        site: Its number.
        loss: Of the network in which it adapts with all sites before it.
        shrinkage: With which that many sites do best; the loss was found with it.
        alone: Loss of the network in which only it adapts, with shrinkage 1.
    """

    site: int
    loss: float
    shrinkage: float
    alone: float


class Ranking(msgspec.Struct, frozen=True, kw_only=True):
    """What ``--sites auto:K`` found; the first K sites are the choice.

    A loss is the mean distance of the answers to corrupted images from those to clean
    ones: the total variation of their class probabilities, 0 to 1.

    Attributes:
        images: Calibration images used, each under every corruption.
        corruptions: That they were put through.
        off, all: Losses with no site and with every ranked one.
        sites: The most useful first.
    """

    images: int
    corruptions: tuple[str, ...]
    off: float
    all: float
    sites: tuple[RankedSite, ...]

    def first(self, count: int) -> tuple[tuple[int, ...], float]:
        """The sites that ``auto:count`` stands for, in site order, and their shrinkage.

        Raises:
            ValueError: So many are not ranked.
        """
        if not 1 <= count <= len(self.sites):
            raise ValueError(f"expected auto:1 to auto:{len(self.sites)}")
        chosen = self.sites[:count]
        return tuple(sorted(found.site for found in chosen)), chosen[-1].shrinkage


def auto_count(choice: str) -> int | None:
    """K of ``auto:K``; None where ``choice`` is no such text.

    >>> auto_count("auto:3"), auto_count("14+6"), auto_count("auto:0")
    (3, None, None)
    """
    match = re.fullmatch(r"auto:([1-9]\d*)", choice)
    return int(match[1]) if match else None
