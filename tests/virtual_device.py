"""A device in Python for the host's tests: it follows the protocol, or a script.

It speaks over a pty or a TCP socket from its own thread. Faults are functions:
``incoming`` and ``outgoing`` see each frame's wire bytes with its number and
return what arrives instead, so a test drops, damages or repeats what it likes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import select
import socket
import struct
import termios
import threading
import tty
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from refold.facts import ABI, CHUNK_BYTES, ResetReason, Status
from refold.protocol import DELIMITER, Frame, decode, encode

BUILD = bytes(range(8))
MODEL = bytes(range(32))
Fault = Callable[[int, bytes], bytes]


def intact(_number: int, wire: bytes) -> bytes:
    """No fault."""
    return wire


@dataclass
class Script:
    """How the device behaves.

    Attributes:
        window: Credits it announces.
        input_bytes: Of one image.
        outputs: Logits of one image.
        logits_per_frame: Result frames carry at most so many.
        answers: False: it hears and stays silent.
        greeting: Bytes it sends before anything else.
        instead: Bytes with which it answers everything, frames never.
        die_after: Results after which it vanishes.
        refuse: Status with which it acknowledges.
        times: Of its layers, in half microseconds; none: it keeps none.
        restarts: Numbers of results after each of which it restarts once.
        counts_starts: Its boot count grows with them, as that of a chip whose power
            stays does.
        reason: Of these restarts.
        last_words: What it says when it restarts, outside frames.
        learns: Its state changes with every image, and a restart forgets it.
    """

    window: int = 4
    input_bytes: int = 3000
    outputs: int = 10
    logits_per_frame: int = 500
    answers: bool = True
    greeting: bytes = b""
    instead: bytes = b""
    die_after: int | None = None
    refuse: Status = Status.OK
    build_hash: bytes = BUILD
    abi: int = ABI
    incoming: Fault = intact
    outgoing: Fault = intact
    state: bytes = bytes(5000)
    times: tuple[int, ...] = ()
    restarts: tuple[int, ...] = ()
    counts_starts: bool = True
    reason: ResetReason = ResetReason.PANIC
    last_words: bytes = b""
    learns: bool = False


def expected_logits(image: bytes, outputs: int) -> list[int]:
    """What the device answers: numbers that depend on the image and the place."""
    total = sum(image)
    return [total * (place + 1) % 100_003 - 50_000 for place in range(outputs)]


@dataclass
class _Session:
    number: int | None = None
    next: int = 0
    buffers: dict[int, bytearray] = field(default_factory=dict)
    results: dict[int, list[bytes]] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)


class VirtualDevice:
    """Context manager: a running device.

    Args:
        script: How it behaves.
        tcp: It is behind a socket; else behind a pty.
        hosts: One after another; of a pty they are not told apart.

    Attributes:
        url: Port on which it is reached.
        ran: Numbers of the images it ran, in the order it ran them.
        heard: Names of the frames that reached it.
        state: Adaptation state, now.
        boot_count, reset_reason: As in its Hello, now.
        configured: Fields of each CONFIGURE that began a stream.
    """

    def __init__(
        self, script: Script | None = None, *, tcp: bool = False, hosts: int = 1
    ) -> None:
        self.script = script or Script()
        self.ran: list[int] = []
        self.heard: list[str] = []
        self.configured: list[tuple[object, ...]] = []
        self.state = self.script.state
        self.boot_count, self.reset_reason = 7, ResetReason.POWER_ON
        self._restarts = list(self.script.restarts)
        self._incoming_state = b""
        self._session = _Session()
        self._received = self._sent = 0
        self._hosts = hosts
        self._pipe: _Pty | _Tcp = _Tcp() if tcp else _Pty()
        self.url = self._pipe.url
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
        self._pipe.stop()
        self._thread.join()
        self._pipe.close()

    @property
    def baud(self) -> int:
        """The rate that the host has set on a pty."""
        assert isinstance(self._pipe, _Pty)
        speed = termios.tcgetattr(self._pipe.master)[_OSPEED]
        names = (name for name in dir(termios) if re.fullmatch(r"B\d+", name))
        return next(int(n[1:]) for n in names if getattr(termios, n) == speed)

    # --- frames in and out -----------------------------------------------------

    def _serve(self) -> None:
        try:
            for _ in range(1, self._hosts):
                with contextlib.suppress(OSError):  # a host that is cut off
                    self._serve_host()
            self._serve_host()
        except (OSError, EOFError):
            self._pipe.close()

    def _serve_host(self) -> None:
        self._pipe.connect()
        self._pipe.write(self.script.greeting)
        tail = b""
        while data := self._pipe.read():
            *chunks, tail = (tail + data).split(DELIMITER)
            for chunk in filter(None, chunks):
                self._receive(chunk)

    def _receive(self, chunk: bytes) -> None:
        self._received += 1
        arrived = self.script.incoming(self._received, chunk + DELIMITER)
        for part in filter(None, arrived.split(DELIMITER)):
            try:
                frame = decode(part)
            except ValueError:
                continue
            self.heard.append(frame.name)
            if self.script.instead:
                self._pipe.write(self.script.instead)
            elif self.script.answers:
                getattr(self, f"_on_{frame.name}")(frame)

    def _send(self, wire: bytes) -> None:
        self._sent += 1
        self._pipe.write(self.script.outgoing(self._sent, wire))

    def _acknowledge(self, frame: Frame, status: Status = Status.OK) -> None:
        self._send(encode("ack", frame.sequence, status or self.script.refuse))

    # --- what it does with each frame --------------------------------------------

    def _on_hello_request(self, frame: Frame) -> None:
        script = self.script
        sizes = (script.input_bytes, script.outputs, 3, 2, script.window, 8192)
        values = (script.abi, script.build_hash, MODEL, b"virtual")
        start = (self.reset_reason, self.boot_count)
        memory = (1000, len(self.state), 0, 0, 0, 0, 0)
        self._send(encode("hello", frame.sequence, *values, *start, *sizes, *memory))

    def _on_profile_request(self, frame: Frame) -> None:
        times, first = self.script.times, frame.values[0]
        part = times[first : first + CHUNK_BYTES // 4]
        values = (0, 2 if times else 0, sum(times), len(times), first)
        rest = struct.pack(f"<{len(part)}I", *part)
        self._send(encode("profile", frame.sequence, *values, rest=rest))

    def _on_configure(self, frame: Frame) -> None:
        if self._session.number != frame.values[0]:
            self._session = _Session(number=frame.values[0])
            self.configured.append(frame.values)
            if not frame.values[1]:
                self.state = self.script.state
        self._acknowledge(frame)

    def _on_input(self, frame: Frame) -> None:
        stream, index, offset = frame.values
        session = self._session
        in_window = session.next <= index < session.next + self.script.window
        if stream != session.number:
            self._acknowledge(frame, Status.ERROR_STREAM)
        if stream != session.number or not in_window:
            return
        buffer = session.buffers.setdefault(index, bytearray())
        if offset == len(buffer):
            buffer += frame.rest
            session.asked.discard(index)
        elif offset > len(buffer) and index not in session.asked:
            session.asked.add(index)
            self._send(encode("need", frame.sequence, stream, index, len(buffer)))
        self._run_ready()

    def _run_ready(self) -> None:
        session = self._session
        while len(session.buffers.get(session.next, b"")) == self.script.input_bytes:
            if len(self.ran) == self.script.die_after:
                raise EOFError
            image = bytes(session.buffers.pop(session.next))
            session.results[session.next] = self._result(session.next, image)
            session.results.pop(session.next - 2 * self.script.window, None)
            self.ran.append(session.next)
            for wire in session.results[session.next]:
                self._send(wire)
            session.next += 1
            if self.script.learns:
                self.state = hashlib.sha512(self.state + image).digest()
            if self._restarts and len(self.ran) == self._restarts[0]:
                self._restart()
                return

    def _restart(self) -> None:
        self._restarts.pop(0)
        self._session = _Session()
        self.state, self.reset_reason = self.script.state, self.script.reason
        self.boot_count += self.script.counts_starts
        self._pipe.write(self.script.last_words)

    def _result(self, index: int, image: bytes) -> list[bytes]:
        logits = expected_logits(image, self.script.outputs)
        step = self.script.logits_per_frame
        return [
            encode(
                "result",
                0,
                *(self._session.number, index, 500, 20, 7, 0.25, 1, 255, 1, start),
                rest=b"".join(
                    value.to_bytes(4, "little", signed=True)
                    for value in logits[start : start + step]
                ),
            )
            for start in range(0, len(logits), step)
        ]

    def _on_result_request(self, frame: Frame) -> None:
        stream, index = frame.values
        if stream != self._session.number:
            self._acknowledge(frame, Status.ERROR_STREAM)
        elif index in self._session.results:
            for wire in self._session.results[index]:
                self._send(wire)
        else:
            have = len(self._session.buffers.get(index, b""))
            self._send(encode("need", frame.sequence, stream, index, have))

    def _on_state_read(self, frame: Frame) -> None:
        offset, length = frame.values
        chunk = self.state[offset : offset + min(length, CHUNK_BYTES)]
        self._send(encode("state", frame.sequence, len(self.state), offset, rest=chunk))

    def _on_state_write(self, frame: Frame) -> None:
        total, offset = frame.values
        if offset == 0:
            self._incoming_state = b""
        if offset == len(self._incoming_state):
            self._incoming_state += frame.rest
        if len(self._incoming_state) == total:
            self.state = self._incoming_state
        self._acknowledge(frame)


# --- transports --------------------------------------------------------------------


_OSPEED = 5
"""Index of the rate in a terminal's attributes."""


