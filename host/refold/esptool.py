"""Espressif's esptool, run as a process of its own, and what its failures mean.

esptool compares each image's MD5 with that of the chip's flash before it writes,
and again after: what it leaves out is there, and what it reports written arrived.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path
from typing import IO, cast

from refold.errors import UserError

OLDEST = (5, 2)
"""The first esptool that leaves out what is in flash already."""
BEFORE = 6
"""The major version that may have changed what is relied on here."""

RESET_S = 20.0
"""Longest that a reset by watchdog may take."""
MAC_S = 30.0
"""Longest that asking for a MAC may take, the chip's restarts included."""

_logger = logging.getLogger(__name__)


class Kind(Enum):
    """What helps against a failure."""

    USER = "another command"
    CONNECT = "the chip in its bootloader"
    TRANSFER = "a better line, or a slower one"


class EsptoolError(Exception):
    """One run of esptool failed."""

    def __init__(self, kind: Kind, found: str, remedy: str) -> None:
        super().__init__(found)
        self.kind = kind
        self.found = found
        self.remedy = remedy


@dataclass(frozen=True)
class _Reason:
    """A failure that is recognised in esptool's words."""

    words: re.Pattern[str]
    kind: Kind
    found: str
    remedy: str


_BOOT = (
    "hold BOOT, press and release RESET (EN), release BOOT, and flash again; check "
    "that the cable carries data and that this is the board's port"
)
_LINE = "use a short cable at a port of the computer itself, and a good power supply"
_REASONS = tuple(
    _Reason(re.compile(words, re.DOTALL), kind, found, remedy)
    for words, kind, found, remedy in (
        (
            r"This chip is (\S+), not (\S+)\. Wrong",
            Kind.USER,
            r"the chip is an \1, the images are for an \2",
            "connect the right board, or correct --board",
        ),
        (
            r"'[^'\n]*' (?:is not an \S+ image|requires chip revision[^\n]*)",
            Kind.USER,
            r"an image does not suit this chip: \g<0>",
            "build the firmware for this board",
        ),
        (
            r"error occurred: ([^\n]*(?:Secure Boot|[Ee]ncrypt)[^\n]*)",
            Kind.USER,
            r"the chip's security settings forbid it (\1)",
            "flash such a chip with the tools that set it up",
        ),
        (
            r"Detected overlap|will not fit in \d+ bytes",
            Kind.USER,
            r"the images do not fit into the flash, or into each other (\g<0>)",
            "correct their offsets, or the board's flash size",
        ),
        (
            r"No serial data received",
            Kind.CONNECT,
            "the chip does not answer: no serial data received",
            _BOOT,
        ),
        (
            r"Wrong boot mode detected|TX path seems to be down|Failed to connect to",
            Kind.CONNECT,
            r"the chip does not enter its bootloader (\g<0>)",
            _BOOT,
        ),
        (
            r"Could not open (\S+), the port is busy.*?\((.*?)\)\n",
            Kind.CONNECT,
            r"the port cannot be opened (\2)",
            "end what else uses the port, and check the cable",
        ),
    )
)


@dataclass(frozen=True)
class Written:
    """What esptool did.

    Attributes:
        written: Images that were written and verified.
        unchanged: Images that were in flash already.
        mac: Address of the chip, which tells boards apart.
    """

    written: int
    unchanged: int
    mac: str


def check_installed() -> None:
    """Raise where esptool is missing or of a version that is not known to work.

    Raises:
        UserError: So; the message has the command that installs it.
    """
    wanted = f"esptool>={'.'.join(map(str, OLDEST))},<{BEFORE}"
    try:
        found = metadata.version("esptool")
    except metadata.PackageNotFoundError:
        found = ""
    numbers = tuple(int(n) for n in re.findall(r"\d+", found)[:2])
    if not OLDEST <= numbers < (BEFORE,):
        raise UserError(
            f"esptool {found or 'is not installed'}: flashing needs {wanted}; run "
            "pip install 'refold[hw]'"
        )


