"""The HTML report, JUnit XML and terminal tables of known results."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args
from xml.etree import ElementTree as ET

import junitparser
import pytest
from msgspec import structs
from rich.console import Console
from sample_results import IMAGES, make_result, make_run, make_stream, two_modes

from refold import plots
from refold.baseline import Baseline, Tolerances, compare
from refold.console import accuracy_tables, cost_table, spending_table
from refold.corrupt import CORRUPTIONS
from refold.cost import TITLES
from refold.junit import render_junit
from refold.plots import Series
from refold.report import render_report, write_report
from refold.result import Reset, Result, Split, Verdict, load_result, write_result
from refold.score import score_run

VOID = {"meta", "br", "wbr", "img", "link", "hr", "input"}


class Outline(HTMLParser):
    """Collects elements, text and addresses, and checks that tags nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.elements.append((tag, {key: value or "" for key, value in attrs}))
        self.addresses += [v or "" for k, v in attrs if k.endswith(("src", "href"))]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert tag == self.open.pop()

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def outline(page: str) -> Outline:
    """Parse a page."""
    parsed = Outline()
    parsed.feed(page)
    parsed.close()
    return parsed


@cache
def plain_page() -> str:
    """Return the page of one result."""
    return render_report([("digits", two_modes())])


def test_the_page_shows_numbers_and_four_plots() -> None:
    """Accuracies, gain and parity are in the text; each plot is an SVG."""
    page = outline(plain_page())
    text = "".join(page.text)
    for expected in ("89.5", "77.0", "+14.5", "-1.0", "-0.5", "gaussian noise"):
        assert expected in text
    assert 4 == page.tags.count("figure")
    assert [] == page.open


def test_the_page_needs_no_network() -> None:
    """Nothing is loaded from elsewhere: all references are within the page."""
    page = plain_page()
    assert [] == [a for a in outline(page).addresses if not a.startswith("#")]
    assert [] == re.findall(r"@import|url\((?!#)|<script[^>]|<link|<image", page)
    assert [] == re.findall(r'(?<!xmlns)(?<!xmlns:xlink)="https?:', page)


def test_results_stand_side_by_side() -> None:
    """Several results share tables and plots under their names."""
    page = outline(render_report([("one", two_modes()), ("two", two_modes())]))
    text = " ".join(page.text)
    for expected in ("one off", "one forge", "two off", "two forge"):
        assert expected in text
    assert 4 == page.tags.count("figure")


def test_a_run_without_any_answer_still_has_a_page() -> None:
    """A board lost at once leaves the reason and no plots."""
    lost = make_result(
        make_run("off", {}), verdict="infra", complete=False, reasons=("board gone",)
    )
    page = outline(render_report([("digits", lost)]))
    assert "board gone" in page.text
    assert 0 == page.tags.count("figure")


def test_a_stream_cut_short_is_drawn() -> None:
    """A stream that ended early has fewer blocks, and the page still renders."""
    run = make_run("off", {"fog": 50.0}, images=30, blocks=(15,))
    empty = make_run(
        "forge", {"fog": 0.0}, images=0, blocks=(), latency_quantiles_us=()
    )
    page = outline(render_report([("digits", make_result(run, empty))]))
    assert 4 == page.tags.count("figure")


def with_energy(scale: float = 1.0) -> Result:
    """Return off without and forge with energy of adaptation."""
    accuracies = {"clean": 90.0, "fog": 60.0}
    spent = {"energy_mj": 0.5 * scale, "adapt_energy_mj": 0.0}
    more = {"energy_mj": 0.75 * scale, "adapt_energy_mj": 0.25 * scale}
    return make_result(
        make_run("off", accuracies, **spent), make_run("forge", accuracies, **more)
    )


def test_energy_is_shown_where_it_was_measured() -> None:
    """A column, and a plot whose bars are all series that have it."""
    page = render_report([("one", with_energy()), ("two", with_energy(2))])
    cells = re.findall(r'data-term="energy mJ / of it adaptation">(.*?)<', page)
    assert ["0.5 / 0", "0.75 / 0.25", "1 / 0", "1.5 / 0.5"] == cells
    assert 5 == outline(page).tags.count("figure")
    mixed = render_report([("one", with_energy()), ("two", two_modes())])
    cells = re.findall(r'data-term="energy mJ / of it adaptation">(.*?)<', mixed)
    assert ["0.5 / 0", "0.75 / 0.25", "–", "–"] == cells
    assert "energy" not in plain_page()


