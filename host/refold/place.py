"""Where a board is: the URL of its port, and what finds it again.

A device's name is of the moment: a USB port comes back under another one. What a
board is known by is its interface's serial number, or the connector it is at.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from refold.attached import Attached, attached_as, attached_at, list_attached
from refold.boards import Board
from refold.errors import InfraError, UserError

POLL_S = 0.05
"""How often the list of ports is read while one is waited for."""


@dataclass(frozen=True)
class Place:
    """One board behind a port.

    Attributes:
        url: Of the port, now.
        serial_number: Of the USB interface, which keeps it when it comes back under
            another name; None where it has none or is not attached over USB.
        power_cycle: Shell command that cuts the board's power for a moment.
        usb_path: The connector, with the interface where there are several.
    """

    url: str
    serial_number: str | None = None
    power_cycle: str | None = None
    usb_path: str | None = None

    @property
    def key(self) -> str:
        """What the board is for locks, by whatever name it is reached.

        The connector rather than the serial number: cheap bridges share theirs.
        """
        if self.usb_path is not None:
            return f"usb:{self.usb_path}"
        return self.url if "://" in self.url else os.path.realpath(self.url)


def find_place(board: Board, port: str | None) -> Place:
    """Return where ``board`` is.

    Args:
        board: Which it is.
        port: As the user named it; None takes the one such board that is attached.

    Raises:
        UserError: There is none, or there are several: none is chosen by guess.
    """
    if port is None:
        return _of(_the_only(board))
    usb = None if "://" in port else attached_at(port)
    return Place(url=port) if usb is None else _of(usb, url=port)


def find_again(place: Place, deadline: float) -> str:
    """Return the URL at which a board is now; a USB port may be away for a moment.

    Its system may still be setting it up: whoever opens it tries until the deadline.

    Args:
        place: Where it was.
        deadline: Of :func:`time.monotonic`.

    Raises:
        InfraError: It did not come back in time.
    """
    if place.serial_number is None and place.usb_path is None:
        return place.url
    while True:
        usb = _again(place, list_attached())
        if usb is not None:
            return usb.device
        left = deadline - time.monotonic()
        if left <= 0:
            raise InfraError(
                f"port {place.url} vanished and did not come back "
                f"({_identity(place)}); check the board's cable and power, then run "
                "again"
            )
        time.sleep(min(POLL_S, left))


def _again(place: Place, attached: tuple[Attached, ...]) -> Attached | None:
    """The one with its serial number; of doubles the one at its connector."""
    here = [usb for usb in attached if usb.usb_path == place.usb_path]
    if place.serial_number is None:
        return here[0] if here else None
    same = [usb for usb in attached if usb.serial_number == place.serial_number]
    same = same if len(same) == 1 else [usb for usb in same if usb in here]
    return same[0] if same else None


def _identity(place: Place) -> str:
    if place.serial_number is not None:
        return f"serial number {place.serial_number}"
    return f"usb:{place.usb_path}"


def _of(usb: Attached, *, url: str | None = None) -> Place:
    return Place(
        url=url or usb.device, serial_number=usb.serial_number, usb_path=usb.usb_path
    )


def _the_only(board: Board) -> Attached:
    """The one such board that is attached."""
    found = attached_as(board)
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(
            f"{len(found)} boards may be {board.id}: {', '.join(map(str, found))}; "
            "name one of them with --port"
        )
    raise UserError(
        f"no {board.id} is attached over USB; connect it ('refold boards' shows what "
        "is there), or name its port with --port"
    )
