"""Serial ports over USB: what is attached now, told by numbers that stay."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from serial.tools import list_ports

from refold.boards import Board, list_boards

MAC = re.compile(r"(?:[0-9a-f]{2}:){5}[0-9a-f]{2}")
_CHIPS_OWN = (0x303A, 0x1001)
"""An ESP32-S3's own USB port, whose serial number is the chip's MAC."""


@dataclass(frozen=True)
class Attached:
    """One serial port over USB.

    Attributes:
        device: Its name of the moment: a path, or a COM port.
        vid: Vendor.
        pid: Product.
        serial_number: Of the interface, which keeps it wherever it is plugged in; None
            where it has none, and not always its own.
        usb_path: The connector, hubs included, such as ``1-2.3``, after ``:`` the
            interface where there are several; None where the system does not tell.
        product: What it calls itself.
    """

    device: str
    vid: int
    pid: int
    serial_number: str | None = None
    usb_path: str | None = None
    product: str | None = None

    @property
    def mac(self) -> str | None:
        """The chip's MAC, in lower case, where USB tells it."""
        number = (self.serial_number or "").lower()
        known = (self.vid, self.pid) == _CHIPS_OWN and MAC.fullmatch(number)
        return number if known else None

    @property
    def numbers(self) -> str:
        """Vendor and product as ``303A:1001``."""
        return f"{self.vid:04X}:{self.pid:04X}"

    def __str__(self) -> str:
        path = f"usb:{self.usb_path}" if self.usb_path else None
        number = f"serial number {self.serial_number}" if self.serial_number else None
        identity = ", ".join(filter(None, (number, path)))
        return f"{self.device} ({identity})" if identity else self.device


def list_attached() -> tuple[Attached, ...]:
    """Return every serial port over USB, by name."""
    found = (
        Attached(
            device=port.device,
            vid=port.vid,
            pid=port.pid,
            serial_number=port.serial_number,
            usb_path=port.location,
            product=port.product,
        )
        for port in list_ports.comports()
        if port.vid is not None and port.pid is not None
    )
    return tuple(sorted(found, key=lambda usb: usb.device))


def attached_as(board: Board) -> tuple[Attached, ...]:
    """Return those that may be such a board; others use its bridge, too."""
    numbers = {(usb.vid, usb.pid) for usb in board.usb}
    return tuple(usb for usb in list_attached() if (usb.vid, usb.pid) in numbers)


def boards_as(usb: Attached) -> tuple[Board, ...]:
    """Return the boards that a port may be."""
    numbers = (usb.vid, usb.pid)
    return tuple(b for b in list_boards() if numbers in ((u.vid, u.pid) for u in b.usb))


def attached_at(path: str) -> Attached | None:
    """Return what is behind a device path or a link to one; None where it is no USB."""
    real = os.path.realpath(path)
    same = (usb for usb in list_attached() if usb.device in (path, real))
    return next(same, None)
