"""The history page: which results it takes, in which order, and what it shows."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from sample_results import make_result, make_run, two_modes

from refold.cli import status
from refold.history import gather, render_history
from refold.result import Result, load_result, write_result
from refold.trend import Entry, breaks, retrained, unlike

NOON = datetime(2025, 3, 1, 12, tzinfo=UTC)


def finished(when: datetime | None, **changes: Any) -> Result:
    """Return a result that ended at a time; ``changes`` replace fields."""
    return structs.replace(two_modes(), finished=when, **changes)


def test_results_are_ordered_by_their_end(tmp_path: Path) -> None:
    """The result's own time counts; the file's where an old result has none."""
    write_result(finished(NOON), tmp_path / "a.json")
    write_result(finished(NOON.replace(hour=11)), tmp_path / "deep" / "b.json")
    write_result(finished(None), tmp_path / "c.json")
    early = NOON.replace(hour=10).timestamp()
    os.utime(tmp_path / "c.json", (early, early))
    assert ["c", "deep/b", "a"] == [entry.name for entry in gather(tmp_path)]


def test_a_result_keeps_its_time(tmp_path: Path) -> None:
    """With the time zone, through the file."""
    write_result(finished(NOON), tmp_path / "a.json")
    assert NOON == load_result(tmp_path / "a.json").finished


def test_other_files_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A folder may hold other JSON, which is named in a warning."""
    write_result(finished(NOON), tmp_path / "a.json")
    (tmp_path / "other.json").write_text("{}")
    assert ["a"] == [entry.name for entry in gather(tmp_path)]
    assert "other.json is no refold result" in caplog.text


def entries(*results: Result) -> list[Entry]:
    """Return them as a history, an hour apart."""
    return [
        Entry(NOON.replace(hour=hour), f"run{hour}", result)
        for hour, result in enumerate(results)
    ]


def page(*results: Result) -> str:
    """Return the page of results an hour apart."""
    return render_history(entries(*results))


def test_only_like_is_drawn_with_like() -> None:
    """Other images make a section of their own, with two plots each."""
    other = structs.replace(two_modes().data, sha256="00" * 32)
    text = page(two_modes(), finished(None, data=other), two_modes())
    assert 2 == text.count("<section")
    assert 4 == text.count("<figure")
    ids = re.findall(r' id="(.*?)"', text)
    assert len(ids) == len(set(ids))


def test_a_line_a_mode_and_board() -> None:
    """The legend names each."""
    board = structs.replace(two_modes().board, id="xtensa-qemu")
    text = page(two_modes(), finished(None, board=board)).replace("<wbr>", "")
    (legend,) = re.findall(r'<ul class="legend".*?</ul>', text, re.DOTALL)
    lines = re.findall(r"</svg>(.*?)</li>", legend)
    assert ["native off", "native forge", "xtensa-qemu off", "xtensa-qemu forge"] == (
        lines
    )


def test_runs_cut_short_are_listed_but_not_drawn() -> None:
    """Their mean is over fewer streams, so it is no point of a line."""
    cut = make_result(make_run("off", {}), complete=False, verdict="infra")
    text = page(cut)
    assert '<td class="text">infra</td>' in text
    assert 0 == text.count("<figure")


def accuracies(*means: float) -> list[Result]:
    """Return results whose accuracy under fog is given, clean accuracy 90 %."""
    return [
        make_result(make_run("off", {"clean": 90.0, "fog": mean})) for mean in means
    ]


@pytest.mark.parametrize(
    ("means", "points", "expected"),
    [
        ([70, 70, 69, 69], 1.0, []),
        ([70, 71, 70, 68.9], 1.0, [("run3", 70)]),
        ([70, 60, 70, 70], 1.0, [("run1", 70)]),
        ([60, 70, 80, 69], 0.9, [("run3", 70)]),
        ([50], 0.0, []),
        ([70, 70, 80], 0.0, []),
    ],
)
def test_a_drop_below_the_median_breaks_the_trend(
    means: list[float], points: float, expected: list[tuple[str, float]]
) -> None:
    """Of all earlier ones; a loss of just the tolerance is none."""
    found = breaks(entries(*accuracies(*means)), points)
    assert expected == [(item.entry, item.median) for item in found]
    assert {"mean_accuracy"} >= {item.measure for item in found}


