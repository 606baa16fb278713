"""Where a board is: the URL of its port, and what finds it again.

A device's name is of the moment: a USB port comes back under another one. What a
board is known by is its interface's serial number, its MAC, or the connector it is
at; the user board file gives that a name.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass, replace

import msgspec

from refold.attached import Attached, attached_at, list_attached
from refold.boards import DEFAULT_BOARD, Board, board_ids, load_board
from refold.errors import InfraError, UserError
from refold.identity import only_board, port_known_as, port_of
from refold.user_boards import Entry, read_entries, user_board_file

POLL_S = 0.05
"""How often the list of ports is read while one is waited for."""
_DEVICE = re.compile(r".*[/\\].*|COM\d+", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """One board behind a port.

    Attributes:
        url: Of the port, now.
        serial_number: Of the USB interface, which keeps it when it comes back under
            another name; None where it has none, shares it with another one or is
            not attached over USB.
        power_cycle: Shell command that cuts the board's power for a moment.
        usb_path: The connector, with the interface where there are several.
        mac: What the chip's must be, where USB does not tell; None takes any.
    """

    url: str
    serial_number: str | None = None
    power_cycle: str | None = None
    usb_path: str | None = None
    mac: str | None = None

    @property
    def key(self) -> str:
        """What the board is for locks, by whatever name it is reached.

        The connector rather than the serial number: cheap bridges share theirs.
        """
        if self.usb_path is not None:
            return f"usb:{self.usb_path}"
        return self.url if "://" in self.url else os.path.realpath(self.url)


def address(board: str, port: str | None) -> tuple[Board, str | None]:
    """Return the board and the port that ``--board`` and ``--port`` mean together.

    Args:
        board: Id of a board file, or the name of one of the user's boards, which
            then is the port, too, where none is given.
        port: As :func:`find_place` takes it. The name of one of the user's boards
            brings its board along where ``board`` is the default.

    Returns:
        The board, at its own baud rate if it has one, and the port.

    Raises:
        UserError: There is no such board, or the user board file is faulty.
    """
    name = port if port is not None and _may_be_name(port) else None
    name = name if board in board_ids() else board
    entry = None if name is None else read_entries().get(name)
    if entry is None or board not in (name, entry.board, DEFAULT_BOARD):
        return load_board(board), port
    found = load_board(entry.board)
    link = msgspec.structs.replace(found.link, baud=entry.baud or found.link.baud)
    return msgspec.structs.replace(found, link=link), port or name


def find_place(board: Board, port: str | None) -> Place:
    """Return where ``board`` is.

    Args:
        board: Which it is.
        port: A device path or URL, the name of one of the user's boards, a USB
            serial number, a MAC, or a connector such as ``usb:1-2.3``; None takes
            the one such board that is attached.

    Raises:
        UserError: There is none, or there are several: none is chosen by guess.
        InfraError: One of the user's boards is not attached.
    """
    if port is None:
        return _at(only_board(board))
    if not _may_be_name(port):
        usb = None if "://" in port else attached_at(port)
        return Place(port) if usb is None else _at(usb, url=port)
    entry = read_entries().get(port)
    if entry is None:
        return _at(port_known_as(port))
    if entry.board != board.id:
        raise UserError(
            f"{port} is a {entry.board} in {user_board_file()}, not a {board.id}; "
            "correct --board, or leave it out"
        )
    return _of(port, entry)


def _may_be_name(port: str) -> bool:
    """Whether it is neither a URL nor a device."""
    return "://" not in port and not _DEVICE.fullmatch(port)


def _at(usb: Attached, *, url: str | None = None) -> Place:
    number = usb.serial_number
    doubles = sum(other.serial_number == number for other in list_attached()) > 1
    return Place(
        url=url or usb.device,
        serial_number=None if doubles else number,
        usb_path=usb.usb_path,
    )


def _of(name: str, entry: Entry) -> Place:
    """Where one of the user's boards is."""
    if entry.url is not None:
        place, mac = Place(entry.url), entry.mac
    else:
        usb = port_of(name, entry)
        place, mac = _at(usb), None if usb.mac else entry.mac
    return replace(place, mac=mac, power_cycle=entry.power_cycle)


# --- after it was away -------------------------------------------------------


def port_now(place: Place) -> str | None:
    """Return the URL at which a board is now; None while its USB port is away."""
    if place.serial_number is None and place.usb_path is None:
        return place.url
    for usb in list_attached():
        if place.serial_number is not None:
            found = usb.serial_number == place.serial_number
        else:
            found = usb.usb_path == place.usb_path
        if found:
            return usb.device
    return None


def find_again(place: Place, deadline: float) -> str:
    """Return the URL at which a board is now; wait where its USB port is away.

    Its system may still be setting it up: whoever opens it tries until the deadline.

    Args:
        place: Where it was.
        deadline: Of :func:`time.monotonic`.

    Raises:
        InfraError: It did not come back in time.
    """
    while (url := port_now(place)) is None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise InfraError(
                f"port {place.url} vanished and did not come back ({_identity(place)})",
                "check the board's cable and power, then run again",
            )
        time.sleep(min(POLL_S, left))
    return url


def _identity(place: Place) -> str:
    if place.serial_number is not None:
        return f"serial number {place.serial_number}"
    return f"usb:{place.usb_path}"
