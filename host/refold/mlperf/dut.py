"""The device under test, as the public runner talks to it: text over a serial line.

No checksum and no sequence number guard a line, so that any disturbance ends the
session as an infrastructure failure.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

import serial

from refold.errors import InfraError, UserError, during
from refold.phase import Phase

BAUD, ENERGY_BAUD = 115200, 9600
LINE_S = 5.0
"""Longest wait for a line, and during ``infer``:"""
INFER_S = 30.0
BYTES_PER_COMMAND = 31
READY = "m-ready"
REMEDY = (
    "build firmware with CONFIG_REFOLD_PROTOCOL_MLPERF_TINY (docs/mlperf-tiny.md), "
    "flash it and name its --port"
)
ENERGY_REMEDY = (
    "build firmware with CONFIG_REFOLD_PIN_TIMESTAMP and CONFIG_REFOLD_BAUD=9600 "
    "(docs/mlperf-tiny.md) and flash it"
)
_LINE_BYTES = 65536


class Inference(NamedTuple):
    """Answer to one ``infer``: microseconds by the device's clock, and the vector."""

    elapsed_us: int
    results: tuple[float, ...]


class Dut:
    """A device that has been opened.

    Attributes:
        url: Of its port.
    """

    def __init__(self, port: serial.SerialBase, url: str) -> None:
        self.url = url
        self._port = port

    def command(self, text: str, *, line_s: float = LINE_S) -> list[str]:
        """Send one command; return the lines of its reply but ``m-ready``.

        Raises:
            InfraError: The port is gone, a line is late, or the device complains.
        """
        lines = self._exchange(text, line_s)
        for line in lines:
            if line.startswith("e-["):
                raise InfraError(
                    f"port {self.url}: the device answered '{_short(text)}' with "
                    f"{line}; restart it, and check that its firmware is of this model"
                )
        return lines

    def settle(self) -> None:
        """Drop answers to earlier commands: all before one of another kind.

        Raises:
            InfraError: The port is gone, or a line is late.
        """
        self._exchange("profile", LINE_S, until="m-profile-")

    def _exchange(self, text: str, line_s: float, *, until: str = "") -> list[str]:
        """Send a command; return the first reply that has a line of such a start."""
        try:
            self._port.write(f"{text}%".encode("ascii"))
            while True:
                lines = list(self._reply(text, line_s))
                if not until or any(line.startswith(until) for line in lines):
                    return lines
        except (OSError, serial.SerialException) as error:
            raise InfraError(
                f"port {self.url}: lost while '{_short(text)}' was answered ({error})",
                "check cable and power, then run again",
            ) from None

    def _reply(self, text: str, line_s: float) -> Iterator[str]:
        self._port.timeout = line_s
        while True:
            raw = self._port.read_until(b"\n", _LINE_BYTES)
            if not raw.endswith(b"\n"):
                raise InfraError(
                    f"port {self.url}: '{_short(text)}' had no whole answer within "
                    f"{line_s:g} s a line (got {raw[-40:]!r}); check that it runs at "
                    f"{self._port.baudrate} baud, or {REMEDY}"
                )
            line = raw.decode("ascii", "replace").strip("\r\n\0")
            if READY in line:
                return
            if line:
                yield line

    def ask(self, text: str, pattern: str) -> str:
        """Send a command; return the group of the line that matches ``pattern``.

        Raises:
            InfraError: No line does.
        """
        return self._find(text, pattern, self.command(text))

    def _find(self, text: str, pattern: str, lines: Sequence[str]) -> str:
        for line in lines:
            match = re.fullmatch(pattern, line)
            if match:
                return match[1]
        raise InfraError(
            f"port {self.url}: '{_short(text)}' was answered with {list(lines)!r}, "
            f"expected a line like {pattern}; restart the device, then run again"
        )

    def load(self, data: bytes) -> None:
        """Put an input into the device's buffer.

        Raises:
            InfraError: It is refused, or not acknowledged.
        """
        self.ask(f"db load {len(data)}", r"m-\[Expecting (\d+) bytes\]")
        for start in range(0, len(data), BYTES_PER_COMMAND):
            text = f"db {data[start : start + BYTES_PER_COMMAND].hex()}"
            lines = self.command(text)
        self._find(text, "m-load-(done)", lines)

    def infer(self, images: int, warmups: int = 0) -> Inference:
        """Run the loaded input ``images`` times after ``warmups``.

        Raises:
            InfraError: The reply is late or incomplete.
        """
        laps, results = self._infer(images, warmups)
        if len(laps) != 2 or laps[1] < laps[0]:
            raise InfraError(
                f"port {self.url}: 'infer {images} {warmups}' came with times {laps}, "
                "expected two that rise; firmware in energy mode gives none: build it "
                "for performance"
            )
        return Inference(laps[1] - laps[0], results)

    def infer_silently(self, images: int, warmups: int = 0) -> tuple[float, ...]:
        """Do so in energy mode, where a pin tells the time; return the results.

        Raises:
            InfraError: The reply is late or incomplete, or has times.
        """
        laps, results = self._infer(images, warmups)
        self._refuse_times(laps)
        return results

    def mark_time(self) -> None:
        """Have the device mark the time on its pin.

        Raises:
            InfraError: It prints the time: it is not in energy mode.
        """
        self._refuse_times(_laps(self.command("timestamp")))

    def _infer(
        self, images: int, warmups: int
    ) -> tuple[Sequence[int], tuple[float, ...]]:
        """Return the times and the results."""
        text = f"infer {images} {warmups}"
        lines = self.command(text, line_s=INFER_S)
        vector = self._find(text, r"m-results-\[([-+\d.e,]+)\]", lines)
        return _laps(lines), tuple(map(float, vector.split(",")))

    def _refuse_times(self, laps: Sequence[int]) -> None:
        if laps:
            raise InfraError(
                f"port {self.url}: the device prints times, which it does in "
                f"performance mode; {ENERGY_REMEDY}"
            )


def _laps(lines: Sequence[str]) -> list[int]:
    return [int(line[9:]) for line in lines if re.fullmatch(r"m-lap-us-\d+", line)]


def _short(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:17]}..."


@contextmanager
def open_dut(url: str, baud: int = BAUD) -> Iterator[Dut]:
    """Open a device path or a pyserial URL, and drop what came before.

    Args:
        url: Where the device is.
        baud: Of its line.

    Raises:
        UserError: It cannot be opened.
    """
    try:
        port = serial.serial_for_url(url, baudrate=baud, timeout=LINE_S)
    except (OSError, ValueError, serial.SerialException) as error:
        raise UserError(
            f"port {url} cannot be opened ({error}); connect the board, end what else "
            "uses it, or correct --port"
        ) from None
    with port:
        dut = Dut(port, url)
        with during(Phase.HELLO):
            _await_boot(dut, port)
        yield dut


def _await_boot(dut: Dut, port: serial.SerialBase) -> None:
    """Ask for the name until it is told: opening the port may reset the board.

    What the device announces at its start ends in ``m-ready``, too, so that the
    answer to the first question may be the announcement, and the name that ends the
    wait the answer to an earlier question than the last.
    """
    end = time.monotonic() + LINE_S
    while time.monotonic() < end:
        port.reset_input_buffer()
        with suppress(InfraError):
            lines = dut.command("name", line_s=LINE_S / 4)
            if any(line.startswith("m-name-dut-") for line in lines):
                break
    else:
        raise InfraError(
            f"port {dut.url}: no device of MLPerf Tiny answers within {LINE_S:g} s; "
            f"{REMEDY}"
        )
    dut.settle()
