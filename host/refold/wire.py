"""Byte streams behind a port URL, and what can be wrong with opening one.

A wire reads and writes bytes and knows nothing of frames. Serial devices go
through pyserial, which knows every platform's settings; on POSIX the open file
is then used directly, because pyserial's own read and write wait for more than
they have to.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import serial
from serial.tools import list_ports

from refold.errors import UserError

CONNECT_S = 5.0
"""Longest wait for a socket to be accepted."""
_POLL_S = 0.1
"""How often a wire without a wake-up looks whether it is to close."""
_PSEUDO_TERMINALS = ("/dev/pts/", "/dev/ttys")
"""Where Linux and macOS have them."""
_READ_BYTES = 1 << 12
"""More at once gains nothing, and buffers cut to size scatter the heap."""


class Wire(Protocol):
    """A two-way byte stream; one thread reads, another writes."""

    def read(self) -> bytes:
        """Wait for bytes; nothing after :meth:`wake`, or now and then.

        Raises:
            OSError: The other end is gone.
        """

    def write(self, data: bytes, timeout_s: float) -> None:
        """Write all of ``data``.

        Raises:
            TimeoutError: The other end took too little of it.
            OSError: It is gone.
        """

    def wake(self) -> None:
        """Make a waiting :meth:`read` return."""

    def close(self) -> None:
        """Release the port; nobody may be reading."""


class SelectWire:
    """A socket, or a serial device or pty on POSIX."""

    def __init__(
        self,
        handle: Any,
        receive: Callable[[int], bytes],
        send: Callable[[memoryview], int],
    ) -> None:
        self._handle = handle
        self._receive = receive
        self._send = send
        self._waker, self._woken = socket.socketpair()

    def read(self) -> bytes:
        ready, _, _ = select.select([self._handle, self._woken], [], [])
        if self._handle not in ready:
            return b""
        data = self._receive(_READ_BYTES)
        if not data:
            raise ConnectionResetError(errno.ECONNRESET, "the other end closed it")
        return data

    def write(self, data: bytes, timeout_s: float) -> None:
        view = memoryview(data)
        end = time.monotonic() + timeout_s
        while view:
            try:
                view = view[self._send(view) :]
            except BlockingIOError:
                left = max(0.0, end - time.monotonic())
                if not select.select([], [self._handle], [], left)[1]:
                    raise TimeoutError(f"{len(view)} bytes not taken") from None

    def wake(self) -> None:
        self._waker.send(b"\0")

    def close(self) -> None:
        self._handle.close()
        self._waker.close()
        self._woken.close()


class SerialWire:
    """Any pyserial object: Windows ports and rfc2217.

    Args:
        port: Open, with a timeout of reading.
        times_writes: It takes one of writing, too; pyserial's RFC 2217 does not, and
            leaves that to its socket.
    """

    def __init__(self, port: serial.SerialBase, *, times_writes: bool = True) -> None:
        self._port = port
        self._times_writes = times_writes

    def read(self) -> bytes:
        return bytes(self._port.read(max(1, self._port.in_waiting)))

    def write(self, data: bytes, timeout_s: float) -> None:
        if self._times_writes:
            self._port.write_timeout = timeout_s
        try:
            self._port.write(data)
        except serial.SerialTimeoutException as error:
            raise TimeoutError(str(error)) from None

    def wake(self) -> None:
        """Nothing to do: :meth:`read` returns by itself."""

    def close(self) -> None:
        self._port.close()


def has_baud(url: str) -> bool:
    """Whether bytes come at a rate there: sockets and pseudo-terminals have none."""
    if "://" in url:
        return url.startswith("rfc2217://")
    return not os.path.realpath(url).startswith(_PSEUDO_TERMINALS)


def open_wire(url: str, *, baud: int) -> Wire:
    """Open a device path, a COM port, ``socket://`` or ``rfc2217://``.

    Raises:
        UserError: It does not exist, may not be opened or is in use.
    """
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme == "socket":
        return _open_socket(url)
    if scheme == "rfc2217":
        return _open_remote(url, baud)
    if scheme:
        raise UserError(
            f"port {url}: unknown scheme '{scheme}'; expected a device path, a COM "
            "port, socket://HOST:PORT or rfc2217://HOST:PORT"
        )
    return _open_serial(url, baud)


def _open_socket(url: str) -> Wire:
    host, port = _address(url)
    try:
        handle = socket.create_connection((host, port), timeout=CONNECT_S)
    except OSError as error:
        raise UserError(
            f"port {url}: nothing answers there ({error}); start the board or its "
            "bridge, or correct --port"
        ) from None
    return socket_wire(handle)


def socket_wire(handle: socket.socket) -> SelectWire:
    """Return the wire over a connection, which it owns from now on."""
    handle.setblocking(False)
    handle.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return SelectWire(handle, handle.recv, handle.send)


def _address(url: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        if parts.hostname and parts.port:
            return parts.hostname, parts.port
    except ValueError:
        pass
    raise UserError(
        f"port {url}: expected socket://HOST:PORT, such as :4000 at the end"
    )


def _open_remote(url: str, baud: int) -> Wire:
    try:
        port = serial.serial_for_url(url, baudrate=baud, timeout=_POLL_S)
        return SerialWire(port, times_writes=False)
    except (serial.SerialException, ValueError) as error:
        raise UserError(
            f"port {url}: cannot be opened ({error}); check that the RFC 2217 server "
            "runs and that nobody else is connected"
        ) from None


def _open_serial(path: str, baud: int) -> Wire:
    port = serial.Serial(baudrate=baud, timeout=_POLL_S, exclusive=True)
    port.port = path
    # Both lines as the system sets them on opening: equal lines reset no board.
    port.dtr = True
    port.rts = True
    try:
        port.open()
    except (serial.SerialException, ValueError) as error:
        raise UserError(_explain(path, error)) from None
    if os.name != "posix":
        return SerialWire(port)
    return SelectWire(port, partial(os.read, port.fd), partial(os.write, port.fd))


# --- why a serial port does not open -------------------------------------------


def _explain(path: str, error: Exception) -> str:
    code = getattr(error, "errno", None)
    if code == errno.ENOENT or "FileNotFoundError" in str(error):
        return _missing(path)
    if code == errno.EACCES and os.name == "posix":
        return f"port {path}: {forbidden(path)}"
    busy = code in (errno.EBUSY, errno.EAGAIN, errno.EACCES)
    if busy or "exclusively" in str(error) or "PermissionError" in str(error):
        holders = ", ".join(_holders(path)) or "another program"
        return f"port {path} is in use by {holders}; end that and try again"
    return f"port {path} is no serial port ({error}); correct --port"


def _missing(path: str) -> str:
    found = ", ".join(port.device for port in list_ports.comports()) or "none"
    return (
        f"port {path} does not exist; serial ports on this computer: {found}; "
        "connect the board, or correct --port"
    )


def forbidden(path: str) -> str:
    """Say who may use a device, and how to become one of them."""
    group = Path(path).group()
    if group == "root":
        return (
            "permission denied, and only root may use it; install the udev rules "
            "(docs/ci/70-refold.rules) and plug it in again"
        )
    return f"permission denied; it belongs to group {group}: {joining(group)}"


def joining(group: str) -> str:
    """Say how one becomes a member of a group."""
    return f"run 'sudo usermod -aG {group} $USER', log out and in, and try again"


def _holders(path: str) -> list[str]:
    """Processes that have ``path`` open, where /proc tells."""
    target = os.path.realpath(path)
    holders = []
    for process in Path("/proc").glob("[0-9]*"):
        if int(process.name) != os.getpid() and _has_open(process, target):
            name = (process / "comm").read_text().strip()
            holders.append(f"process {process.name} ({name})")
    return holders


def _has_open(process: Path, target: str) -> bool:
    try:
        return any(str(fd.readlink()) == target for fd in (process / "fd").iterdir())
    except OSError:  # ended meanwhile, or another user's
        return False
