"""Faults on the line between host and board, at places that are known beforehand.

What lines, USB adapters and power supplies do to bytes. :mod:`refold.fault_proxy` puts
them between a host and its board.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "drop",
    "corrupt",
    "truncate",
    "duplicate",
    "reorder",
    "insert",
    "delay",
    "disconnect",
]
BOOT_LOG = b"ESP-ROM:esp32s3-20210327\r\nrst:0x1 (POWERON),boot:0x8 (SPI_FAST)\r\n"
"""What an ESP32-S3 says when it starts."""
_AT_ONE_PLACE = ("insert", "delay", "disconnect")


@dataclass(frozen=True)
class Fault:
    """What happens to some bytes of one direction.

    Attributes:
        kind: ``drop`` loses ``count`` bytes; ``corrupt`` turns a bit in each of them;
            ``truncate`` loses those of them that come before a zero byte, so that a
            frame is cut short; ``duplicate`` sends them once more when all of them
            have passed; ``reorder`` lets their halves change places; ``insert`` puts
            ``text`` before them; ``delay`` holds the line for ``seconds``;
            ``disconnect`` ends the connection.
        at: Number of the first byte of the connection that is concerned, from 0.
        count: Bytes; ``insert``, ``delay`` and ``disconnect`` happen at one place.
        seconds: Of a delay.
        text: That is inserted.
    """

    kind: Kind
    at: int
    count: int = 1
    seconds: float = 0.0
    text: bytes = BOOT_LOG


def random_faults(
    seed: int, rate: float, kinds: Sequence[Kind], *, most: int = 1
) -> Iterator[Fault]:
    """Yield faults without end.

    Args:
        seed: The same one gives the same faults.
        rate: Faults a byte, in (0, 1].
        kinds: One of them each time.
        most: Bytes of one fault.
    """
    generator = random.Random(seed)
    at = -1
    while True:
        at += 1 + int(generator.expovariate(rate))
        count = generator.randint(1, most)
        yield Fault(generator.choice(kinds), at, count, seconds=0.01)
        at += count - 1


class Disturbance:
    """One direction of a connection.

    Args:
        faults: In the order of their places; one that would begin within the bytes
            of the one before begins after them.
        pause: Waits for so many seconds.

    Attributes:
        happened: Faults so far.
    """

    def __init__(
        self,
        faults: Iterable[Fault] = (),
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self.happened = 0
        self._faults = iter(faults)
        self._fault = next(self._faults, None)
        self._pause = pause
        self._position = 0
        self._suffered = b""

    def carry(self, data: bytes) -> Iterator[bytes]:
        """Yield what arrives of ``data``, in pieces.

        Raises:
            ConnectionResetError: A fault ends the connection.
        """
        while data and self._fault is not None:
            fault = self._fault
            if self._position < fault.at:
                size = fault.at - self._position
                yield data[:size]
            elif fault.kind not in _AT_ONE_PLACE:
                size = fault.count - len(self._suffered)
                yield self._suffer(fault, data[:size])
            else:
                size = 0
                yield self._happen(fault)
            self._position += len(data[:size])
            data = data[size:]
        yield data

    def _suffer(self, fault: Fault, new: bytes) -> bytes:
        before, self._suffered = self._suffered, self._suffered + new
        last = len(self._suffered) >= fault.count
        arrives = _arriving(fault.kind, before, new, last=last)
        if last:
            self._next()
        return arrives

    def _happen(self, fault: Fault) -> bytes:
        self._next()
        if fault.kind == "disconnect":
            raise ConnectionResetError("cut by a fault")
        if fault.kind == "delay":
            self._pause(fault.seconds)
            return b""
        return fault.text

    def _next(self) -> None:
        self.happened += 1
        self._suffered = b""
        self._fault = next(self._faults, None)


def _arriving(kind: Kind, before: bytes, new: bytes, *, last: bool) -> bytes:
    """What arrives of a fault's bytes that are ``new``, after those ``before``."""
    if kind == "corrupt":
        return bytes(byte ^ 4 for byte in new)
    if kind == "truncate":
        return new if b"\0" in before else b"".join(new.partition(b"\0")[1:])
    if kind == "duplicate":
        return new + before + new if last else new
    if kind == "reorder" and last:
        whole = before + new
        half = len(whole) // 2
        return whole[half:] + whole[:half]
    return b""
