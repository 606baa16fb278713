"""``refold doctor``."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

import click
from rich.table import Table

from refold.boards import DEFAULT_BOARD, list_boards, load_board
from refold.cli.group import CONFIG, read_config
from refold.console import OUT
from refold.emulation import lacking
from refold.errors import UserError
from refold.esp_tool import find_tool
from refold.resources import boards_dir, bundled_model, firmware_dir
from refold.result import tool_versions
from refold.toolchain import find_compiler

OPTIONAL = {
    "esptool": ("hw", "puts firmware on ESP32 boards"),
    "platformio": ("hw", "builds firmware for ESP32 boards"),
    "torch": ("train", "trains the bundled networks"),
    "ziglang": ("zig", "a C compiler where the system has none"),
}

Finding = tuple[str, bool, str]
"""What was looked for, whether it is there, and its version or the remedy."""


@click.command(name="doctor")
def command() -> int:
    """Show what is installed, and what to do about what is not.

    Exits 2 where something is missing that every use of refold needs.
    """
    needed, optional = list(_needed()), [*_optional(), *_emulated()]
    table = Table("", "what")
    table.add_column(overflow="fold")  # paths are there to be copied
    for name, found, text in (*needed, *optional):
        table.add_row("ok" if found else "--", name, text)
    OUT.print(table)
    return 0 if all(found for _, found, _ in needed) else 2


def _needed() -> Iterator[Finding]:
    yield "system", True, platform.platform()
    for name, number in tool_versions().items():
        yield name, True, number
    try:
        compiler = find_compiler(load_board(DEFAULT_BOARD).toolchain)
    except UserError as error:
        yield "C compiler", False, str(error)
    else:
        yield "C compiler", True, " ".join(compiler.command)
    if CONFIG.is_file():
        yield _config()
    for locate in (firmware_dir, boards_dir, bundled_model):
        name = locate.__name__.replace("_", " ")
        try:
            yield name, True, str(locate())
        except UserError as error:
            yield name, False, str(error)


def _config() -> Finding:
    """Read refold.toml as every other command does."""
    try:
        read_config(CONFIG, click.get_current_context().find_root())
    except UserError as error:
        return str(CONFIG), False, str(error)
    return str(CONFIG), True, str(CONFIG.absolute())


def _emulated() -> Iterator[Finding]:
    """Boards that run in an emulator, where compiler and emulator are there."""
    for board in list_boards():
        if not board.link.emulator:
            continue
        name, missing = f"board {board.id}", lacking(board)
        if missing is not None:
            yield name, False, f"{missing}: {board.link.install}"
            continue
        try:
            compiler = find_compiler(board.toolchain)
        except UserError as error:
            yield name, False, str(error)
        else:
            yield name, True, " ".join(compiler.command)


def _optional() -> Iterator[Finding]:
    for name, (extra, use) in OPTIONAL.items():
        try:
            yield name, True, version(name)
        except PackageNotFoundError:
            yield name, False, f"{use}: pip install 'refold[{extra}]'"
    try:
        yield "ESP-IDF", True, " ".join(find_tool().command)
    except UserError as error:
        yield "ESP-IDF", False, str(error)
