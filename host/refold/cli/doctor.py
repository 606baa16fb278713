"""``refold doctor``."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
from rich.table import Table

from refold import system
from refold.attached import list_attached
from refold.board_check import check_board
from refold.board_session import Terms
from refold.boards import DEFAULT_BOARD, Board, list_boards, load_board
from refold.cli.group import CONFIG, read_config
from refold.cli.options import FOLDER, port_option, wait_option
from refold.console import OUT
from refold.emulation import lacking
from refold.errors import InfraError, RefoldError, UserError
from refold.esp_tool import find_tool
from refold.finding import Finding
from refold.place import address
from refold.resources import boards_dir, bundled_model, firmware_dir
from refold.result import tool_versions
from refold.toolchain import find_compiler
from refold.user_boards import read_entries, user_board_file

OPTIONAL = {
    "esptool": ("hw", "puts firmware on ESP32 boards"),
    "platformio": ("hw", "builds firmware for ESP32 boards"),
    "torch": ("train", "trains the bundled networks"),
    "ziglang": ("zig", "a C compiler where the system has none"),
}


@click.command(name="doctor")
@click.option(
    "--board",
    metavar="ID",
    help="Try this board's link: reach it, greet it, send frames of many sizes.",
)
@port_option
@click.option(
    "--artefact",
    type=FOLDER,
    metavar="DIR",
    help="Compiled model that must run there; built where it is missing.",
)
@wait_option
def command(
    board: str | None, port: str | None, artefact: Path | None, wait: float
) -> int:
    """Show what is installed, and what to do about what is not.

    Exits 2 where something is missing that every use of refold needs. With --board or
    --port that board is tried: exits 3 where it does not answer or frames are lost.
    """
    if board is not None or port is not None:
        return _try_board(*address(board or DEFAULT_BOARD, port), artefact, wait)
    if artefact is not None:
        raise UserError("--artefact is tried on a board; say which with --board")
    needed = list(_needed())
    _show([*needed, *_optional(), *_emulated(), *_ports()])
    return 0 if all(found.well for found in needed) else 2


def _try_board(
    board: Board, port: str | None, artefact: Path | None, wait: float
) -> int:
    """Show what is found, up to what ends it."""
    findings, code = [], 0
    try:
        for finding in check_board(board, port, artefact, terms=Terms(wait_s=wait)):
            findings.append(finding)
            code = code if finding.well else InfraError.exit_code
    except RefoldError as error:
        findings.append(Finding(f"board {board.id}", False, str(error)))
        code = error.exit_code
    _show(findings)
    return code


def _show(findings: Iterable[Finding]) -> None:
    table = Table("", "what")
    table.add_column(overflow="fold")  # paths are there to be copied
    for name, well, text in findings:
        table.add_row("ok" if well else "--", name, text)
    OUT.print(table)


# --- what is installed ---------------------------------------------------------


def _needed() -> Iterator[Finding]:
    yield Finding("system", True, platform.platform())
    for name, number in tool_versions().items():
        yield Finding(name, True, number)
    yield _found("C compiler", lambda: _compiler(load_board(DEFAULT_BOARD)))
    if CONFIG.is_file():
        yield _found(str(CONFIG), _config)
    if user_board_file().exists():
        yield _found("your boards", _user_boards)
    yield _found("firmware", lambda: str(firmware_dir()))
    yield _found("board files", lambda: str(boards_dir()))
    yield _found("bundled model", lambda: str(bundled_model()))


def _found(name: str, find: Callable[[], str]) -> Finding:
    """What ``find`` says, or why it fails."""
    try:
        return Finding(name, True, find())
    except UserError as error:
        return Finding(name, False, str(error))


def _compiler(board: Board) -> str:
    return " ".join(find_compiler(board.toolchain).command)


def _config() -> str:
    """Read refold.toml as every other command does."""
    read_config(CONFIG, click.get_current_context().find_root())
    return str(CONFIG.absolute())


def _user_boards() -> str:
    return f"{', '.join(read_entries()) or 'none'} in {user_board_file()}"


def _emulated() -> Iterator[Finding]:
    """Boards that run in an emulator, where compiler and emulator are there."""
    for board in list_boards():
        if not board.link.emulator:
            continue
        name, missing = f"board {board.id}", lacking(board)
        if missing is not None:
            yield Finding(name, False, f"{missing}: {board.link.install}")
        else:
            yield _found(name, partial(_compiler, board))


def _optional() -> Iterator[Finding]:
    for name, (extra, use) in OPTIONAL.items():
        try:
            yield Finding(name, True, version(name))
        except PackageNotFoundError:
            yield Finding(name, False, f"{use}: pip install 'refold[{extra}]'")
    yield _found("ESP-IDF", lambda: " ".join(find_tool().command))


def _ports() -> Iterator[Finding]:
    """Attached boards, and what of this computer stands between."""
    try:
        entries = read_entries()
    except UserError:  # told above
        entries = {}
    attached = list_attached()
    if not attached:
        yield from system.membership()
    yield from system.ports(attached, entries)
    yield from system.modem_manager()
    yield from system.latency_timers()
