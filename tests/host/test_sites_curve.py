"""The curve of docs/sites.md, of gains that are made up."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from refoldc.ranking import RankedSite, Ranking

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import sites

RANKING = Ranking(
    images=8,
    corruptions=("snow",),
    off=0.5,
    all=0.1,
    sites=tuple(
        RankedSite(site=site, loss=0.1, shrinkage=a, alone=alone)
        for site, a, alone in ((2, 1.0, 0.3), (0, 0.9, 0.4), (1, 0.5, 0.2))
    ),
)
COSTS = [10, 200, 3000]


def gain(chosen: Sequence[int], shrinkage: float) -> float:
    """Points: 4 for site 2, 3 for site 0 and 1 for site 1; 8 for all."""
    return float(sum({2: 4, 0: 3, 1: 1}[site] for site in chosen))


def test_a_row_holds_the_first_sites_of_each_order() -> None:
    """The cost is that of the ranking's; an order that is shorter ends."""
    rows = list(sites.measure(gain, RANKING, COSTS, sites.orders(RANKING, "0+1")))
    assert [
        {"greedy": 50.0, "alone": 12.5, "published": 37.5},
        {"greedy": 87.5, "alone": 62.5, "published": 50.0},
        {"greedy": 100.0, "alone": 100.0, "published": None},
    ] == [row.kept for row in rows]
    assert [3000, 3010, 3210] == [row.instructions for row in rows]


def test_the_table_has_a_line_a_row() -> None:
    """And an empty cell where an order has ended."""
    rows = list(sites.measure(gain, RANKING, COSTS, sites.orders(RANKING, "0")))
    assert [
        "| K | joins | a | instructions | greedy, % | alone, % | published, % |",
        "|--:|--:|--:|--:|--:|--:|--:|",
        "| 1 | 2 | 1.0 | 3,000 | 50.0 | 12.5 | 37.5 |",
        "| 2 | 0 | 0.9 | 3,010 | 87.5 | 62.5 |  |",
        "| 3 | 1 | 0.5 | 3,210 | 100.0 | 100.0 |  |",
    ] == list(sites.table(rows))


@pytest.mark.parametrize(
    ("kept", "holds"),
    [
        ([50.0, 80.0, 90.0, 102.0], [True, True]),
        ([50.0, 80.0, 89.9, 103.0], [False, True]),
        ([50.0, 80.0, 95.0, 101.9], [True, False]),
        ([50.0, 80.0, 95.0, *[100.0] * 9, 103.0], [True, False]),
    ],
)
def test_bounds(kept: list[float], holds: list[bool]) -> None:
    """Three sites keep 90 %, and some K of at most twelve 102 %."""
    rows = [sites.Row(RANKING.sites[0], 0, {"greedy": value}) for value in kept]
    assert holds == [found for _, found in sites.check(rows)]
