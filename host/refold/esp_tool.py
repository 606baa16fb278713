"""Finds what builds with ESP-IDF on this computer."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import Literal

from refold.errors import UserError

OLDEST_IDF = (5, 1)


@dataclass(frozen=True)
class Tool:
    """A program that builds, and how to call it."""

    kind: Literal["idf.py", "platformio"]
    command: tuple[str, ...]


def find_tool() -> Tool:
    """Return idf.py where a shell has ESP-IDF activated, else PlatformIO.

    Raises:
        UserError: Neither is installed, or ESP-IDF is too old.
    """
    idf = shutil.which("idf.py")
    if idf is not None:
        _check_version(idf)
        return Tool("idf.py", (idf,))
    pio = shutil.which("pio")
    if pio is not None:
        return Tool("platformio", (pio,))
    if importlib.util.find_spec("platformio") is not None:
        return Tool("platformio", (sys.executable, "-m", "platformio"))
    raise UserError(
        "an ESP32-S3's firmware is built by ESP-IDF, and there is neither idf.py nor "
        "pio on PATH; install PlatformIO, which downloads ESP-IDF at its first build "
        "(pip install 'refold[hw]'), or activate ESP-IDF 5.1 or later in this shell "
        "('. $IDF_PATH/export.sh')"
    )


def _check_version(idf: str) -> None:
    command = [idf, "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    match = re.search(r"v(\d+)\.(\d+)", said)
    if match is not None and (int(match[1]), int(match[2])) < OLDEST_IDF:
        raise UserError(
            f"{idf} belongs to ESP-IDF {match[0][1:]}, expected 5.1 or later; activate "
            "that in this shell ('. $IDF_PATH/export.sh')"
        )
