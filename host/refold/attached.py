"""Boards attached over USB, told by their interface's numbers."""

from __future__ import annotations

from serial.tools import list_ports

from refold.boards import Board
from refold.errors import UserError


def attached_ports(board: Board) -> tuple[str, ...]:
    """Return the ports at which such a board may be; others use its bridge, too."""
    numbers = {(usb.vid, usb.pid) for usb in board.usb}
    found = (p.device for p in list_ports.comports() if (p.vid, p.pid) in numbers)
    return tuple(sorted(found))


def find_port(board: Board) -> str:
    """Return the port of the one such board that is attached.

    Raises:
        UserError: There is none, or there are several: none is chosen by guess.
    """
    ports = attached_ports(board)
    if len(ports) == 1:
        return ports[0]
    if ports:
        raise UserError(
            f"{len(ports)} boards may be {board.id}: {', '.join(ports)}; name one of "
            "them with --port"
        )
    raise UserError(
        f"no {board.id} is attached over USB; connect it ('refold boards' shows what "
        "is there), or name its port with --port"
    )