def test_the_terminal_shows_energy_where_it_was_measured() -> None:
    """Of it adaptation in brackets."""
    console = Console(width=100)
    for result, shown in ((with_energy(), True), (two_modes(), False)):
        with console.capture() as capture:
            console.print(cost_table(result))
        assert shown == ("0.75 (0.25)" in capture.get())
        assert shown == ("energy" in capture.get())


def gated(now: Result) -> Result:
    """Return a result that was compared with :func:`two_modes`."""
    earlier = Baseline(two_modes(), Tolerances(), "nightly/earlier.json")
    return structs.replace(now, baseline=compare(earlier, now))


def test_the_page_shows_what_the_baseline_found() -> None:
    """Name, tolerances and every quantity; those beyond their limit come first."""
    runs = (
        make_run("off", {"clean": 90.0, "gaussian_noise": 40.0, "brightness": 85.0}),
        make_run("forge", {"clean": 89.5, "gaussian_noise": 60.0, "brightness": 84.0}),
    )
    page = render_report([("now", gated(make_result(*runs)))])
    text = page.replace("<wbr>", "")
    assert "now against nightly/earlier.json" in text
    assert "accuracy lower by 1 point, any latency, 1.05 times the memory" in text
    tables = re.findall(r'<table class="sortable">.*?</table>', page, re.DOTALL)
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in rows_of(tables[0])]
    cells = [[re.sub(r"<.*?>", "", cell) for cell in row] for row in rows]
    mean, noise = "mean_accuracy forge", "accuracy forge, gaussian_noise"
    assert [mean, "77.00", "72.00", "-5.00", "76.00", "worse"] == cells[0]
    assert [noise, "70.00", "60.00", "-10.00", "69.00", "worse"] == cells[1]
    assert 2 == len(cells)
    assert "2 worse" in page
    assert len(gated(two_modes()).baseline.compared) - 2 == len(rows_of(tables[1]))
    assert [] == outline(page).open


def rows_of(table: str) -> list[str]:
    """Return the rows of a table's body."""
    return re.findall(r'<tr><th scope="row".*?</tr>', table, re.DOTALL)


def test_a_result_that_is_not_worse_says_so() -> None:
    """And one that was not compared has no such section."""
    assert "nothing worse" in render_report([("now", gated(two_modes()))])
    assert " against " not in plain_page()


def test_the_gates_findings_outlive_the_file(tmp_path: Path) -> None:
    """result.json keeps them, so that its page can be made later."""
    write_result(gated(two_modes()), tmp_path / "r.json")
    loaded = load_result(tmp_path / "r.json")
    assert gated(two_modes()) == loaded
    assert "nothing worse" in render_report([("now", loaded)])


LONG = "forge:a=0.7;stats=exact;interval=16"


def four_results() -> list[tuple[str, Result]]:
    """Return twelve series with long names; the last result saw three corruptions."""
    every = dict.fromkeys(("clean", *CORRUPTIONS), 50.0)
    few = dict.fromkeys(list(every)[:3], 50.0)
    return [
        (
            f"experiments/a-long-folder/run_{number}/result",
            make_result(*(make_run(mode, seen) for mode in ("off", "forge", LONG))),
        )
        for number, seen in enumerate((every, every, every, few))
    ]


@cache
def crowded_page() -> str:
    """Return the page of four results."""
    return render_report(four_results())


def series_of(results: list[tuple[str, Result]]) -> list[Series]:
    """Return the series of the plots, in the order of the page."""
    pairs = [(name, result, run) for name, result in results for run in result.runs]
    return [
        Series(f"{name} {run.adapt}", plots.style(number), run, result)
        for number, (name, result, run) in enumerate(pairs)
    ]


def test_one_legend_tells_all_series_apart() -> None:
    """The legend has an entry a series, and no two share colour and dash."""
    page = crowded_page()
    (legend,) = re.findall(r'<ul class="legend".*?</ul>', page, re.DOTALL)
    lines = re.findall(r'stroke="(.*?)".*?stroke-dasharray="(.*?)"', legend)
    assert 12 == legend.count("<li>") == len(lines) == len(set(lines))


def test_more_than_a_dozen_series_look_different() -> None:
    """The styles of 32 series differ in colour or dash, those of 56 with marker."""
    looks = [plots.style(number) for number in range(56)]
    assert len({(look.colour, look.dash) for look in looks[:32]}) == 32
    assert len(set(looks)) == 56


