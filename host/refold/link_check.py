"""A link put to the test by real frames: none may be lost, and how fast it is.

Nothing on the board changes: INPUT frames of a stream that it does not know are
answered by ACK, whatever they hold, and the adaptation state is only read.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from refold.facts import CHUNK_BYTES
from refold.link import Link
from refold.protocol import DELIMITER, Frame, Hello, encode

ROUNDS = 8
"""Of all sizes, about 10 KB each: a second each way at 921600 baud, and turns."""
SIZES = tuple(
    size
    for edge in (1, 32, 254, 512, 1024, CHUNK_BYTES)
    for size in (edge - 1, edge, edge + 1)
    if size <= CHUNK_BYTES
)
"""Of the data in a frame; COBS begins a new block every 254 bytes."""
GREETINGS = 16
ANSWER_S = 2.0
"""Longest wait for an answer; one that comes later still is not lost."""
SEND_S = 10.0
_UNDER_WAY = 16 * 1024
"""Bytes that are sent ahead of their answers at most."""
_SEQUENCES = 1 << 16


@dataclass(frozen=True)
class LinkReport:
    """What a link is worth.

    Attributes:
        frames: That were sent.
        lost: Of them those that were not answered.
        differing: Answers whose content is not what it was before.
        to_board: Bytes a second, frames and all.
        to_host: Likewise, one request at a time; None where there is no state to read.
        turn_s: From a request to its answer, the median.
    """

    frames: int
    lost: int
    differing: int
    to_board: float
    to_host: float | None
    turn_s: float


def check_link(link: Link, hello: Hello, *, rounds: int = ROUNDS) -> LinkReport:
    """Send and fetch frames of many sizes; count what is lost.

    Args:
        link: To a board that said ``hello`` and is asked nothing else meanwhile.
        hello: What it said.
        rounds: How often every size is sent.

    Raises:
        InfraError: The port is gone or takes nothing.
    """
    talk = _Talk(link)
    turns = [talk.turn() for _ in range(GREETINGS)]
    to_board = talk.flood(rounds, room=min(hello.receive_bytes, _UNDER_WAY))
    to_host = talk.fetch(rounds)
    return LinkReport(
        frames=talk.frames,
        lost=talk.lost,
        differing=talk.differing,
        to_board=to_board,
        to_host=to_host,
        turn_s=median(turns),
    )


def contents(rounds: int) -> Iterator[bytes]:
    """Yield the data of the frames: zeros, ones, and two that repeat nowhere near."""
    noise = random.Random(0)
    kinds = (
        bytes,
        lambda size: b"\xff" * size,
        lambda size: bytes(i % 251 for i in range(size)),
        noise.randbytes,
    )
    for number in range(rounds):
        for size in SIZES:
            yield kinds[number % len(kinds)](size)


class _Talk:
    """Requests and answers, counted."""

    def __init__(self, link: Link) -> None:
        self.frames = self.differing = 0
        self._link = link
        self._missing: set[int] = set()
        self._sequence = secrets.randbits(16)

    @property
    def lost(self) -> int:
        """Frames without an answer."""
        return len(self._missing)

    def turn(self) -> float:
        """Ask for a Hello; return how long the answer took."""
        began = time.monotonic()
        self._ask("hello_request")
        return time.monotonic() - began

    def flood(self, rounds: int, *, room: int) -> float:
        """Send frames of all sizes with at most ``room`` bytes unanswered.

        Returns:
            Bytes a second.
        """
        stream = secrets.randbits(32)  # the board's is as random
        waiting: dict[int, int] = {}
        sent, began = 0, time.monotonic()
        for data in contents(rounds):
            sequence, wire = self._encode("input", stream, 0, 0, rest=data)
            while waiting and sum(waiting.values()) + len(wire) > room:
                self._settle(waiting)
            self._send(wire)
            waiting[sequence] = len(wire)
            sent += len(wire)
        while waiting:
            self._settle(waiting)
        self._await_late()
        return sent / (time.monotonic() - began)

    def fetch(self, rounds: int) -> float | None:
        """Read pieces of the adaptation state, each twice, and compare.

        Returns:
            Bytes a second; None where there is no state.
        """
        # From a snapshot, of which all the others are cut.
        first = self._ask("state_read", 0, 1)
        if first is None or first.name != "state" or not first.values[0]:
            return None
        before, began, offset = self._link.received_bytes, time.monotonic(), 0
        for size in SIZES * rounds:
            offset = (offset + size) % first.values[0]
            answers = [self._ask("state_read", offset, size) for _ in range(2)]
            pieces = {frame.rest for frame in answers if frame is not None}
            self.differing += len(pieces) > 1
        self._await_late()
        return (self._link.received_bytes - before) / (time.monotonic() - began)

    def _ask(self, name: str, *values: object) -> Frame | None:
        """Send a request; return its answer, or None where there is none."""
        sequence, wire = self._encode(name, *values)
        self._send(wire)
        return self._settle({sequence: len(wire)})

    def _encode(
        self, name: str, *values: object, rest: bytes = b""
    ) -> tuple[int, bytes]:
        """Return the next number and the frame that has it."""
        self._sequence = (self._sequence + 1) % _SEQUENCES
        wire = encode(name, self._sequence, *values, rest=rest)
        return self._sequence, DELIMITER + wire

    def _send(self, wire: bytes) -> None:
        self._link.send(wire, timeout_s=SEND_S, phase="trying the link")
        self.frames += 1

    def _settle(self, waiting: dict[int, int]) -> Frame | None:
        """Take one answer. They come in order: those before it are missing.

        Where none comes all that is waited for is.
        """
        end = time.monotonic() + ANSWER_S
        while (left := end - time.monotonic()) > 0:
            frame = self._link.receive(left)
            if frame is None:
                continue
            self._missing.discard(frame.sequence)
            if frame.sequence in waiting:
                while (first := next(iter(waiting))) != frame.sequence:
                    del waiting[first]
                    self._missing.add(first)
                del waiting[first]
                return frame
        self._missing.update(waiting)
        waiting.clear()
        return None

    def _await_late(self) -> None:
        """A slow board's answers come late: wait until it has no more to say."""
        while self._missing and (frame := self._link.receive(ANSWER_S)) is not None:
            self._missing.discard(frame.sequence)
