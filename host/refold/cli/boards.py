"""``refold boards`` and ``refold boards scan``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import click
from rich.table import Table

from refold.attached import attached_as, list_attached
from refold.boards import Board, list_boards, load_board
from refold.console import OUT
from refold.emulation import lacking
from refold.identity import entry_of, is_entry
from refold.scan import Found, new_entries, scan
from refold.user_boards import Entry, add_entries, read_entries, user_board_file


@click.group(name="boards", invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> int:
    """List known boards, those attached over USB, and yours."""
    if ctx.invoked_subcommand is None:
        OUT.print(_known())
        entries = read_entries()
        if entries:
            OUT.print(_own(entries))
    return 0


def _known() -> Table:
    table = Table()
    table.add_column("board", no_wrap=True)  # names and ports are there to be copied
    table.add_column("chip", no_wrap=True)
    table.add_column("attached at", overflow="fold")
    table.add_column("what it is")
    for board in list_boards():
        table.add_row(board.id, board.chip, attached(board), board.description)
    return table


def attached(board: Board) -> str:
    """Return the ports at which such a board may be; USB numbers decide."""
    if board.link.kind == "spawn":
        return lacking(board) or "always there"
    return ", ".join(usb.device for usb in attached_as(board)) or "no"


def _own(entries: Mapping[str, Entry]) -> Table:
    table = Table()
    for column in ("yours", "board", "known by", "attached at"):
        table.add_column(column, overflow="fold")  # they are there to be copied
    ports = list_attached()
    for name, entry in entries.items():
        at = [usb.device for usb in ports if is_entry(usb, entry)]
        where = entry.url or ", ".join(at) or "no"
        table.add_row(name, entry.board, entry.identity, where)
    return table


# --- scan --------------------------------------------------------------------


@command.command(name="scan")
@click.option("--write", is_flag=True, help="Enter new boards in your board file.")
@click.option(
    "--mac",
    "ask_mac",
    is_flag=True,
    help="Ask chips behind USB bridges for their MAC, which restarts them.",
)
@click.option(
    "--port",
    metavar="PORT",
    help="Only this one: device path, USB serial number, MAC or usb:PATH.",
)
@click.option("--board", "board_id", metavar="ID", help="What new boards are.")
@click.option("--name", metavar="NAME", help="Name of the new board.")
def scan_command(
    write: bool,
    ask_mac: bool,
    port: str | None,
    board_id: str | None,
    name: str | None,
) -> int:
    """List serial ports over USB, with what tells them apart.

    --write enters those that may be one board only, or are --board, in your board
    file; their names then serve as --board and --port. What is there stays.
    """
    board = None if board_id is None else load_board(board_id)
    entries = read_entries()
    found = scan(port, ask_mac=ask_mac)
    if port is not None and board is not None:  # whatever its interface
        found = tuple(replace(one, boards=(board,)) for one in found)
    new = new_entries(found, entries, board=board, name=name)
    if write and new:
        add_entries(new)
        entries = {**entries, **new}
    OUT.print(
        _ports(found, entries) if found else "no serial port over USB is attached"
    )
    for line in _hints(found, entries, new, written=write):
        click.echo(line)
    return 0


def _ports(found: Iterable[Found], entries: Mapping[str, Entry]) -> Table:
    """A section a port, a line a fact: whole values are wider than seven columns."""
    table = Table(show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for one in found:
        usb = one.usb
        facts = {
            "port": usb.device,
            "USB": " ".join(filter(None, (usb.numbers, usb.product))),
            "serial number": usb.serial_number,
            "connector": usb.usb_path and f"usb:{usb.usb_path}",
            "MAC": one.mac,
            "may be": ", ".join(board.id for board in one.boards),
            "yours": entry_of(usb, entries),
        }
        for what, value in facts.items():
            if value:
                table.add_row(what, value)
        table.add_section()
    return table


def _hints(
    found: Iterable[Found],
    entries: Mapping[str, Entry],
    new: Iterable[str],
    *,
    written: bool,
) -> Iterator[str]:
    """What was entered, or could be."""
    names = ", ".join(new)
    if written:
        yield f"entered in {user_board_file()}: {names or 'nothing new'}"
    elif names:
        yield f"'refold boards scan --write' enters {names} in {user_board_file()}"
    for one in found:
        if len(one.boards) > 1 and entry_of(one.usb, entries) is None:
            ids = " or ".join(board.id for board in one.boards)
            yield f"{one.usb}: say with --board whether it is {ids}, to enter it"