def test_other_streams_break_no_trend() -> None:
    """A mean over other corruptions, or of a run cut short, is another thing."""
    easy = make_result(make_run("off", {"clean": 90.0, "brightness": 80.0}))
    cut = structs.replace(accuracies(10.0)[0], complete=False, verdict="infra")
    assert () == breaks(entries(easy, *accuracies(60.0), cut), 1.0)


def test_the_newest_break_is_a_warning() -> None:
    """Older ones are marked in the table alone."""
    text = page(*accuracies(70, 60, 70)).replace("<wbr>", "")
    assert (1, 0) == (text.count('class="drop"'), text.count("<li>native off in"))
    text = page(*accuracies(70, 70, 60)).replace("<wbr>", "")
    assert (
        "native off in run2: mean accuracy over corruptions is 60.0 %, 10.0 points "
        "below the median of 2 earlier"
    ) in text


def test_unlike_results_are_named() -> None:
    """Model, data and seed, boards, and bytes of one model that changed."""
    one = two_modes()
    seed = structs.replace(one, data=structs.replace(one.data, seed=7))
    board = structs.replace(one, board=structs.replace(one.board, id="xtensa-qemu"))
    bytes_ = structs.replace(one, model=structs.replace(one.model, sha256="0" * 64))
    assert [] == list(unlike(entries(one, one, bytes_)))
    (warning,) = unlike(entries(one, seed, one))
    assert "not all results can be compared, they differ in seed (0, 7);" in warning
    (warning,) = unlike(entries(one, board))
    assert "of 2 boards (native, xtensa-qemu): times compare" in warning
    (warning,) = retrained(entries(one, one, bytes_))
    assert "bytes changed once, last with run2 (sha256 abababab, then 0000" in warning


def test_the_command_says_what_broke(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the terminal, too, by a tolerance that can be set."""
    for number, result in enumerate(accuracies(70, 68)):
        ended = NOON.replace(hour=number)
        file = tmp_path / "results" / f"{number}.json"
        write_result(structs.replace(result, finished=ended), file)
    words = ["report", "--history", str(tmp_path / "results")]
    words += ["-o", str(tmp_path / "h.html")]
    assert 0 == status(words)
    assert "warning: digits: native off in 1: mean accuracy" in capsys.readouterr().err
    assert 0 == status([*words, "--accuracy-tolerance", "2"])
    assert "warning" not in capsys.readouterr().err


def test_a_history_has_no_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rather than ignoring it the command refuses it."""
    write_result(two_modes(), tmp_path / "a.json")
    words = [
        "report",
        "--history",
        str(tmp_path),
        "--baseline",
        str(tmp_path / "a.json"),
    ]
    assert 2 == status(words)
    assert "leave it out with --history" in capsys.readouterr().err


def test_the_command_writes_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--history takes a folder, -o the place."""
    write_result(finished(NOON), tmp_path / "results" / "a.json")
    output = tmp_path / "history.html"
    words = ["report", "--history", str(tmp_path / "results"), "-o", str(output)]
    assert 0 == status(words)
    assert "2025-03-01 12:00" in output.read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [[], ["a.json", "--history", "."]])
def test_the_command_takes_files_or_a_folder(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither or both is the user's fault."""
    assert 2 == status(["report", *words])
    assert "either result files or --history FOLDER" in capsys.readouterr().err


def test_an_empty_folder_is_the_users_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says what was expected there."""
    assert 2 == status(["report", "--history", str(tmp_path)])
    assert "expected files that 'refold run --json' wrote" in capsys.readouterr().err
