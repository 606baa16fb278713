from __future__ import annotations

from pathlib import Path

import pytest

from refold import boards
from refold.boards import (
    Board,
    Flash,
    LinkSpec,
    Toolchain,
    UsbId,
    list_boards,
    load_board,
)
from refold.errors import UserError
from refold.resources import boards_dir

FUTURE = """
id = "esp32s3-devkitc-1"
chip = "esp32s3"
description = "Espressif's development kit"
port = "esp_idf"
usb = [{vid = 0x303A, pid = 0x1001}]
reset = "usb-jtag"

[toolchain]
kind = "esp_idf"
env = "esp32-s3-devkitc-1"

[memory]
sram_bytes = 327680
psram_bytes = 8388608
flash_bytes = 16777216

[flash]
method = "esptool"
chip = "esp32s3"

[link]
kind = "serial"
baud = 460800
"""


def write(folder: Path, name: str, text: str) -> Path:
    """Write a board file."""
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def test_the_native_board_is_known() -> None:
    """It is spawned and built by this computer's compiler."""
    board = load_board("native")
    assert ("native", "spawn", "host") == (
        board.id,
        board.link.kind,
        board.toolchain.kind,
    )


@pytest.mark.parametrize("board", ["native", "xtensa-qemu"])
def test_code_keeps_the_floating_point_rules(board: str) -> None:
    """What we ship is compiled without contraction and without fast maths."""
    flags = load_board(board).toolchain.cflags
    assert {"-ffp-contract=off", "-fno-fast-math", "-std=c99"} <= set(flags)


def test_every_board_file_is_sound() -> None:
    """The list has one sound board for every file that is shipped."""
    names = sorted(path.stem for path in boards_dir().glob("*.toml"))
    assert names == [board.id for board in list_boards()]


def test_unknown_boards_are_answered_with_the_known() -> None:
    """The message has a guess and the list."""
    with pytest.raises(
        UserError, match=r"no board 'natve' \(did you mean 'native'\?\); .*: .*native"
    ):
        load_board("natve")


def test_a_hardware_board_is_a_file(tmp_path: Path) -> None:
    """Chip, memory, link, USB, flash and reset are all data."""
    board = boards.read_board(write(tmp_path, "esp32s3-devkitc-1", FUTURE))
    assert (UsbId(vid=0x303A, pid=0x1001),) == board.usb
    assert LinkSpec(kind="serial", baud=460800) == board.link
    assert Flash(method="esptool", chip="esp32s3") == board.flash
    assert (8388608, "usb-jtag") == (board.memory.psram_bytes, board.reset)


def test_boards_are_frozen() -> None:
    """Nobody changes a board for others."""
    board = Board(
        id="x",
        chip="x",
        description="",
        port="x",
        toolchain=Toolchain(kind="host"),
        link=LinkSpec(kind="spawn"),
    )
    with pytest.raises(AttributeError):
        board.id = "y"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('chip = "esp32s3"', "", "missing required field `chip`"),
        ('chip = "esp32s3"', "chip = 5", r"got `int` - at `\$.chip`"),
        ("baud = 460800", "bauds = 460800", r"unknown field `bauds` - at `\$.link`"),
        ('"serial"', '"smoke"', "Invalid enum value 'smoke'"),
        ("[link]", "[link", "board file"),
        ('id = "esp', 'id = "ESP', 'write id = "esp32s3-devkitc-1" or rename'),
    ],
)
def test_faults_in_a_board_file_are_named(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    """The file, the key and what is wrong with it."""
    path = write(tmp_path, "esp32s3-devkitc-1", FUTURE.replace(old, new))
    with pytest.raises(UserError, match=message) as error:
        boards.read_board(path)
    assert str(path) in str(error.value)
