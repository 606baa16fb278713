"""``refold build``."""

from __future__ import annotations

from pathlib import Path

import click

from refoldc.artefact import load_artefact

from refold.build import build
from refold.cli.options import FOLDER, board_option
from refold.place import address
from refold.placement import describe, place


@click.command(name="build")
@click.argument("artefact", metavar="DIR", type=FOLDER)
@board_option
def command(artefact: Path, board: str) -> int:
    """Build the firmware of a compiled model for a board."""
    target, _ = address(board, None)
    built = build(artefact, target)
    click.echo(f"{built.executable}: build {built.build_hash}")
    if target.memory.sram_bytes is not None:
        compiled = load_artefact(artefact)
        placement = place(compiled.qgraph, target, search=compiled.manifest.search)
        click.echo(describe(placement, target))
    if built.code_bytes is not None:
        click.echo(f"code: {built.code_bytes:,} bytes")
    return 0
