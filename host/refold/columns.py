"""Tables as plain aligned text that is made to fit without breaking words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

GAP = 2
LEAST_NAME = 16
"""Columns go before names are cut to less."""


@dataclass(frozen=True)
class Column:
    """A title and one cell a row; ``spare`` ones are left out where it is narrow."""

    title: str
    cells: tuple[str, ...]
    right: bool = False
    spare: bool = False

    @property
    def width(self) -> int:
        """Of the longest cell."""
        return max(map(len, (self.title, *self.cells)))

    def lines(self) -> list[str]:
        """Title and cells, all of one width."""
        adjust = str.rjust if self.right else str.ljust
        return [adjust(text, self.width) for text in (self.title, *self.cells)]


def table(columns: Sequence[Column], width: int | None = None) -> list[str]:
    """Return the lines of a table.

    Args:
        columns: The first holds names, whose ends tell more than their beginnings.
        width: Of a terminal: names are cut at the left and spare columns left
            out, the last first, until the lines fit. None for all of everything.
    """
    names, *rest = columns
    if width is not None:
        while _left(rest, width) < min(names.width, LEAST_NAME):
            spare = [column for column in rest if column.spare]
            if not spare:
                break
            rest.remove(spare[-1])
        names = _cut(names, max(_left(rest, width), len(names.title)))
    rows = zip(*(column.lines() for column in (names, *rest)), strict=True)
    return [(GAP * " ").join(row).rstrip() for row in rows]


def _left(rest: Sequence[Column], width: int) -> int:
    """What the other columns leave to the names."""
    return width - sum(column.width + GAP for column in rest)


def _cut(names: Column, width: int) -> Column:
    cells = (
        cell if len(cell) <= width else "…" + cell[len(cell) - width + 1 :]
        for cell in names.cells
    )
    return replace(names, cells=tuple(cells))
