"""Images out, replies in: transfer and inference overlap.

As many images are under way as the device has room for (its *window*), so that
it always finds the next one when it has finished one. An image is known by its
number; the device keeps its latest replies and says what it lacks, so whatever
is lost is sent again and no image is ever run twice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refold.errors import InfraError, RestartError, UserError
from refold.facts import CHUNK_BYTES, STATUS_TEXT, Status
from refold.link import Link
from refold.patience import TRIES, Patience
from refold.protocol import Frame, Hello, encode

_logger = logging.getLogger(__name__)

GATE_NONE = 255
_SEQUENCES = 1 << 16


class Reply(NamedTuple):
    """What the device says about one image.

    Attributes:
        index: Number of the image within its stream, from 0.
        logits: int32 [outputs], read-only.
        infer_us: The network, and statistics to tables; no search.
        adapt_us: Statistics to tables, and the search before the image.
        search_us: Of that, the search.
        shift_score: Mean KL divergence of running from clean statistics.
        adapted: Statistics were absorbed.
        gate: Open; None without a gate.
        forward_passes: Through the network: its own, and one for each image that a
            candidate of the search before it ran.
        resent: Frames sent again for it, requests for its result included.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index; nobody needs it
    logits: NDArray[np.int32]
    infer_us: int
    adapt_us: int
    search_us: int
    shift_score: np.float32
    adapted: bool
    gate: bool | None
    forward_passes: int
    resent: int


def wire_bytes(input_bytes: int) -> int:
    """Bytes that the frames of an image of ``input_bytes`` take at most."""
    whole, part = divmod(input_bytes, CHUNK_BYTES)
    sizes = [CHUNK_BYTES] * whole + [part] * (part > 0)
    return sum(len(encode("input", 0, 0, 0, 0, rest=b"\1" * size)) for size in sizes)


@dataclass(slots=True)
class _Flight:
    """An image under way."""

    index: int
    image: bytes
    resent: int = 0
    asked: bool = False
    logits: bytearray = field(default_factory=bytearray)
    reply: Reply | None = None


