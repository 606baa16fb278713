"""``refold report``."""

from __future__ import annotations

from pathlib import Path

import click

from refold.cli.options import FILE
from refold.console import show_result
from refold.report import write_report
from refold.result import load_result


@click.command(name="report")
@click.argument("results", metavar="RESULT...", nargs=-1, required=True, type=FILE)
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path("refold-report.html"),
    show_default=True,
    help="Where to write the page.",
)
def command(results: tuple[Path, ...], output: Path) -> int:
    """Show results side by side, on the terminal and as an HTML page.

    A page that is there already is replaced.
    """
    named = [(_name(path, results), load_result(path)) for path in results]
    for _, result in named:
        show_result(result)
    write_report(named, output)
    click.echo(f"wrote {output}")
    return 0


def _name(path: Path, paths: tuple[Path, ...]) -> str:
    """Return the shortest name that tells the file from the others."""
    stems = [other.stem for other in paths]
    return path.stem if stems.count(path.stem) == 1 else str(path.with_suffix(""))
