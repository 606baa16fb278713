"""The first words of a chip that was just flashed, and why there may be none."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable

import serial

from refold.deadline import Deadline
from refold.device import Device, Patience
from refold.errors import InfraError, UserError, during
from refold.link import Link, open_link
from refold.phase import Phase
from refold.place import Place, port_now
from refold.protocol import Hello

ROM_BAUD = 115200
"""At which a chip's ROM speaks after a reset."""
LEAST_HELLO_S = 0.2
"""How long the firmware has to answer, however late its port appeared."""
RESET_S = 0.5
"""How long RESET is held: longer than esptool does, for slow reset circuits."""
BOOT_LOG_S = 1.5
"""How long the boot log is listened to."""
_SHOWN_CHARACTERS = 160

_DOWNLOAD = "waiting for download"
_REASONS = {
    _DOWNLOAD: (
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

_logger = logging.getLogger(__name__)


class Boot:
    """A chip that restarts with new firmware.

    A USB chip vanishes then and may come back under another name.

    Args:
        place: Where it is before.
        baud: Of the firmware's link.
        build_hash: What the firmware must report; None takes any.
        wait_s: Longest wait for it.
        deadline: Of all waits.
        leave_download: Restarts a chip at a port that stays in its bootloader.
    """

    def __init__(
        self,
        place: Place,
        baud: int,
        build_hash: str | None,
        *,
        wait_s: float,
        deadline: Deadline | None = None,
        leave_download: Callable[[str], None] = lambda _port: None,
    ) -> None:
        self._place = place
        self._baud = baud
        self._build_hash = build_hash
        self._wait_s = wait_s
        self._deadline = deadline or Deadline()
        self._leave_download = leave_download

    def await_hello(self) -> Hello:
        """Wait for the firmware; where it is silent, reset the chip and wait again.

        Raises:
            UserError: Other firmware answers.
            InfraError: None does; the message has what the boot log tells.
        """
        with during(Phase.HELLO):
            return self._await_hello()

    def _await_hello(self) -> Hello:
        hello = self._hello()
        if hello is not None:
            return hello
        said = boot_log(self._where())
        if _DOWNLOAD in said:
            self._leave_download(self._where())
        hello = self._hello()
        if hello is None:
            raise InfraError(
                f"port {self._where()}: the images were written and verified, but no "
                f"firmware answers: {_diagnosis(said)}"
            )
        return hello

    def _hello(self) -> Hello | None:
        """What the firmware says; None where it says nothing."""
        self._deadline.require()
        end = min(time.monotonic() + self._wait_s, self._deadline.at)
        with self._open(end) as link:
            device = Device(
                link,
                build_hash=self._build_hash,
                remedy="the images were written and verified, but the chip starts "
                "others: erase it with 'esptool erase-flash', then flash again",
                patience=Patience(hello_s=max(LEAST_HELLO_S, end - time.monotonic())),
            )
            try:
                return device.hello()
            except InfraError as error:
                _logger.info("%s", error)
                return None

    def _open(self, end: float) -> Link:
        while True:
            try:
                return open_link(self._where(), baud=self._baud)
            except UserError as error:
                if time.monotonic() > end:
                    raise InfraError(
                        f"{error} (it was there before the chip was flashed)"
                    ) from None
                time.sleep(0.1)

    def _where(self) -> str:
        """The port's name, which may have changed."""
        return port_now(self._place) or self._place.url


def boot_log(port: str) -> str:
    """Restart the chip by its reset line and return what its ROM says.

    Where the port has no such line, what is said anyway; empty where the port is gone.
    """
    try:
        with serial.serial_for_url(port, baudrate=ROM_BAUD, timeout=0.1) as line:
            with contextlib.suppress(OSError):  # ptys and some bridges have no lines
                line.dtr = False  # BOOT released
                line.rts = True  # RESET pressed
                time.sleep(RESET_S)
                line.rts = False
            end = time.monotonic() + BOOT_LOG_S
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
            f"the boot log ends with '{last}': a panic or a reset loop is the "
            "firmware's; else check that its link (UART or USB) is this port"
        )
    return (
        "the chip is silent: press RESET (EN) or power-cycle the board, check that "
        "the firmware's link (UART or USB) is this port, and try 'refold run'"
    )
