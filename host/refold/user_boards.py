"""The user's own boards: a file that names each and says what it is known by.

Entries are only ever added, at the end: what people wrote there, comments included,
stays as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
from platformdirs import user_config_path

from refold.boards import board_ids, load_board
from refold.errors import UserError
from refold.files import write_text

NAME = re.compile(r"(?!COM\d+$)[A-Za-z0-9_-]+", re.IGNORECASE)
"""What TOML takes without quotes, and no device."""
_MAC = "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$"
_URL = "^(socket|rfc2217)://."

Text = Annotated[str, msgspec.Meta(min_length=1)]


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One board; what is given of its identity must hold, all of it.

    Attributes:
        board: Id of its board file.
        serial_number: Of its USB interface.
        mac: Of the chip, which tells boards behind equal bridges apart.
        usb_path: The connector it is at, such as ``1-2.3``.
        url: Where it is instead, on another computer.
        baud: Of the link, where it is not the board file's.
        power_cycle: Shell command that cuts its power for a moment.
    """

    board: str
    serial_number: Text | None = None
    mac: Annotated[str, msgspec.Meta(pattern=_MAC)] | None = None
    usb_path: Text | None = None
    url: Annotated[str, msgspec.Meta(pattern=_URL)] | None = None
    baud: Annotated[int, msgspec.Meta(gt=0)] | None = None
    power_cycle: Text | None = None

    @property
    def identity(self) -> str:
        """What the board is known by, for people."""
        parts = {
            "serial number ": self.serial_number,
            "MAC ": self.mac,
            "usb:": self.usb_path,
            "": self.url,
        }
        return ", ".join(what + value for what, value in parts.items() if value)


def user_board_file() -> Path:
    """Return where the file is, or would be."""
    return user_config_path("refold") / "boards.toml"


def read_entries() -> dict[str, Entry]:
    """Return the user's boards by name; none where there is no file.

    Raises:
        UserError: The file is no TOML, or an entry is not as it must be.
    """
    file = user_board_file()
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read {file}: {error}; mend or move the file") from None
    return _parse(text, file)


def add_entries(entries: Mapping[str, Entry]) -> Path:
    """Enter boards at the end of the file, which is made where it is missing.

    Returns:
        The file.

    Raises:
        UserError: A name is taken or no name, or the file is faulty or cannot be
            written; it then stays as it was.
    """
    present, file = read_entries(), user_board_file().resolve()
    for name in entries:
        if name in present:
            raise UserError(f"{file} has an entry '{name}' already; choose another")
    old = file.read_text(encoding="utf-8") if file.exists() else ""
    parts = [old.rstrip("\n"), *(_render(*entry) for entry in entries.items())]
    text = "\n\n".join(filter(None, parts)) + "\n"
    _parse(text, file)
    write_text(file, text)
    return file


def _parse(text: str, file: Path) -> dict[str, Entry]:
    try:
        tables = msgspec.toml.decode(text, type=dict[str, dict[str, Any]])
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise UserError(
            f"user board file {file}: {error}; expected one table a board"
        ) from None
    entries = {}
    for name, table in tables.items():
        try:
            entries[name] = entry = msgspec.convert(table, Entry)
            fault = _fault(name, entry)
        except msgspec.ValidationError as error:
            fault = f"{error}; mend the file"
        if fault is not None:
            raise UserError(f"user board file {file}: [{name}]: {fault}")
    return entries


def _fault(name: str, entry: Entry) -> str | None:
    """What is wrong with an entry that has the right keys."""
    try:
        board = load_board(entry.board)
    except UserError as error:
        return str(error)
    at_usb = any((entry.serial_number, entry.usb_path))
    faults = {
        "expected a name of letters, digits, '-' and '_', which is no port's": (
            not NAME.fullmatch(name)
        ),
        "a board file has this name; choose another": name in board_ids(),
        "has a url and a place at this computer's USB; give one of them": (
            entry.url is not None and at_usb
        ),
        "expected serial_number, mac, usb_path or url": (
            not (entry.url or at_usb or entry.mac)
        ),
        f"each run starts {board.id} itself; give the url of one that runs": (
            entry.url is None and board.link.kind == "spawn"
        ),
    }
    return next((fault for fault, there in faults.items() if there), None)


def _render(name: str, entry: Entry) -> str:
    """One table; JSON's strings and numbers are TOML's, too."""
    given = {key: getattr(entry, key) for key in entry.__struct_fields__}
    lines = [
        f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for key, value in given.items()
        if value is not None
    ]
    return "\n".join([f"[{name}]", *lines])
