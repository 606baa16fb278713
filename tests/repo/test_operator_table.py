"""docs/operators.md is what the code says."""

from __future__ import annotations

from pathlib import Path

from refoldc.importers import OPERATORS
from refoldc.operator_table import render


def test_the_table_is_current(repo_root: Path) -> None:
    """The command was run after the last change."""
    page = (repo_root / "docs/operators.md").read_text(encoding="utf-8")
    assert render() == page


def test_every_operator_has_a_row() -> None:
    """None is imported without being documented."""
    rows = [line for line in render().splitlines() if line.startswith("| ")]
    named = {name for row in rows for name in row.split("|")[1].strip().split(", ")}
    assert set(OPERATORS) <= named