@pytest.mark.parametrize("colour", plots.COLOURS)
def test_colours_stand_out_from_white(colour: str) -> None:
    """Contrast is at least 3:1, as WCAG asks of graphics."""
    levels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in levels
    ]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert 1.05 / (luminance + 0.05) >= 3


def axes_share(svg: str) -> tuple[float, float]:
    """Return how much of a plot's width and height its axes have.

    The backgrounds of figure and axes are the first two paths.
    """
    sizes = []
    for path in re.findall(r'<path d="(M.*?)z', svg, re.DOTALL)[:2]:
        numbers = [float(number) for number in re.findall(r"[\d.]+", path)]
        xs, ys = numbers[::2], numbers[1::2]
        sizes.append((max(xs) - min(xs), max(ys) - min(ys)))
    (width, height), (inner_width, inner_height) = sizes
    return inner_width / width, inner_height / height


def test_many_series_leave_the_plots_their_room() -> None:
    """With twelve long names, axes keep half of each plot and hold no legend."""
    results = four_results()
    series, names = series_of(results), ["clean", *CORRUPTIONS]
    for svg in (
        plots.accuracy_per_corruption(series, names),
        plots.accuracy_along(series),
        plots.latency_distribution(series),
        plots.memory_map(results),
    ):
        assert min(axes_share(svg)) >= 0.5
        assert LONG not in svg


def test_the_tallest_plot_is_bounded() -> None:
    """Twelve series on all corruptions are at most 1.4 times as tall as wide."""
    svg = plots.accuracy_per_corruption(
        series_of(four_results()), ["clean", *CORRUPTIONS]
    )
    (box,) = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert float(box[1]) <= 1.4 * float(box[0])


def test_dots_centre_on_their_corruption() -> None:
    """Whoever saw a corruption shares its row evenly; who did not takes no place."""
    series, names = series_of(four_results()), ["clean", *CORRUPTIONS]
    heights = plots.dot_rows(series, names)
    assert [16] * 9 + [3] * 3 == [len(rows) for rows in heights]
    for row in range(16):
        dots = sorted(h for rows in heights for h in rows if abs(h - row) < 0.5)
        gaps = [after - before for before, after in pairwise(dots)]
        assert (12 if row < 3 else 9) == len(dots)
        assert row == pytest.approx(sum(dots) / len(dots))
        assert gaps == pytest.approx([gaps[0]] * len(gaps))