class Stream:
    """One stream of images to a configured device.

    Args:
        link: To the device.
        number: Of the stream, as given to CONFIGURE.
        hello: What the device said of itself.
        patience: Deadlines.

    Attributes:
        on_tensor: Takes TENSOR frames of this stream; None drops them.
    """

    def __init__(
        self, link: Link, number: int, hello: Hello, *, patience: Patience
    ) -> None:
        self._link = link
        self._number = number
        self._hello = hello
        self._logit_bytes = 4 * hello.outputs
        # Beside the image that runs, what the port can hold meanwhile.
        ahead = hello.receive_bytes // wire_bytes(hello.input_bytes)
        self._credits = min(hello.window, 1 + ahead)
        self._patience = patience
        self._wait = patience.first_s
        self._sent = 0
        self._sequence = 0
        self._flights: dict[int, _Flight] = {}
        self._last: _Flight | None = None
        self._lost: InfraError | None = None
        self.on_tensor: Callable[[Frame], None] | None = None

    def run(self, images: Iterable[bytes]) -> Iterator[Reply]:
        """Send ``images`` and yield their replies in order.

        Raises:
            UserError: An image has not the size the firmware takes.
            InfraError: The device is gone, silent or refuses; every reply that
                arrived before has then been yielded.
        """
        if self._flights:
            raise ValueError("the run before was abandoned; call Device.begin()")
        source = iter(images)
        self._fill(source)
        while self._flights:
            reply = self._await(next(iter(self._flights.values())))
            self._last = self._flights.pop(reply.index)
            self._fill(source)
            yield reply
        if self._lost is not None and next(source, None) is not None:
            raise self._lost

    def confirm(self) -> None:
        """Ask for the last reply once more: only who ran the stream has it.

        Raises:
            RestartError: The device does not know the stream any more.
            InfraError: It is gone or silent.
        """
        if self._last is None:
            return
        again = _Flight(self._last.index, self._last.image)
        self._flights[again.index] = again
        self._ask(again)
        self._await(again)
        del self._flights[again.index]

    def _fill(self, source: Iterator[bytes]) -> None:
        """Send images until the window is full."""
        while len(self._flights) < self._credits and self._lost is None:
            image = next(source, None)
            if image is None:
                return
            if len(image) != self._hello.input_bytes:
                raise UserError(
                    f"image {self._sent} has {len(image)} bytes, but the firmware "
                    f"takes {self._hello.input_bytes}; give data of its input shape"
                )
            flight = self._flights[self._sent] = _Flight(self._sent, image)
            self._sent += 1
            self._send(self._input_frames(flight, 0)[0])

    def _input_frames(self, flight: _Flight, offset: int) -> tuple[bytes, int]:
        """The image from ``offset`` on, as wire bytes, and the number of frames."""
        starts = range(offset, self._hello.input_bytes, CHUNK_BYTES)
        frames = [
            encode(
                "input",
                self._next_sequence(),
                self._number,
                flight.index,
                start,
                rest=flight.image[start : start + CHUNK_BYTES],
            )
            for start in starts
        ]
        return b"".join(frames), len(frames)

    def _next_sequence(self) -> int:
        self._sequence = (self._sequence + 1) % _SEQUENCES
        return self._sequence

    def _send(self, data: bytes) -> None:
        """Write, or note that the device is lost: replies may still be queued."""
        try:
            self._link.send(
                data,
                timeout_s=self._patience.image_s,
                phase=f"sending image {self._sent - 1}",
            )
        except InfraError as error:
            self._lost = error

    def _await(self, flight: _Flight) -> Reply:
        """Wait for one image's reply and ask for it where it does not come."""
        start = time.monotonic()
        end = start + self._patience.image_s
        while flight.reply is None:
            frame = self._link.receive(min(self._wait, end - time.monotonic()))
            if frame is not None:
                self._handle(frame)
            elif self._lost is not None:
                raise self._lost
            elif time.monotonic() >= end:
                raise self._silent(flight)
            else:
                self._wait = min(2 * self._wait, self._patience.image_s / TRIES)
                self._ask(flight)
        if flight.resent == 0:  # only then does the time tell the device's pace
            took = time.monotonic() - start
            self._wait = max(self._patience.first_s, 2 * took)
        return flight.reply

    def _silent(self, flight: _Flight) -> InfraError:
        return InfraError(
            f"port {self._link.url}: no reply to image {flight.index} within "
            f"{self._patience.image_s:g} s, although asked for again; the firmware "
            "hangs or the line is cut: restart the board, then run again"
        )

    def _ask(self, flight: _Flight) -> None:
        flight.resent += 1
        _logger.debug("image %d: reply lost or late, asking for it", flight.index)
        sequence = self._next_sequence()
        self._send(encode("result_request", sequence, self._number, flight.index))

    def _handle(self, frame: Frame) -> None:
        if frame.name == "result":
            self._result(frame)
        elif frame.name == "need":
            self._need(frame)
        elif frame.name == "ack":
            self._refused(frame)
        elif frame.name == "tensor" and self.on_tensor is not None:
            if frame.values[0] == self._number:
                self.on_tensor(frame)
        elif frame.name == "hello" and self._restarted(frame):
            raise RestartError(
                f"port {self._link.url}: the board restarted in mid-stream; check its "
                f"power and its log ({self._link.last_words() or 'empty'})"
            )

    def _restarted(self, hello: Frame) -> bool:
        return Hello.of(hello).boot_count != self._hello.boot_count

    def _result(self, frame: Frame) -> None:
        stream, index, *facts, offset = frame.values
        flight = self._flights.get(index)
        if stream != self._number or flight is None or flight.reply is not None:
            return  # a repeat
        if 4 * offset == len(flight.logits):
            flight.logits += frame.rest
        if len(flight.logits) >= self._logit_bytes:
            flight.reply = self._reply(flight, facts)
            self._recover_before(index)

    def _reply(self, flight: _Flight, facts: Sequence[Any]) -> Reply:
        if len(flight.logits) > self._logit_bytes:
            raise InfraError(
                f"port {self._link.url}: image {flight.index} was answered with "
                f"{len(flight.logits) // 4} logits, but the firmware announced "
                f"{self._logit_bytes // 4}; build and flash it again"
            )
        infer_us, adapt_us, search_us, shift_score, adapted, gate, passes = facts
        return Reply(
            flight.index,
            np.frombuffer(bytes(flight.logits), "<i4"),
            infer_us,
            adapt_us,
            search_us,
            np.float32(shift_score),
            adapted != 0,
            None if gate == GATE_NONE else gate != 0,
            passes,
            flight.resent,
        )

    def _recover_before(self, index: int) -> None:
        """Replies come in order: what is missing before ``index`` was lost."""
        for flight in self._flights.values():
            if flight.index >= index:
                return
            if flight.reply is None and not flight.asked:
                flight.asked = True
                self._ask(flight)

    def _need(self, frame: Frame) -> None:
        stream, index, offset = frame.values
        flight = self._flights.get(index)
        if stream != self._number or flight is None or flight.reply is not None:
            return
        data, count = self._input_frames(flight, offset)
        flight.resent += count
        _logger.info(
            "image %d: frames lost, sent again from byte %d", flight.index, offset
        )
        self._send(data)

    def _refused(self, frame: Frame) -> None:
        (status,) = frame.values
        if status in (Status.OK, Status.ERROR_FRAME):
            return  # a late acknowledgement, or damage that resending mends
        text = STATUS_TEXT.get(status, f"status {status}")
        found = f"port {self._link.url}: the board refused an image: {text}"
        if status == Status.ERROR_STREAM:
            raise RestartError(found, "it restarted in mid-stream: run again")
        raise InfraError(found, "restart the board, then run again")
