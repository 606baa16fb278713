"""A serial port behind RFC 2217, as ser2net and labgrid's exporter offer it."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
from types import TracebackType
from typing import Self

import serial
from serial.rfc2217 import PortManager

POLL_S = 0.05


class Rfc2217Server:
    """Context manager: a TCP port that stands for a board's.

    Hosts are served one after another; each opens the board's port anew.

    Args:
        board: URL of the board's port.

    Attributes:
        url: For the host.
        bauds: Rates that hosts asked for, in order.
    """

    def __init__(self, board: str) -> None:
        self._board = board
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ended = threading.Event()
        self._host: socket.socket | None = None
        self.url = f"rfc2217://127.0.0.1:{self._listener.getsockname()[1]}"
        self.bauds: list[int] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        for handle in filter(None, (self._listener, self._host)):
            with contextlib.suppress(OSError):  # closed already
                handle.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while not self._ended.is_set():
                self._host = self._listener.accept()[0]
                self._host.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with self._host, contextlib.suppress(OSError):
                    self._join(self._host)

    def _join(self, host: socket.socket) -> None:
        """Carry bytes both ways until the host goes."""
        with serial.serial_for_url(self._board) as port:
            manager = PortManager(port, _Connection(host))
            gone = threading.Event()
            back = threading.Thread(
                target=self._pump, args=(port, manager, host, gone), daemon=True
            )
            back.start()
            try:
                while data := host.recv(4096):
                    port.write(b"".join(manager.filter(data)))
                    if port.baudrate not in self.bauds[-1:]:
                        self.bauds.append(port.baudrate)
            finally:
                gone.set()
                back.join()

    def _pump(
        self,
        port: serial.SerialBase,
        manager: PortManager,
        host: socket.socket,
        gone: threading.Event,
    ) -> None:
        with contextlib.suppress(OSError):
            while not gone.is_set():
                # Not port.read: of a socket pyserial reads a byte at a time.
                if select.select([port], [], [], POLL_S)[0]:
                    data = os.read(port.fileno(), 4096)
                    if not data:
                        return
                    host.sendall(b"".join(manager.escape(data)))


class _Connection:
    """What the manager sends its own words through."""

    def __init__(self, host: socket.socket) -> None:
        self.write = host.sendall
