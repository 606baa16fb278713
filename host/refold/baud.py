"""At which baud rate a board that says what is no frame can be understood."""

from __future__ import annotations

from refold.boards import Board
from refold.device import Device, Patience
from refold.errors import GarbledError, InfraError, RefoldError, UserError
from refold.link import open_link
from refold.no_hello import BAUDS
from refold.resources import boards_dir
from refold.wire import has_baud

PROBE_S = 1.5
"""How long a board has to answer at each rate."""


def suspect_baud(board: Board, url: str, error: GarbledError) -> RefoldError:
    """Return what is wrong with the rate of a serial port, or ``error`` if nothing."""
    if not has_baud(url):
        return error
    for baud in BAUDS:
        if baud != board.link.baud and _answers(url, baud):
            return UserError(
                f"port {url}: the board answers at {baud} baud, not at "
                f"{board.link.baud}; set baud = {baud} in the [link] table of "
                f"{boards_dir() / board.id}.toml, or build and flash the firmware again"
            )
    return error


def _answers(url: str, baud: int) -> bool:
    with open_link(url, baud=baud) as link:
        try:
            Device(link, patience=Patience(hello_s=PROBE_S)).hello()
        except UserError:  # in another version, but it can be understood
            return True
        except InfraError:
            return False
        return True
