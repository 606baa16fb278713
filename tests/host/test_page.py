"""Sections of pages: a command rewrites its own, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from page import read_section, show, write_section

PAGE = """# Title

Words.

<!-- one -->

old

<!-- /one -->

<!-- two -->

kept

<!-- /two -->

<!-- half -->
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A page of two sections."""
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def test_only_the_section_changes(page: Path) -> None:
    """What people wrote, and other sections, stay as they are."""
    write_section(page, "one", "| new |\n| table |\n")
    assert PAGE.replace("old", "| new |\n| table |") == page.read_text("utf-8")
    assert "| new |\n| table |\n" == read_section(page, "one")


def test_writing_twice_is_writing_once(page: Path) -> None:
    """The blank lines around a section do not grow."""
    write_section(page, "two", "text")
    once = page.read_text("utf-8")
    write_section(page, "two", read_section(page, "two"))
    assert once == page.read_text("utf-8")


def test_without_a_page_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """One line break ends it."""
    show("text\n", None, "one")
    assert "text\n" == capsys.readouterr().out


@pytest.mark.parametrize("name", ["three", "half"])
def test_a_page_without_the_marks(page: Path, name: str) -> None:
    """The error says which lines are missing, one or both, and the page stays."""
    with pytest.raises(click.UsageError, match=f"no lines <!-- {name} -->"):
        write_section(page, name, "text")
    assert PAGE == page.read_text("utf-8")
