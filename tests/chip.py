"""A chip behind one TCP port, for the tests of flashing, with faults on its line.

Its bootloader is esp32-mock-bootloader in a process of its own, its firmware a
:class:`VirtualDevice`. The first byte that the host sends tells which of the two it
talks to: esptool's frames begin with 0xC0, refold's with their delimiter.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal, Self

import pytest
from virtual_device import VirtualDevice

from refold.errors import UserError
from refold.fault_proxy import Bridge
from refold.faults import Disturbance, Fault
from refold.wire import open_wire, socket_wire

START_S = 20.0
QUIET_S = 0.3
"""A host that says nothing for so long has come to listen."""


Disturbed = tuple[Literal["chip", "host"], Fault]
"""Whose bytes have a fault, and which."""


@dataclass
class Chip:
    """Context manager: the port.

    Attributes:
        bootloader_port: TCP port of the mock.
        firmware: What runs after a reset; None: nothing answers.
        faults: One a connection to the bootloader, in order; then there are none.
        always: Instead, on every one of them.
        fastest: Baud rate above which the line damages what the chip is sent.
        awake_after: Connections to the bootloader before the firmware answers.
        boot_log: Said to whoever listens without a word.
        connections: To the bootloader so far.
    """

    bootloader_port: str
    firmware: VirtualDevice | None = None
    faults: Sequence[Disturbed] = ()
    always: Disturbed | None = None
    fastest: int = 10**7
    awake_after: int = 0
    boot_log: bytes = b""
    connections: int = 0
    _threads: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"socket://127.0.0.1:{self._listener.getsockname()[1]}"
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(START_S)

    def _start(self, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self._start(self._serve, self._listener.accept()[0])

    def _serve(self, host: socket.socket) -> None:
        with host, contextlib.suppress(OSError, UserError):
            first = self._first_word(host)
            if first.startswith(b"\xc0"):
                number = self.connections
                self.connections += 1
                planned = self.faults[number : number + 1] or (self.always,)
                self._join(host, self.bootloader_port, planned[0])
            elif first and self.firmware and self.connections >= self.awake_after:
                port = self.firmware.url.rpartition(":")[2]
                self._join(host, port, None)
            elif first:
                while host.recv(4096):
                    pass

    def _first_word(self, host: socket.socket) -> bytes:
        host.settimeout(QUIET_S)
        try:
            return host.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            host.sendall(self.boot_log)
        finally:
            host.settimeout(None)
        return host.recv(1, socket.MSG_PEEK)

    def _join(
        self, host: socket.socket, port: str, disturbed: Disturbed | None
    ) -> None:
        """Carry bytes both ways until either side ends."""
        side, *faults = disturbed or ("host",)
        to_chip = _Line(faults if side == "chip" else (), self.fastest)
        to_host = Disturbance(faults if side == "host" else ())
        chip = open_wire(f"socket://127.0.0.1:{port}", baud=115200)
        Bridge(socket_wire(host), chip, to_chip, to_host).run()


class _Line(Disturbance):
    """Towards the chip, where a rate may be too fast."""

    def __init__(self, faults: Iterable[Fault], fastest: int) -> None:
        super().__init__(faults)
        self._fastest, self._baud = fastest, 0

    def carry(self, data: bytes) -> Iterator[bytes]:
        yield from map(self._at_this_rate, super().carry(data))

    def _at_this_rate(self, data: bytes) -> bytes:
        damaged = bytearray(data)
        if self._baud > self._fastest:
            damaged[::50] = (byte ^ 1 for byte in damaged[::50])
        for rate in CHANGE_BAUD.findall(data):
            self._baud = int.from_bytes(rate, "little")
        return bytes(damaged)


CHANGE_BAUD = re.compile(rb"\xc0\x00\x0f\x08\x00....(....)", re.DOTALL)
"""The command, with the new rate."""

BLOCK = 64
"""Most bytes that the ROM reads from its flash at once."""


def read_flash(bootloader_port: str, offset: int, size: int) -> bytes:
    """Return what lies in the mock's flash, in the ROM's own words.

    Source: Espressif, esptool documentation, "Serial Protocol".
    """
    content = b""
    with socket.create_connection(("127.0.0.1", bootloader_port)) as rom:
        answers = rom.makefile("rb")
        for at in range(offset, offset + size, BLOCK):
            request = struct.pack("<BBHIII", 0, 0x0E, 8, 0, at, BLOCK)
            rom.sendall(b"\xc0" + _escaped(request) + b"\xc0")
            content += _frame(answers)[8 : 8 + BLOCK]
    return content[:size]


def _escaped(data: bytes) -> bytes:
    return data.replace(b"\xdb", b"\xdb\xdd").replace(b"\xc0", b"\xdb\xdc")


def _frame(answers: BinaryIO) -> bytes:
    assert b"\xc0" == answers.read(1)
    data = b""
    while (byte := answers.read(1)) != b"\xc0":
        assert byte, "the bootloader is gone"
        data += byte
    return data.replace(b"\xdb\xdc", b"\xc0").replace(b"\xdb\xdd", b"\xdb")


@contextlib.contextmanager
def bootloader(
    folder: Path, *, chip: str = "esp32s3", pty: bool = False
) -> Iterator[str]:
    """Run a fresh mock bootloader; yield its TCP port, or the path of its pty."""
    if importlib.util.find_spec("esp32_mock_bootloader") is None:
        words = "no esp32-mock-bootloader (the test extra brings it)"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    named = folder / "port"
    way = ("--pty",) if pty else ("--port", "0")
    arguments = ("--chip", chip, *way, "--port-file", str(named))
    process = subprocess.Popen(
        [sys.executable, "-m", "esp32_mock_bootloader.cli", "run", *arguments],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "ESP32_MOCK_BOOTLOADER_STATE_DIR": str(folder / "state")},
    )
    try:
        end = time.monotonic() + START_S
        while not (named.is_file() and named.read_text()):
            assert process.poll() is None, "the mock bootloader ended"
            assert time.monotonic() < end, "the mock bootloader names no port"
            time.sleep(0.02)
        yield named.read_text()
    finally:
        process.kill()
        process.wait()
