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
from refold.history import Entry, gather, render_history
from refold.result import Result, load_result, write_result

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


def page(*results: Result) -> str:
    """Return the page of results an hour apart."""
    return render_history(
        [
            Entry(NOON.replace(hour=hour), f"run{hour}", result)
            for hour, result in enumerate(results)
        ]
    )


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
    legend = text[text.index('<ul class="legend"') : text.index("</ul>")]
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
