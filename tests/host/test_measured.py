"""What benchmarks keep, so that they go on where they were ended."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

import pytest

from refold.errors import UserError

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from measured import Measured

SUBJECT = {"network": "abc", "images": 1000}


def never() -> NoReturn:
    """A measurement that must not be made."""
    raise AssertionError("measured again")


def test_a_figure_is_measured_once(tmp_path: Path) -> None:
    """Another command with the same file and subject takes the figure from it."""
    file = tmp_path / "figures.json"
    assert 1.5 == Measured(file, SUBJECT).get("a", lambda: 1.5)
    assert 1.5 == Measured(file, SUBJECT).get("a", never)


def test_a_figure_is_kept_before_the_next_one(tmp_path: Path) -> None:
    """What was found before a measurement failed is not lost."""
    file = tmp_path / "figures.json"
    known = Measured(file, SUBJECT)
    known.get("a", lambda: [1, 2])
    with pytest.raises(AssertionError, match="measured again"):
        known.get("b", never)
    assert [1, 2] == Measured(file, SUBJECT).get("a", never)


def test_figures_of_another_subject_are_refused(tmp_path: Path) -> None:
    """And the file stays as it was."""
    file = tmp_path / "figures.json"
    Measured(file, SUBJECT).get("a", lambda: 1)
    before = file.read_bytes()
    with pytest.raises(UserError, match="name another file"):
        Measured(file, {**SUBJECT, "images": 200})
    assert before == file.read_bytes()


def test_without_a_file_nothing_is_kept() -> None:
    """A figure lasts as long as the command."""
    known = Measured(None, SUBJECT)
    assert 1 == known.get("a", lambda: 1)
    assert 1 == known.get("a", never)
    assert 2 == Measured(None, SUBJECT).get("a", lambda: 2)