class _Pty:
    """The master side; the slave stays open so that a host may come and go."""

    def __init__(self) -> None:
        self.master, self._slave = os.openpty()
        tty.setraw(self._slave)
        os.set_blocking(self.master, False)
        self.url = os.ttyname(self._slave)
        self._stopped, self._stop = os.pipe()

    def connect(self) -> None:
        """A pty needs no connection."""

    def read(self) -> bytes:
        ready, _, _ = select.select([self.master, self._stopped], [], [])
        return b"" if self._stopped in ready else os.read(self.master, 65536)

    def write(self, data: bytes) -> None:
        """Nobody may be reading: a full pty must not outlast the test."""
        while data:
            _, ready, _ = select.select([], [self.master], [], 0.05)
            if ready:
                data = data[os.write(self.master, data) :]
            elif select.select([self._stopped], [], [], 0)[0]:
                raise EOFError

    def stop(self) -> None:
        os.write(self._stop, b"x")

    def close(self) -> None:
        _close_all([self.master, self._slave])
        self.master = self._slave = -1


class _Tcp:
    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"socket://127.0.0.1:{self._listener.getsockname()[1]}"
        self._socket: socket.socket | None = None
        self._stopped, self._stop = os.pipe()

    def connect(self) -> None:
        ready, _, _ = select.select([self._listener, self._stopped], [], [])
        if self._stopped in ready:
            raise EOFError
        if self._socket is not None:
            self._socket.close()
        self._socket = self._listener.accept()[0]

    def read(self) -> bytes:
        assert self._socket is not None
        ready, _, _ = select.select([self._socket, self._stopped], [], [])
        return b"" if self._stopped in ready else self._socket.recv(65536)

    def write(self, data: bytes) -> None:
        assert self._socket is not None
        self._socket.sendall(data)

    def stop(self) -> None:
        os.write(self._stop, b"x")

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._listener.close()


def _close_all(files: Iterable[int]) -> None:
    for file in files:
        if file >= 0:
            os.close(file)
