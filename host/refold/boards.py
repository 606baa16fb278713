"""Board files: everything that differs from board to board, as data.

One TOML file a board; adding a board is adding a file.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from refold.errors import UserError
from refold.resources import boards_dir

DEFAULT_BOARD = "native"
FLASH_BAUDS = (921600, 460800, 115200)


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of the tables of a board file; a misspelt key is an error."""


class Toolchain(_Table, frozen=True, kw_only=True):
    """What compiles the firmware.

    Attributes:
        kind: ``host`` is this computer's C compiler, ``command`` the compiler
            called ``prefix`` + gcc, ``esp_idf`` ESP-IDF by itself or within
            PlatformIO, there by the board ``pio_board`` in the environment ``env``.
        cflags: Compiler flags. Flags of the form ``-m…`` that the compiler
            does not know are left out.
        ldflags: Linker flags.
        linker_script: File in the port's folder that lays out memory; empty for
            the compiler's own.
        install: Command that installs the compiler, for messages.
        sdkconfig: More settings of ESP-IDF, such as ``CONFIG_REFOLD_CORE=0``; they
            win over refold's own.
    """

    kind: Literal["host", "command", "esp_idf"]
    prefix: str = ""
    env: str = ""
    pio_board: str = ""
    sdkconfig: tuple[str, ...] = ()
    cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    linker_script: str = ""
    install: str = ""


class Memory(_Table, frozen=True, kw_only=True):
    """What the board has, in bytes; None where nothing limits it.

    Attributes:
        system_sram_bytes: Of the SRAM, what everything but the model takes.
        system_flash_bytes: Of the flash, likewise: boot loader, saved state, code.
    """

    sram_bytes: int | None = None
    psram_bytes: int | None = None
    flash_bytes: int | None = None
    system_sram_bytes: int = 0
    system_flash_bytes: int = 0


class LinkSpec(_Table, frozen=True, kw_only=True):
    """How to reach the firmware.

    Attributes:
        kind: ``spawn`` starts the built executable, which names its port;
            ``serial`` needs a port, given or found by ``usb``.
        emulator: QEMU's command line where the executable cannot run by itself;
            ``{firmware}`` stands for it.
        install: Command that installs the emulator, for messages.
        baud: Of a serial port.
        wire: Which of an ESP32-S3's serial lines carries the link.
    """

    kind: Literal["spawn", "serial"]
    emulator: tuple[str, ...] = ()
    install: str = ""
    baud: int = 921600
    wire: Literal["uart", "usb-serial-jtag"] = "uart"


class Flash(_Table, frozen=True, kw_only=True):
    """How the firmware gets onto the board.

    Attributes:
        method: The program that writes it: ``esptool`` what is built,
            ``platformio`` what the toolchain's environment builds and uploads.
        chip: As that program names it.
        bauds: Rates to try, the fastest first.
    """

    method: Literal["esptool", "platformio"]
    chip: str
    bauds: Annotated[tuple[int, ...], msgspec.Meta(min_length=1)] = FLASH_BAUDS


class UsbId(_Table, frozen=True, kw_only=True):
    """USB vendor and product number of an interface that boards carry."""

    vid: int
    pid: int


class Board(_Table, frozen=True, kw_only=True):
    """One board.

    Attributes:
        id: Name on the command line and of the file.
        chip: What the firmware reports in its Hello.
        port: Folder of ``firmware/ports`` that is compiled in.
        usb: Interfaces by which an attached board is recognised.
        flash: How the firmware gets onto the board; None where it is started.
        reset: How to restart it; None where a new process does.
        host_timed: Its times are this computer's, which a regression gate leaves out.
    """

    id: str
    chip: str
    description: str
    port: str
    toolchain: Toolchain
    link: LinkSpec
    memory: Memory = Memory()
    usb: tuple[UsbId, ...] = ()
    flash: Flash | None = None
    reset: Literal["classic", "usb-jtag"] | None = None
    host_timed: bool = False


def list_boards() -> tuple[Board, ...]:
    """Return every known board, by id."""
    return tuple(read_board(path) for path in _files().values())


def board_ids() -> frozenset[str]:
    """Return the ids of all known boards."""
    return frozenset(_files())


def load_board(board_id: str) -> Board:
    """Return the board called ``board_id``.

    Raises:
        UserError: There is none; the message lists those there are.
    """
    files = _files()
    if board_id in files:
        return read_board(files[board_id])
    close = get_close_matches(board_id, files, n=1)
    hint = f" (did you mean '{close[0]}'?)" if close else ""
    raise UserError(f"no board '{board_id}'{hint}; known boards: {', '.join(files)}")


def read_board(path: Path) -> Board:
    """Read one board file.

    Raises:
        UserError: It is no TOML, misses a key, has an unknown one or one of a
            wrong type, or its id is not the file's name.
    """
    try:
        board = msgspec.toml.decode(path.read_bytes(), type=Board)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise UserError(f"board file {path}: {error}; mend the file") from None
    if board.id != path.stem:
        raise UserError(
            f"board file {path}: id '{board.id}' is not the file's name; "
            f'write id = "{path.stem}" or rename the file'
        )
    return board


def _files() -> dict[str, Path]:
    paths = sorted(boards_dir().glob("*.toml"), key=lambda path: path.stem)
    return {path.stem: path for path in paths}
