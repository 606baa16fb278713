"""``refold export``."""

from __future__ import annotations

from pathlib import Path

import click

from refold.cli.options import FOLDER
from refold.export import export


@click.command(name="export")
@click.argument("artefact", metavar="DIR", type=FOLDER)
@click.option(
    "-o",
    "--output",
    "out",
    required=True,
    metavar="COMPONENT",
    type=FOLDER,
    help="Folder to write; an earlier export there is replaced.",
)
@click.option("--force", is_flag=True, help="Replace the folder whatever it holds.")
def command(artefact: Path, out: Path, force: bool) -> int:
    """Write a compiled model as a component for your own firmware.

    DIR is what 'refold compile' wrote. The component has the model, the runtime and
    an example that checks itself; building it needs no Python.
    """
    export(artefact, out, force=force)
    click.echo(f"{out}: README.md there has the next step")
    return 0
