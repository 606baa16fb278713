"""``refold boards``."""

from __future__ import annotations

import click
from rich.table import Table
from serial.tools import list_ports

from refold.boards import Board, list_boards
from refold.console import OUT
from refold.emulation import lacking


@click.command(name="boards")
def command() -> int:
    """List known boards and those attached over USB."""
    table = Table("board", "chip", "attached at", "what it is")
    for board in list_boards():
        table.add_row(board.id, board.chip, attached(board), board.description)
    OUT.print(table)
    return 0


def attached(board: Board) -> str:
    """Return the ports at which such a board may be; USB numbers decide."""
    if board.link.kind == "spawn":
        return lacking(board) or "always there"
    numbers = {(usb.vid, usb.pid) for usb in board.usb}
    found = [p.device for p in list_ports.comports() if (p.vid, p.pid) in numbers]
    return ", ".join(found) or "no"
