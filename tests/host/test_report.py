"""The HTML report, JUnit XML and terminal tables of known results."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from msgspec import structs
from rich.console import Console
from sample_results import make_result, make_run, two_modes

from refold.console import accuracy_tables, cost_table
from refold.junit import render_junit
from refold.report import render_report, write_report
from refold.result import Result

VOID = {"meta", "br", "img", "link", "hr", "input"}


class Outline(HTMLParser):
    """Collects text, tags and addresses, and checks that tags nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [v or "" for k, v in attrs if k in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def outline(page: str) -> Outline:
    """Parse a page."""
    parsed = Outline()
    parsed.feed(page)
    parsed.close()
    return parsed


def test_the_page_shows_numbers_and_four_plots() -> None:
    """Accuracies, gain and parity are in the text; each plot is an SVG."""
    page = outline(render_report([("digits", two_modes())]))
    text = " ".join(page.text)
    for expected in ("89.5", "77.0", "+14.5", "-1.0", "+0.5", "gaussian noise"):
        assert expected in text
    assert 4 == page.tags.count("svg")
    assert [] == page.open


def test_the_page_needs_no_network() -> None:
    """Nothing is loaded from elsewhere: all references are within the page."""
    page = render_report([("digits", two_modes())])
    assert [] == [a for a in outline(page).addresses if not a.startswith("#")]
    assert [] == re.findall(r"@import|url\((?!#)|<script", page)


def test_results_stand_side_by_side() -> None:
    """Several results share tables and plots under their names."""
    page = outline(render_report([("one", two_modes()), ("two", two_modes())]))
    text = " ".join(page.text)
    for expected in ("one off", "one forge", "two off", "two forge"):
        assert expected in text
    assert 4 == page.tags.count("svg")


def test_a_run_without_any_answer_still_has_a_page() -> None:
    """A board lost at once leaves the reason and no plots."""
    lost = make_result(
        make_run("off", {}), verdict="infra", complete=False, reasons=("board gone",)
    )
    page = outline(render_report([("digits", lost)]))
    assert "board gone" in page.text
    assert 0 == page.tags.count("svg")


def test_a_stream_cut_short_is_drawn() -> None:
    """A stream that ended early has fewer blocks, and the page still renders."""
    run = make_run("off", {"fog": 50.0}, images=30, blocks=(15,))
    empty = make_run(
        "forge", {"fog": 0.0}, images=0, blocks=(), latency_quantiles_us=()
    )
    page = outline(render_report([("digits", make_result(run, empty))]))
    assert 4 == page.tags.count("svg")


def test_names_are_escaped() -> None:
    """Text from files cannot become markup."""
    page = render_report([("<b>bold</b>", two_modes())])
    assert "<b>bold</b>" not in page


def test_equal_results_give_equal_pages() -> None:
    """The page holds no time and no random name."""
    assert render_report([("a", two_modes())]) == render_report([("a", two_modes())])


def test_the_page_is_written(tmp_path: Path) -> None:
    """The file holds the page, and folders are made."""
    write_report([("a", two_modes())], tmp_path / "deep" / "report.html")
    written = (tmp_path / "deep" / "report.html").read_text(encoding="utf-8")
    assert written.startswith("<!doctype html>")


def failing() -> Result:
    """Return a result with one parity mismatch and a missed bound."""
    run = make_run("off", {"clean": 90.0}, parity_mismatches=1)
    return make_result(run, verdict="fail", reasons=("bound x is missed",))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (two_modes(), {"tests": "7", "failures": "0", "errors": "0"}),
        (failing(), {"tests": "2", "failures": "2", "errors": "0"}),
        (
            structs.replace(two_modes(), verdict="infra", reasons=("gone",)),
            {"tests": "7", "failures": "0", "errors": "1"},
        ),
    ],
)
def test_junit_has_a_case_a_mode_and_stream(
    result: Result, expected: dict[str, str]
) -> None:
    """Streams are cases, and the verdict one more: failure or error."""
    suite = ET.fromstring(render_junit(result))[0]  # noqa: S314 - our own
    assert expected == {key: suite.attrib[key] for key in expected}


def test_junit_names_mode_and_stream() -> None:
    """The class is the mode, the name the corruption."""
    suite = ET.fromstring(render_junit(two_modes()))[0]  # noqa: S314
    names = [(case.get("classname"), case.get("name")) for case in suite]
    assert ("forge", "gaussian_noise") in names


def test_the_terminal_shows_differences() -> None:
    """Each accuracy stands with its difference to off."""
    console = Console(width=100, record=True, file=None, quiet=True)
    with console.capture() as capture:
        console.quiet = False
        console.print(*accuracy_tables(two_modes(), 100), cost_table(two_modes()))
    text = capture.get()
    for expected in ("70.0 (+30.0)", "77.0 (+14.5)", "1.000", "1.500"):
        assert expected in text
