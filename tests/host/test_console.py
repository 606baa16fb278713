"""Tables on a terminal of 80 columns."""

from __future__ import annotations

import re
from io import StringIO

import pytest
from rich.console import Console
from sample_results import make_result, make_run

from refold import console
from refold.result import Result

MODES = (
    "off",
    "forge",
    "forge:stats=exact;rule=published;a=0.75",
    "forge:sites=1+2+3;m=0.0015625;interval=16",
    "forge:warm=20;stats=lagged",
    "forge:interval=64",
)


@pytest.fixture
def result() -> Result:
    """Return accuracies under many modes with long names."""
    found = {"clean": 100.0, "gaussian_noise": 10.0, "jpeg_compression": 55.5}
    return make_result(*(make_run(mode, found) for mode in MODES))


def printed(result: Result, width: int, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return what is shown of a result."""
    text = StringIO()
    monkeypatch.setattr(console, "OUT", Console(file=text, width=width, markup=False))
    console.show_result(result)
    return text.getvalue()


def test_modes_are_not_torn_apart(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every key stands whole, once in an accuracy table and once in the costs."""
    text = printed(result, 80, monkeypatch)
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    keys = {key for mode in MODES for key in re.findall(r"[^:;]+[:;]?", mode)}
    for key in keys:
        expected = 2 * sum(key in re.findall(r"[^:;]+[:;]?", mode) for mode in MODES)
        cells = [cell.strip() for cell in re.split(r"[│┃\n]", text)]
        assert expected == cells.count(key), key


def test_one_table_where_there_is_room(
    result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wide terminal compares all modes side by side."""
    assert 1 == printed(result, 160, monkeypatch).count("mean of corrupted")
    assert 1 < printed(result, 80, monkeypatch).count("mean of corrupted")


def test_no_mean_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clean images alone have no line for the corrupted."""
    result = make_result(make_run("off", {"clean": 100.0}))
    assert "mean of corrupted" not in printed(result, 80, monkeypatch)
