"""What ESP-IDF needs to know of a board and a model, rendered as its files.

Sizes follow from the model: NVS holds two saved states, the application gets the
rest of the flash.
"""

from __future__ import annotations

from pathlib import Path

from refold.boards import Board
from refold.placement import Placement

PARTITION_TABLE_OFFSET = 0x8000
NVS_OFFSET = 0x9000
"""Behind the partition table, which is one sector."""
SECTOR = 0x1000
APP_ALIGNMENT = 0x10000
"""Of an application, that the flash cache can map it."""

SLOTS = 2
SLOT_HEADER_BYTES = 16
"""REFOLD_SLOT_HEADER_BYTES of state_slots.h."""
NVS_ENTRY_BYTES, NVS_PAGE_ENTRIES = 32, 126
NVS_LEAST_BYTES = 6 * SECTOR
"""ESP-IDF's own default."""

PLATFORM = "platformio/espressif32@^6.4.0"
"""6.4.0 is the first with ESP-IDF 5.1 (platform-espressif32, issue 1129)."""


def nvs_bytes(record_bytes: int) -> int:
    """Size of the NVS partition for two saved states of ``record_bytes``.

    A blob takes an index entry, and for each page that it touches an entry and its
    data in entries of 32 bytes; a page has 126 of them. A new blob is written
    before the one it replaces is erased, and NVS keeps one page free.

    Source: ESP-IDF, NVS library, "Structure of a page" and "Structure of entry".
    """
    slot = SLOT_HEADER_BYTES + record_bytes
    data = -(-slot // NVS_ENTRY_BYTES)
    pages_touched = -(-data // (NVS_PAGE_ENTRIES - 1)) + 1
    entries = (SLOTS + 1) * (1 + pages_touched + data)
    pages = -(-entries // NVS_PAGE_ENTRIES) + 2  # a free one, and one for the rest
    return max(pages * SECTOR, NVS_LEAST_BYTES)


def app_offset(nvs: int) -> int:
    """Where the application lies behind an NVS partition of ``nvs`` bytes."""
    return -(-(NVS_OFFSET + nvs) // APP_ALIGNMENT) * APP_ALIGNMENT


def render_partitions(placement: Placement, flash_bytes: int) -> str:
    """partitions.csv: NVS sized for the saved states, then one application."""
    nvs = nvs_bytes(placement.memory.record_bytes)
    app = app_offset(nvs)
    return (
        "# Name, Type, SubType, Offset, Size\n"
        f"nvs, data, nvs, {NVS_OFFSET:#x}, {nvs:#x}\n"
        f"factory, app, factory, {app:#x}, {flash_bytes - app:#x}\n"
    )


def render_sdkconfig(board: Board, placement: Placement, partitions: Path) -> str:
    """The settings that depend on the board and the model."""
    flash_mb = (board.memory.flash_bytes or 0) // 2**20
    settings = [
        f"CONFIG_ESPTOOLPY_FLASHSIZE_{flash_mb}MB=y",
        f'CONFIG_PARTITION_TABLE_CUSTOM_FILENAME="{partitions.as_posix()}"',
        f"CONFIG_REFOLD_WINDOW={placement.window}",
        *_line(board),
    ]
    if placement.arena == "psram":
        settings.append("CONFIG_REFOLD_ARENA_IN_PSRAM=y")
    if placement.link == "psram":
        settings.append("CONFIG_REFOLD_LINK_IN_PSRAM=y")
    return "".join(f"{line}\n" for line in (*settings, *board.toolchain.sdkconfig))


def _line(board: Board) -> tuple[str, ...]:
    """The link on one serial line, the console on the other."""
    if board.link.wire == "usb-serial-jtag":
        return (
            "CONFIG_REFOLD_LINK_USB_SERIAL_JTAG=y",
            "CONFIG_ESP_CONSOLE_UART_DEFAULT=y",
        )
    return (
        "CONFIG_REFOLD_LINK_UART=y",
        f"CONFIG_REFOLD_BAUD={board.link.baud}",
        "CONFIG_ESP_CONSOLE_USB_SERIAL_JTAG=y",
    )


def render_header(placement: Placement, build_hash: str) -> str:
    """refold_build.h: the build's name, and the memory of every packed array."""
    hot = (f"#define REFOLD_PLACE_{name} DRAM_ATTR" for name in placement.hot)
    cold = (f"#define REFOLD_PLACE_{name}" for name in placement.cold)
    lines = (
        "/* Written by refold for one build of one model. */",
        '#include "esp_attr.h"',
        f'#define REFOLD_BUILD_HASH "{build_hash}"',
        f"#define REFOLD_HOT_BYTES {placement.hot_bytes}",
        "#define REFOLD_PLACE(array) REFOLD_PLACE_##array",
        *hot,
        *cold,
    )
    return "".join(f"{line}\n" for line in lines)


CMAKE_PROJECT = """\
cmake_minimum_required(VERSION 3.16)
include($ENV{IDF_PATH}/tools/cmake/project.cmake)
project(refold)
"""
"""The project that PlatformIO looks for beside platformio.ini."""


def render_platformio(
    board: Board, *, sources: Path, sdkconfig: Path, partitions: Path, cmake: str
) -> str:
    """platformio.ini of one build, for installations without a checkout.

    Args:
        board: Its toolchain names the environment and PlatformIO's board.
        sources: The port's component.
        sdkconfig: That ESP-IDF shall write and read.
        partitions: The partition table.
        cmake: Arguments of CMake, as a shell reads them.
    """
    return f"""\
[platformio]
src_dir = {sources.as_posix()}

[env:{board.toolchain.env}]
platform = {PLATFORM}
board = {board.toolchain.pio_board}
framework = espidf
board_build.partitions = {partitions.as_posix()}
board_build.esp-idf.sdkconfig_path = {sdkconfig.as_posix()}
board_build.cmake_extra_args = {cmake}
"""
