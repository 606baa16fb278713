"""Sections of Markdown pages that commands write.

A section stands between ``<!-- name -->`` and ``<!-- /name -->``, each on a line of
its own; what is around it is written by people.
"""

from __future__ import annotations

from pathlib import Path

import click

from refold.files import write_text


def read_section(page: Path, name: str) -> str:
    """What a page holds between the marks of a section, without blank edges.

    Raises:
        click.UsageError: The page has not both marks.
    """
    return _split(page, name)[1].strip("\n") + "\n"


def write_section(page: Path, name: str, text: str) -> None:
    """Replace a section of a page; the page is never half written.

    Raises:
        click.UsageError: The page has not both marks.
    """
    head, _, tail = _split(page, name)
    write_text(page, f"{head}\n\n{text.strip()}\n\n{tail}")


def show(text: str, page: Path | None, name: str) -> None:
    """Print ``text``, or make it a section of a page.

    Raises:
        click.UsageError: The page has not both marks.
    """
    if page is None:
        click.echo(text.rstrip("\n"))
    else:
        write_section(page, name, text)


def _split(page: Path, name: str) -> tuple[str, str, str]:
    """Up to and with the first mark; between; from the last mark on."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    content = page.read_text(encoding="utf-8")
    head, first, rest = content.partition(f"{begin}\n")
    between, last, tail = rest.partition(f"{end}\n")
    if not (first and last):
        raise click.UsageError(
            f"{page} has no lines {begin} and {end}: add them where the section belongs"
        )
    return head + begin, between, end + "\n" + tail
