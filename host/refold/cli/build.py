"""``refold build``."""

from __future__ import annotations

from pathlib import Path

import click

from refold.boards import load_board
from refold.build import build
from refold.cli.options import FOLDER, board_option


@click.command(name="build")
@click.argument("artefact", metavar="DIR", type=FOLDER)
@board_option
def command(artefact: Path, board: str) -> int:
    """Build the firmware of a compiled model for a board."""
    built = build(artefact, load_board(board))
    click.echo(f"{built.executable}: build {built.build_hash}")
    if built.code_bytes is not None:
        click.echo(f"code: {built.code_bytes:,} bytes")
    return 0
