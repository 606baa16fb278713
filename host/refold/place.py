"""Where a board is: the URL of its port, and what finds it again."""

from __future__ import annotations

from dataclasses import dataclass

from refold.attached import find_port
from refold.boards import Board


@dataclass(frozen=True)
class Place:
    """One board behind a port.

    Attributes:
        url: Of the port.
        serial_number: Of the USB interface, which keeps it when it comes back under
            another name; None where it has none or is not attached over USB.
        power_cycle: Shell command that cuts the board's power for a moment.
    """

    url: str
    serial_number: str | None = None
    power_cycle: str | None = None


def find_place(board: Board, port: str | None) -> Place:
    """Return where ``board`` is.

    Args:
        board: Which it is.
        port: As the user named it; None takes the one such board that is attached.

    Raises:
        UserError: There is none, or there are several.
    """
    return Place(url=find_port(board) if port is None else port)
