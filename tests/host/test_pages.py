"""The HTML pages in a real browser: layout, console, plots, sorting, no network."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from browser import Page, browsing
from msgspec import structs
from sample_results import make_result, make_run, two_modes

from refold.baseline import Baseline, Tolerances, compare
from refold.history import write_history
from refold.report import write_report
from refold.trend import Entry

LONG = "forge:a=0.7;stats=exact;interval=16"
BEGAN = datetime(2025, 1, 31, 22, tzinfo=UTC)
WIDTHS = (1280, 390)
PLOTS = {"report": 5, "comparison": 4, "history": 4}
"""Figures of each page; the history's are of two groups."""


def write_pages(folder: Path) -> None:
    """Write a report of one result, one of three, and a history."""
    modes = {"clean": 90.0, "gaussian_noise": 9.5, "fog": 70.0}
    spent = {"energy_mj": 0.5, "adapt_energy_mj": 0.1}
    crowded = make_result(
        *(make_run(mode, modes, **spent) for mode in ("off", "forge", LONG)),
        reasons=(f"bound {LONG}.gain>=20 is missed: found 3",),
        verdict="fail",
    )
    earlier = make_result(make_run("forge", {"clean": 95.0, "fog": 70.0}))
    gate = compare(Baseline(earlier, Tolerances(), "ci/earlier.json"), crowded)
    gated = structs.replace(crowded, baseline=gate)
    write_report([("digits", gated)], folder / "report.html")
    named = [
        (f"experiments/a_long_folder/run_{number}", two_modes()) for number in range(3)
    ]
    write_report(named, folder / "comparison.html")
    other = structs.replace(crowded.data, spec="npz:" + "long_path/" * 20)
    worse = make_result(make_run("off", modes), make_run("forge", modes))
    results = [two_modes(), crowded, structs.replace(crowded, data=other), worse] * 2
    entries = [
        Entry(BEGAN + timedelta(days=day), f"nightly/{day}/result", result)
        for day, result in enumerate(results)
    ]
    write_history(entries, folder / "history.html")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The written pages."""
    place = tmp_path_factory.mktemp("pages")
    write_pages(place)
    return place


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """One browser for all tests of this module."""
    with browsing() as opened:
        yield opened


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PLOTS)
def test_a_page_fits_its_window(
    name: str, width: int, folder: Path, page: Page
) -> None:
    """Nothing overflows sideways, all plots have a size, the console is silent."""
    page.complaints.clear()
    page.requests.clear()
    file = folder / f"{name}.html"
    page.open(file, width)
    assert width == page.evaluate("innerWidth")
    assert width >= page.evaluate("document.documentElement.scrollWidth")
    sizes = page.evaluate(
        "[...document.querySelectorAll('figure svg')].map(s => "
        "[s.clientWidth, s.clientHeight, s.querySelectorAll('path, use').length])"
    )
    assert PLOTS[name] == len(sizes)
    for across, down, shapes in sizes:
        assert across >= 0.75 * min(width, 480)
        assert down >= 100
        assert shapes > 5
    assert [] == page.complaints
    assert [file.as_uri()] == page.requests


TABLE = "[...document.querySelectorAll('.wide table')].pop()"
HEADS, ROWS = f"{TABLE}.tHead.rows[0].cells", f"{TABLE}.tBodies[0].rows"


def column(page: Page, number: int) -> list[str]:
    """Return the texts of a column of the page's last wide table."""
    cells = f"[...{ROWS}].map(r => r.cells[{number}].textContent)"
    found: list[str] = page.evaluate(cells)
    return found


def test_a_click_on_a_heading_sorts(folder: Path, page: Page) -> None:
    """By number, ascending and at the second click descending; names by letter."""
    page.open(folder / "report.html", 1280)
    assert ["90.0", "9.5", "70.0"] == column(page, 1)
    page.click(f"{HEADS}[1].querySelector('button')")
    assert ["9.5", "70.0", "90.0"] == column(page, 1)
    assert "ascending" == page.evaluate(f"{HEADS}[1].ariaSort")
    page.click(f"{HEADS}[1].querySelector('button')")
    assert ["90.0", "70.0", "9.5"] == column(page, 1)
    page.click(f"{HEADS}[0].querySelector('button')")
    assert ["clean", "fog", "gaussian noise"] == column(page, 0)
    assert [None, None] == [
        page.evaluate(f"{HEADS}[{number}].ariaSort") for number in (1, 2)
    ]


def test_the_history_sorts_by_time(folder: Path, page: Page) -> None:
    """The newest is on top; a click turns it round, days across months in order."""
    page.open(folder / "history.html", 1280)
    days = column(page, 0)
    assert sorted(days, reverse=True) == days
    assert len(set(days)) > 1
    page.click(f"{HEADS}[0].querySelector('button')")
    assert sorted(days) == column(page, 0)


def test_missing_values_come_last(tmp_path: Path, page: Page) -> None:
    """Whichever way the column is sorted."""
    one = make_result(make_run("off", {"clean": 90.0, "fog": 50.0}))
    two = make_result(make_run("off", {"clean": 80.0}))
    write_report([("one", one), ("two", two)], tmp_path / "r.html")
    page.open(tmp_path / "r.html", 1280)
    for _ in range(2):
        page.click(f"{HEADS}[2].querySelector('button')")
        assert ["80.0", "–"] == column(page, 2)
