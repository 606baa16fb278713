"""Kept measurements: made once, until something they depend on changes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from work import Work, source_hash


class Maker:
    """Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, float]:
        """A value that names its call."""
        self.calls += 1
        return {"call": float(self.calls)}


def recall(folder: Path, make: Maker, **depends: object) -> dict[str, float]:
    """As a command does that was started anew."""
    return Work(folder).recall("a name: 1", depends, dict[str, float], make)


def test_a_value_is_made_once(tmp_path: Path) -> None:
    """The order in which dependences are named does not matter."""
    make = Maker()
    assert {"call": 1.0} == recall(tmp_path / "work", make, mode="off", order=[1, 2])
    assert {"call": 1.0} == recall(tmp_path / "work", make, order=[1, 2], mode="off")
    assert 1 == make.calls


def test_another_dependence_is_another_value(tmp_path: Path) -> None:
    """And the earlier one stays."""
    make = Maker()
    recall(tmp_path, make, mode="off")
    assert {"call": 2.0} == recall(tmp_path, make, mode="forge")
    assert {"call": 1.0} == recall(tmp_path, make, mode="off")


def test_what_ends_while_it_is_made_keeps_nothing(tmp_path: Path) -> None:
    """The next start makes it from its beginning."""

    def end() -> dict[str, float]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Work(tmp_path).recall("name", {}, dict[str, float], end)
    assert [] == list(tmp_path.iterdir())


def test_sources_have_a_hash() -> None:
    """Of names and contents, folders and files; it does not depend on their order."""
    folder, file = "firmware/include", "benchmarks/work.py"
    assert source_hash(folder, file) == source_hash(file, folder)
    assert source_hash(folder) != source_hash(folder, file)
