"""What is attached, which boards it may be, and the entries that would name it."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count

from refold import esptool
from refold.attached import Attached, boards_as, list_attached
from refold.boards import Board
from refold.errors import UserError
from refold.esptool import EsptoolError
from refold.identity import entry_of, port_known_as
from refold.lock import hold
from refold.place import find_place
from refold.user_boards import Entry

_NAMED_BY = 4
"""Characters of an identity that make a name."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Found:
    """One attached port.

    Attributes:
        usb: The port.
        mac: Of the chip, where USB tells or the chip was asked.
        boards: Those that it may be, by their interface's numbers.
        alone: No other port has its serial number.
    """

    usb: Attached
    mac: str | None
    boards: tuple[Board, ...]
    alone: bool

    def entry(self, board: Board) -> Entry:
        """Return what it is known by from now on, as a board of this kind.

        A connector only where there is no serial number of its own: a cable is moved
        more easily than a number changes.
        """
        number = self.usb.serial_number if self.alone else None
        return Entry(
            board=board.id,
            serial_number=number,
            mac=None if self.usb.mac else self.mac,
            usb_path=None if number else self.usb.usb_path,
        )


def scan(port: str | None = None, *, ask_mac: bool = False) -> tuple[Found, ...]:
    """Return the attached ports.

    Args:
        port: Only that of this device path, serial number, MAC or ``usb:PATH``.
        ask_mac: Ask chips for their MAC where USB does not tell: they are restarted.

    Raises:
        UserError: ``port`` is not attached, or esptool is missing.
    """
    attached = list_attached()
    numbers = Counter(usb.serial_number for usb in attached)
    chosen = attached if port is None else (_chosen(port, attached),)
    if ask_mac:
        esptool.check_installed()
    return tuple(
        Found(
            usb=usb,
            mac=_ask_mac(usb) if ask_mac and usb.mac is None else usb.mac,
            boards=boards_as(usb),
            alone=numbers[usb.serial_number] == 1,
        )
        for usb in chosen
    )


def _chosen(port: str, attached: Iterable[Attached]) -> Attached:
    by_path = next((usb for usb in attached if usb.device == port), None)
    return by_path or port_known_as(port)


def _ask_mac(usb: Attached) -> str | None:
    """The MAC that the chip tells esptool; other things' chips are left alone."""
    boards = boards_as(usb)
    if not boards:
        return None
    try:
        with hold(find_place(boards[0], usb.device)):
            return esptool.read_mac(usb.device)
    except (EsptoolError, UserError) as error:
        _logger.warning("%s tells no MAC: %s", usb.device, error)
        return None


def new_entries(
    found: Iterable[Found],
    entries: Mapping[str, Entry],
    *,
    board: Board | None = None,
    name: str | None = None,
) -> dict[str, Entry]:
    """Return entries for the ports that have none, by name.

    Args:
        found: Ports.
        entries: The user's boards.
        board: What they are; None takes the one that each may be. Ports that may be
            none or several are left out.
        name: Of the only one; None makes names of chip and identity.

    Raises:
        UserError: A name is given for none or several.
    """
    unknown = [one for one in found if entry_of(one.usb, entries) is None]
    new = list(_told(unknown, board))
    if name is not None and len(new) != 1:
        raise UserError(
            f"--name {name} is for one new board, and there are {len(new)}; choose one "
            "with --port, and say what it is with --board"
        )
    names = {*entries}
    named: dict[str, Entry] = {}
    for kind, entry in new:
        chosen = name or _name(kind, entry, names)
        names.add(chosen)
        named[chosen] = entry
    return named


def _told(found: Iterable[Found], board: Board | None) -> Iterator[tuple[Board, Entry]]:
    """The ports whose board is certain and which can be known again."""
    for port in found:
        fitting = [b for b in port.boards if board in (None, b)]
        if len(fitting) == 1:
            entry = port.entry(fitting[0])
            if entry.identity:
                yield fitting[0], entry


def _name(board: Board, entry: Entry, taken: Container[str]) -> str:
    """The chip and the end of what tells this one from others: esp32s3-72e8."""
    identity = entry.mac or entry.serial_number or entry.usb_path or ""
    end = re.sub("[^0-9a-z]", "", identity.lower())[-_NAMED_BY:]
    plain = f"{board.chip}-{end}"
    numbered = (f"{plain}-{number}" for number in count(2))
    return next(name for name in chain([plain], numbered) if name not in taken)
