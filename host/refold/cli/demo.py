"""``refold demo``."""

from __future__ import annotations

from pathlib import Path

import click

from refold.cli.options import FOLDER
from refold.cli.run import exit_code
from refold.console import show_result, watching
from refold.demo import demo


@click.command(name="demo")
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    default=Path("refold-demo"),
    show_default=True,
    help="Folder for the artefact, the result and the report.",
)
def command(output: Path) -> int:
    """Compile, build and run the bundled digits network; no downloads.

    Streams clean and corrupted digits to the native board over a serial port, with
    adaptation off and with FORGE.
    """
    with watching() as watch:
        result = demo(output, watch=watch)
    show_result(result)
    click.echo(f"report: {output / 'report.html'}")
    click.echo(
        f"next: refold run {output / 'artefact'} --data digits --severity 3 "
        "--adapt 'off,forge,forge:rule=published'"
    )
    return exit_code(result)
