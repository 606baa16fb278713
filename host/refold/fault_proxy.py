"""A port in front of a board whose line has faults.

A test of a set-up with boards puts it there to see that a bad cable never becomes a
wrong result.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from refold.errors import UserError
from refold.faults import Disturbance, Fault
from refold.link import DEFAULT_BAUD
from refold.wire import Wire, open_wire, socket_wire

_WRITE_S = 10.0
"""Longest wait for one side to take what the other sent."""

_logger = logging.getLogger(__name__)

Plan = Sequence[Iterable[Fault]]
"""Faults of each connection, the first one's first; later ones have none."""


class Bridge:
    """Two wires that are joined until either ends.

    Args:
        host: The wire to the host; closed at the end, as the other.
        board: The wire to the board.
        to_board: What happens to the host's bytes.
        to_host: And to the board's.
    """

    def __init__(
        self, host: Wire, board: Wire, to_board: Disturbance, to_host: Disturbance
    ) -> None:
        self._host, self._board = host, board
        self._to_board, self._to_host = to_board, to_host
        self._ended = False

    def run(self) -> None:
        """Carry bytes both ways; return when one side is gone or :meth:`end` called."""
        arguments = (self._board, self._host, self._to_host)
        back = threading.Thread(target=self._pump, args=arguments, daemon=True)
        back.start()
        self._pump(self._host, self._board, self._to_board)
        back.join()
        self._board.close()  # first: who sees the end may go to the board at once
        self._host.close()

    def end(self) -> None:
        """Let :meth:`run` return soon."""
        self._ended = True
        for wire in (self._host, self._board):
            with contextlib.suppress(OSError):  # closed already
                wire.wake()

    def _pump(self, source: Wire, sink: Wire, disturbance: Disturbance) -> None:
        try:
            while not self._ended:
                for piece in disturbance.carry(source.read()):
                    sink.write(piece, _WRITE_S)
        except OSError as error:
            _logger.debug("connection ended: %s", error)
        finally:
            self.end()


class FaultProxy:
    """Context manager: a TCP port in front of a board.

    Hosts are served one after another, each over a connection of its own to the
    board, as if its cable had been plugged in again.

    Args:
        board: URL of its port.
        to_board: What happens to the hosts' bytes.
        to_host: And to the board's.
        baud: Of a serial port.

    Attributes:
        url: Port for the host.
    """

    def __init__(
        self,
        board: str,
        *,
        to_board: Plan = (),
        to_host: Plan = (),
        baud: int = DEFAULT_BAUD,
    ) -> None:
        self._board, self._baud = board, baud
        self._plans = (iter(to_board), iter(to_host))
        self._disturbances: list[Disturbance] = []
        self._stop = threading.Event()
        self._bridge: Bridge | None = None
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"socket://127.0.0.1:{self._listener.getsockname()[1]}"
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
        self._stop.set()
        with contextlib.suppress(OSError):  # refused where it is not yet listening
            self._listener.shutdown(socket.SHUT_RDWR)
        if self._bridge is not None:
            self._bridge.end()
        self._thread.join()
        self._listener.close()

    @property
    def faults(self) -> int:
        """Those that have happened."""
        return sum(disturbance.happened for disturbance in self._disturbances)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while not self._stop.is_set():
                self._join(self._listener.accept()[0])

    def _join(self, handle: socket.socket) -> None:
        directions = [
            Disturbance(next(plan, ()), self._stop.wait) for plan in self._plans
        ]
        self._disturbances += directions
        try:
            board = open_wire(self._board, baud=self._baud)
        except UserError as error:
            _logger.warning("%s", error)
            handle.close()
            return
        self._bridge = Bridge(socket_wire(handle), board, *directions)
        if self._stop.is_set():
            self._bridge.end()
        self._bridge.run()
