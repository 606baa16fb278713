"""Which attached port is meant by what a board is known by; none is guessed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from refold.attached import MAC, Attached, attached_as, list_attached
from refold.boards import Board
from refold.errors import InfraError, UserError
from refold.user_boards import Entry, read_entries, user_board_file


def only_board(board: Board) -> Attached:
    """Return the port of the one such board that is attached.

    Raises:
        UserError: There is none, or there are several.
    """
    found = attached_as(board)
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(
            f"{len(found)} boards may be {board.id}: {_list(found)}; name one of them "
            "with --port, by its connector or serial number"
        )
    own = [name for name, entry in read_entries().items() if entry.board == board.id]
    named = f", or name one of yours with --port: {_list(own)}" if own else ""
    raise UserError(
        f"no {board.id} is attached over USB; connect it ('refold boards' shows what "
        f"is there), or name its port with --port{named}"
    )


def port_known_as(text: str) -> Attached:
    """Return the port with a serial number, a MAC, or at ``usb:PATH``.

    Raises:
        UserError: There is none, or there are several.
    """
    attached = list_attached()
    found = [usb for usb in attached if _answers_to(usb, text)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(
            f"--port {text} may be any of {_list(found)}; name one by its connector"
        )
    raise UserError(
        f"--port {text}: {user_board_file()} has no board of that name "
        f"({_list(read_entries()) or 'it has none'}), and no port of that serial "
        f"number, MAC or usb:PATH is attached ({_list(attached) or 'none is'}); "
        "correct it, or give a device path or a URL"
    )


def port_of(name: str, entry: Entry) -> Attached:
    """Return the port at which one of the user's boards is.

    Raises:
        UserError: There are several.
        InfraError: It is not attached.
    """
    found = [usb for usb in list_attached() if is_entry(usb, entry)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UserError(
            f"board {name} may be any of {_list(found)}; add the usb_path of one to "
            f"its entry in {user_board_file()}"
        )
    raise InfraError(
        f"board {name} ({entry.identity}) is not attached",
        f"connect it, or correct its entry in {user_board_file()}; 'refold boards "
        "scan' shows what is there",
    )


def is_entry(usb: Attached, entry: Entry) -> bool:
    """Return whether a port is an entry's; a MAC decides where USB tells it."""
    at_usb = (entry.serial_number, entry.usb_path)
    return (
        entry.url is None
        and entry.serial_number in (None, usb.serial_number)
        and (entry.usb_path is None or _is_at(usb, entry.usb_path))
        and (
            entry.mac is None
            or entry.mac.lower() == usb.mac
            or (usb.mac is None and any(at_usb))
        )
    )


def entry_of(usb: Attached, entries: Mapping[str, Entry]) -> str | None:
    """Return the name of the entry that a port is, the first one."""
    names = (name for name, entry in entries.items() if is_entry(usb, entry))
    return next(names, None)


def _answers_to(usb: Attached, text: str) -> bool:
    if text.startswith("usb:"):
        return _is_at(usb, text.removeprefix("usb:"))
    if MAC.fullmatch(text.lower()):
        return usb.mac == text.lower()
    return usb.serial_number == text


def _is_at(usb: Attached, path: str) -> bool:
    """Whether it is at a connector, whose interface may go unsaid."""
    connector, _, _ = (usb.usb_path or "").partition(":")
    return path in (usb.usb_path, connector)


def _list(things: Iterable[object]) -> str:
    return ", ".join(map(str, things))