def test_the_page_can_be_read_without_seeing_it() -> None:
    """Plots have descriptions, ids are unique, keys are silent beside their names."""
    elements = outline(crowded_page()).elements
    images = [attrs for _, attrs in elements if attrs.get("role") == "img"]
    assert 4 == len([attrs for attrs in images if attrs["aria-label"]])
    ids = [attrs["id"] for _, attrs in elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    keys = [attrs for _, attrs in elements if attrs.get("class") == "key"]
    assert {"true"} == {attrs.get("aria-hidden") for attrs in keys}


def test_summary_cells_carry_their_heading() -> None:
    """Where a narrow page stacks the cells, each shows its column's heading."""
    page = plain_page()
    (table,) = re.findall(r'<table class="summary.*?</table>', page, re.DOTALL)
    headings = re.findall(r"columnheader.*?>(.*?)</th>", table)[1:]
    assert 8 == len(headings)
    assert headings * 2 == re.findall(r'data-term="(.*?)"', table)


def test_a_gain_on_clean_images_has_a_plus() -> None:
    """Clean change is signed as gains are."""
    runs = (make_run("off", {"clean": 90.0}), make_run("forge", {"clean": 91.5}))
    page = render_report([("digits", make_result(*runs))])
    assert 'data-term="clean change">+1.5<' in page


def test_names_break_at_separators_only() -> None:
    """Paths may wrap after their separators, and no word is forced apart."""
    page = crowded_page()
    assert "experiments/<wbr>a-long-folder/<wbr>run_<wbr>0/<wbr>result" in page
    assert "anywhere" not in page
    assert [] == re.findall(r"\w(?<!_)<wbr>", page)


def facts(page: str) -> dict[str, str]:
    """Return the terms of a page's first card."""
    (card, *_) = re.findall(r"<dl>.*?</dl>", page.replace("<wbr>", ""), re.DOTALL)
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", card))


def test_a_card_says_nothing_twice() -> None:
    """A result named as its model, on a board named as its chip, lists neither."""
    listed = facts(plain_page())
    assert not {"model", "chip"} & set(listed)
    assert ("/dev/x", "native") == (listed["port"], listed["board"])


def test_a_card_names_what_was_measured_where() -> None:
    """Model, chip, repeats, versions and build are listed where they tell something."""
    board = structs.replace(two_modes().board, id="nucleo", chip="stm32f4", port=None)
    streams = [
        make_stream("fog", 50.0, round=round_, repeat=repeat, segment=segment)
        for repeat in range(2)
        for round_ in range(3)
        for segment in range(4)
    ]
    result = make_result(score_run("off", streams, seconds=1.0), board=board)
    page = render_report([("mine", result)])
    listed = facts(page)
    assert ("digits", "stm32f4") == (listed["model"], listed["chip"])
    assert "port" not in listed
    expected = "continual, 2 repeats, 3 rounds, 4 segments a round"
    assert expected == listed["streams"]
    assert "refold 0.1.0" in page
    assert "cd" * 8 in page


@pytest.mark.parametrize("slowest", [1.2, 4.0, 30.0, 1e3, 1e5])
def test_the_time_axis_has_a_few_ticks(slowest: float) -> None:
    """From a narrow range of times to five decades, 2 to 11 ticks have labels."""
    times = tuple(int(1100 * slowest ** (i / 20)) for i in range(21))
    run = make_run("off", {"fog": 50.0}, latency_quantiles_us=times)
    svg = plots.latency_distribution(
        [Series("off", plots.style(0), run, make_result(run))]
    )
    labels = re.findall(r">([\d.]+)</text>", svg)
    shares = ["0", "20", "40", "60", "80", "100"]
    assert labels[-6:] == shares
    assert 2 <= len(labels) - len(shares) <= 11


def test_results_without_quantiles_are_drawn() -> None:
    """Where the times within a stream are unknown, their plot is empty."""
    run = make_run("off", {"fog": 50.0}, latency_quantiles_us=())
    page = outline(render_report([("digits", make_result(run))]))
    assert 4 == page.tags.count("figure")


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
    """The class is model, board and mode, the name the corruption."""
    suite = ET.fromstring(render_junit(two_modes()))[0]  # noqa: S314
    names = [(case.get("classname"), case.get("name")) for case in suite]
    assert ("refold.digits.native.forge", "gaussian_noise") in names
    assert ("refold.digits.native.run", "verdict") in names


def test_junit_classes_have_four_parts() -> None:
    """Jenkins takes what precedes the last dot for a package; the mode stays whole."""
    run = make_run("forge:a=0.7;stats=exact", {"fog": 50.0})
    suite = ET.fromstring(render_junit(make_result(run)))[0]  # noqa: S314
    case = suite.find("testcase")
    assert case is not None
    assert "refold.digits.native.forge:a=0_7;stats=exact" == case.get("classname")
    modes = {p.get("value") for p in case.iter("property") if p.get("name") == "adapt"}
    assert {"forge:a=0.7;stats=exact"} == modes


def test_junit_cases_are_told_apart() -> None:
    """By class and name: modes, rounds, repeats and segments, and the verdict."""
    streams = [
        make_stream(name, 50.0, round=round_, repeat=repeat, segment=segment)
        for name in ("clean", "fog")
        for repeat in range(2)
        for round_ in range(3)
        for segment in range(4)
    ]
    runs = [score_run(mode, streams, seconds=1.0) for mode in ("off", "forge")]
    suite = ET.fromstring(render_junit(make_result(*runs)))[0]  # noqa: S314
    cases = [(c.get("classname"), c.get("name")) for c in suite.iter("testcase")]
    assert 2 * 48 + 1 == len(cases) == len(set(cases))


@pytest.mark.parametrize("verdict", get_args(Verdict))
def test_junit_holds_any_reason(verdict: Verdict) -> None:
    """Boot logs have characters that XML has not; each verdict's file is valid."""
    reasons = () if verdict == "pass" else ('panic \x1b[31m\x00 <abort> & "x"',)
    result = make_result(make_run("off", {"fog": 50.0}), verdict=verdict)
    result = structs.replace(result, reasons=reasons, finished=datetime.now(UTC))
    (suite,) = junitparser.JUnitXml.fromstring(render_junit(result))
    found = [(type(r).__name__, r.message) for case in suite for r in case.result]
    words = 'panic \ufffd[31m\ufffd <abort> & "x"'
    kinds = {"fail": "Failure", "infra": "Error", "skipped": "Skipped"}
    assert ([(kinds[verdict], words)] if reasons else []) == found


def test_junit_cases_carry_their_numbers() -> None:
    """junitparser reads one case a mode and corruption, with properties."""
    xml = junitparser.JUnitXml.fromstring(render_junit(two_modes()))
    (suite,) = xml
    facts = {p.name: p.value for p in suite.properties()}
    assert ("native", "digits", "4096") == (
        facts["board"],
        facts["data"],
        facts["arena_bytes"],
    )
    cases = {(case.classname, case.name): case for case in suite}
    assert 7 == len(cases)
    case = cases["refold.digits.native.forge", "gaussian_noise"]
    numbers = {p.name: p.value for p in case.child(junitparser.Properties)}
    assert ("70", "140", "5", "1500", "0") == (
        numbers["accuracy"],
        numbers["correct"],
        numbers["severity"],
        numbers["latency_us.p95"],
        numbers["parity_mismatches"],
    )
    assert "gate" not in numbers


@pytest.mark.parametrize(
    ("verdict", "counts"),
    [
        ("pass", (0, 0, 0)),
        ("fail", (1, 0, 0)),
        ("infra", (0, 1, 0)),
        ("skipped", (0, 0, 1)),
    ],
)
def test_verdicts_are_kept_apart_in_junit(
    verdict: Any, counts: tuple[int, int, int]
) -> None:
    """Failures are the model's, errors the board's, and a run left out is neither."""
    result = make_result(make_run("off", {"fog": 40.0}), verdict=verdict)
    (suite,) = junitparser.JUnitXml.fromstring(render_junit(result))
    assert counts == (suite.failures, suite.errors, suite.skipped)


def test_a_lost_board_is_told_in_junit() -> None:
    """The phase is a property, each loss a line."""
    reset = Reset(
        phase="stream",
        adapt="forge",
        stream="fog",
        image=17,
        reason="brownout",
        boot_count=3,
        text="Brownout detector was triggered",
    )
    result = make_result(verdict="infra", phase="hello", resets=(reset,))
    (suite,) = junitparser.JUnitXml.fromstring(render_junit(result))
    (case,) = suite
    found = {p.name: p.value for p in case.child(junitparser.Properties)}
    assert {"phase": "hello"} == found
    assert (
        "lost (brownout) in fog under forge after 17 images, back with boot count 3: "
        "Brownout detector was triggered"
    ) == case.system_out


def test_a_skipped_run_is_skipped_in_junit() -> None:
    """Neither failure nor error."""
    skipped = make_result(verdict="skipped", reasons=("no board",))
    (suite,) = junitparser.JUnitXml.fromstring(render_junit(skipped))
    assert (1, 0, 0) == (suite.skipped, suite.failures, suite.errors)


def test_the_terminal_shows_differences() -> None:
    """Each accuracy stands with its difference to off."""
    console = Console(width=100, record=True, file=None, quiet=True)
    with console.capture() as capture:
        console.quiet = False
        console.print(*accuracy_tables(two_modes(), 100), cost_table(two_modes()))
    text = capture.get()
    for expected in ("70.0 (+30.0)", "77.0 (+14.5)", "1.000", "1.500"):
        assert expected in text


def searching() -> Result:
    """A mode whose searches take two thirds of the time."""
    told = {"full_passes": 1.5 * IMAGES, "split_us": Split(1000.0, 250.0, 2500.0)}
    passes = {"forward_passes": 4 * IMAGES, "adapted_images": IMAGES // 2}
    return make_result(make_run("pace", {"fog": 50.0}, **passes, **told))


def test_where_time_goes_is_shown() -> None:
    """The terminal and the page name the parts, the passes and what was adapted."""
    console = Console(width=100, record=True, file=None, quiet=True)
    with console.capture() as capture:
        console.quiet = False
        console.print(spending_table(searching()))
    page = render_report([("r", searching())])
    for text in (capture.get(), page):
        for expected in (*TITLES, "1.000", "0.250", "2.500", "4.00", "1.50", "50.0"):
            assert expected in text


def test_results_that_do_not_tell_show_no_such_table() -> None:
    """Those of earlier versions."""
    assert 0 == spending_table(two_modes()).row_count
    assert "A mean image" not in render_report([("r", two_modes())])