def write(
    images: Mapping[int, Path],
    port: str,
    *,
    chip: str,
    baud: int,
    timeout_s: float,
    progress: Callable[[str], None],
) -> Written:
    """Write the images that differ from the flash, verify them, restart the chip.

    Args:
        images: Files by their offset.
        port: Device path, COM port, ``socket://`` or ``rfc2217://``.
        chip: As esptool spells it; another that answers is refused.
        baud: For the images; the connection is always made at 115200.
        timeout_s: For all of it.
        progress: Told what is happening.

    Raises:
        EsptoolError: It failed; images may be written in part.
    """
    options = ("--chip", chip, "--port", port, "--baud", str(baud))
    files = [part for at, file in images.items() for part in (f"{at:#x}", str(file))]
    command = [sys.executable, "-m", "esptool", *options]
    command += ["write-flash", "--skip-flashed", *files]
    code, output = _call(command, timeout_s, progress)
    unchanged = output.count("already in flash, skipping write")
    verified = output.count("Hash of data verified")
    if code is None:
        raise EsptoolError(Kind.TRANSFER, f"no end after {timeout_s:.0f} s", _LINE)
    # Its exit code alone would do, but a false "ok" costs more than this.
    if code != 0 or unchanged + verified != len(images):
        raise _explain(code, output)
    return Written(verified, unchanged, _mac(output) or "unknown")


def read_mac(port: str) -> str:
    """Return the chip's MAC in lower case; it is restarted for that.

    Args:
        port: Device path, COM port, ``socket://`` or ``rfc2217://``.

    Raises:
        EsptoolError: It does not answer.
    """
    command = [sys.executable, "-m", "esptool", "--port", port]
    code, output = _call([*command, "read-mac"], MAC_S, _logger.debug)
    if code is None:
        raise EsptoolError(Kind.CONNECT, f"no MAC after {MAC_S:.0f} s", _BOOT)
    mac = _mac(output)
    if code != 0 or mac is None:
        raise _explain(code, output)
    return mac


def _mac(output: str) -> str | None:
    found = re.search(r"^MAC:\s*(\S+)", output, re.MULTILINE)
    return found[1].lower() if found else None


def reset_by_watchdog(port: str, *, chip: str) -> None:
    """Restart a chip that is in its bootloader, where its reset line does not help."""
    options = ("--chip", chip, "--port", port, "--no-stub", "--before", "no-reset")
    command = [sys.executable, "-m", "esptool", *options]
    _call([*command, "--after", "watchdog-reset", "read-mac"], RESET_S, _logger.debug)


def _call(
    command: Sequence[str], timeout_s: float, progress: Callable[[str], None]
) -> tuple[int | None, str]:
    """Return exit code and output; the code is None where it had to be ended."""
    _logger.debug("%s", shlex.join(command))
    lines, late = [], threading.Event()
    with _running(command) as child:

        def end() -> None:
            late.set()
            child.kill()

        timer = threading.Timer(timeout_s, end)
        timer.start()
        try:
            for line in cast("IO[str]", child.stdout):
                _logger.debug("esptool: %s", line.rstrip())
                lines.append(line)
                progress(_short(line))
            code = child.wait()
        finally:
            timer.cancel()
    return None if late.is_set() else code, "".join(lines)


@contextlib.contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that does not outlive the context, however that ends."""
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        env={**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"},
    )
    with child:
        try:
            yield child
        finally:
            child.kill()


def _short(line: str) -> str:
    """One of esptool's lines without the bar it draws."""
    return " ".join(re.sub(r"\s*━+\s*", " ", line).split())


def _explain(code: int, output: str) -> EsptoolError:
    for reason in _REASONS:
        match = reason.words.search(output)
        if match:
            return EsptoolError(reason.kind, match.expand(reason.found), reason.remedy)
    errors = re.findall(r"error occurred: (.+)", output)
    said = errors[-1:] or output.strip().splitlines()[-1:] or [f"exit code {code}"]
    words = re.sub(r"[.\s]*(This can have many|For trouble)[^)]*", "", said[0])
    return EsptoolError(Kind.TRANSFER, words.strip(". "), _LINE)
