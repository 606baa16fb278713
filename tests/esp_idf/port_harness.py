"""The port to ESP-IDF as a process: the port's own code over a stub of ESP-IDF."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cbuild import ROOT

from refold.boards import Board, LinkSpec, Toolchain
from refold.build import Build

PORT = ROOT / "firmware/ports/esp_idf/main"
STUBS = ROOT / "tests/esp_idf_stubs"
NATIVE = ROOT / "firmware/ports/native"
INCLUDES = (STUBS / "include", NATIVE, ROOT / "firmware/src")
BUILD_HASH = "0123456789abcdef"
DEFINES = ("-DREFOLD_ESP32S3",)
PSRAM = ("-DCONFIG_REFOLD_ARENA_IN_PSRAM=1", "-DCONFIG_REFOLD_LINK_IN_PSRAM=1")
WIRES = ("wire_uart", "wire_usb")
COMMON = ("main", "pins", "serve_mlperf", "starts", "storage", "state_slots")

BOARD = Board(
    id="esp-idf-stub",
    chip="esp32s3",
    description="",
    port="esp_idf",
    toolchain=Toolchain(kind="host"),
    link=LinkSpec(kind="spawn"),
)

MakeFirmware = Callable[..., Build]


def port_sources(wire: str) -> list[Path]:
    """The port's C files with one of the two serial lines."""
    return [PORT / f"{name}.c" for name in (*COMMON, wire)]
