"""``refold boards``."""

from __future__ import annotations

import click
from rich.table import Table

from refold.attached import attached_as
from refold.boards import Board, list_boards
from refold.console import OUT
from refold.emulation import lacking


@click.command(name="boards")
def command() -> int:
    """List known boards and those attached over USB."""
    table = Table()
    table.add_column("board", no_wrap=True)  # names and ports are there to be copied
    table.add_column("chip", no_wrap=True)
    table.add_column("attached at", overflow="fold")
    table.add_column("what it is")
    for board in list_boards():
        table.add_row(board.id, board.chip, attached(board), board.description)
    OUT.print(table)
    return 0


def attached(board: Board) -> str:
    """Return the ports at which such a board may be; USB numbers decide."""
    if board.link.kind == "spawn":
        return lacking(board) or "always there"
    return ", ".join(usb.device for usb in attached_as(board)) or "no"
