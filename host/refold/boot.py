"""The first words of a chip that was just flashed, and why there may be none."""

from __future__ import annotations

import time

import serial

from refold.device import Device
from refold.errors import InfraError, UserError
from refold.link import Link, open_link
from refold.protocol import Hello

ROM_BAUD = 115200
"""At which a chip's ROM speaks after a reset."""
BOOT_LOG_S = 2.0
"""How long to listen to it."""
_SHOWN_CHARACTERS = 160

_REASONS = {
    "waiting for download": (
        "the chip stays in download mode: release BOOT (GPIO0 must not be held low), "
        "press RESET (EN) or power-cycle the board, and go on with 'refold run'"
    ),
    "invalid header": (
        "its ROM finds no bootloader in flash: the images or their offsets are wrong; "
        "build again with 'refold build', then flash again"
    ),
    "No bootable app": (
        "its bootloader finds no program: the app's image or its offset is wrong; "
        "build again with 'refold build', then flash again"
    ),
}


def await_hello(port: str, baud: int, build_hash: str | None, wait_s: float) -> Hello:
    """Wait for the firmware that was just written.

    Args:
        port: Where the chip is; it may be gone for a moment, as USB chips are when
            they restart.
        baud: Of the firmware's link.
        build_hash: What it must report; None takes any.
        wait_s: Longest wait.

    Raises:
        UserError: Other firmware answers.
        InfraError: None does; the message has what the chip's boot log tells.
    """
    end = time.monotonic() + wait_s
    try:
        with _open(port, baud, end) as link:
            return Device(
                link,
                build_hash=build_hash,
                remedy="the images were written and verified, but the chip starts "
                "others: erase it with 'esptool erase-flash', then flash again",
                hello_s=max(1.0, end - time.monotonic()),
            ).hello()
    except InfraError as error:
        reason = _diagnosis(boot_log(port))
        raise InfraError(
            f"{error.found}; the images were written and verified, but {reason}"
        ) from None


def _open(port: str, baud: int, end: float) -> Link:
    while True:
        try:
            return open_link(port, baud=baud)
        except UserError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def boot_log(port: str, *, seconds: float = BOOT_LOG_S) -> str:
    """Restart the chip by its reset line and return what its ROM says.

    Where the port has no such line, what is said anyway; empty where the port is gone.
    """
    try:
        with serial.serial_for_url(port, baudrate=ROM_BAUD, timeout=0.1) as line:
            line.dtr = False  # BOOT released
            line.rts = True  # RESET pressed
            time.sleep(0.1)
            line.rts = False
            end = time.monotonic() + seconds
            said = b""
            while time.monotonic() < end:
                said += line.read(256)
    except (OSError, ValueError):
        return ""
    return said.decode("ascii", "replace")


def _diagnosis(said: str) -> str:
    """What to do about a chip that starts with these words."""
    for words, reason in _REASONS.items():
        if words in said:
            return reason
    last = " ".join(said.split())[-_SHOWN_CHARACTERS:]
    if last:
        return (
            f"the firmware does not answer; the boot log ends with '{last}': a panic "
            "or a reset loop is the firmware's; else check that its link is this port"
        )
    return (
        "the chip is silent: press RESET (EN) or power-cycle the board, check that "
        "the firmware's link (UART or USB) is this port, and try 'refold run'"
    )
