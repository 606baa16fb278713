"""Plain tables: whole in files, fitted on terminals."""

from __future__ import annotations

from refold.columns import Column, table

COLUMNS = [
    Column("layer", ("/features/features.0/conv/Conv", "fc")),
    Column("MACs", ("1,234", "56"), right=True, spare=True),
    Column("parameters", ("7", "8"), right=True, spare=True),
    Column("why", ("BN folded, exact", "dense")),
]


def test_a_file_gets_everything() -> None:
    """Columns are aligned, numbers at the right."""
    assert [
        "layer                            MACs  parameters  why",
        "/features/features.0/conv/Conv  1,234           7  BN folded, exact",
        "fc                                 56           8  dense",
    ] == table(COLUMNS)


def test_names_lose_their_beginning_first() -> None:
    """Their ends differ, so that these stay."""
    lines = table(COLUMNS, 56)
    assert "…atures.0/conv/Conv  1,234           7  BN folded, exact" == lines[1]


def test_columns_go_before_names_are_unreadable() -> None:
    """The last spare one first, never one that is not spare."""
    for width, titles in ((42, "layer MACs why"), (34, "layer why"), (9, "layer why")):
        lines = table(COLUMNS, width)
        assert titles.split() == lines[0].split()
        assert width < 20 or max(map(len, lines)) <= width
