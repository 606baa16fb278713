"""One port, as frames: a reader thread behind it, deadlines on everything.

The reader takes whatever comes as soon as it comes (some USB interfaces drop
what is not read at once), cuts it into frames and queues them; text and damaged
bytes go to the log. A wire that dies queues its error behind the last frame, so
that nothing that arrived is lost.
"""

from __future__ import annotations

import logging
import threading
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Self

from refold.deadline import Deadline
from refold.errors import InfraError, LostError
from refold.protocol import Decoder, Frame
from refold.wire import Wire, open_wire

DEFAULT_BAUD = 921600
_STRAY_KEPT = 1 << 13
"""Bytes of stray text kept for error messages: a panic and the boot after it."""
_SHOWN_CHARACTERS = 160
"""Of them, in a message."""

log = logging.getLogger("refold.board")


class Link:
    """Frames to and from one board.

    Args:
        wire: To the board; closed with the link.
        url: Of its port, for messages.
        deadline: After which nothing is sent or waited for any more.

    Attributes:
        url: Of the port.
        received_bytes: Of any kind, so far.
        stray: The last bytes that were no frame.
        other_version: Protocol version of the last intact foreign frame.
    """

    def __init__(self, wire: Wire, url: str, deadline: Deadline | None = None) -> None:
        self.url = url
        self.received_bytes = 0
        self.stray = b""
        self._wire = wire
        self._deadline = deadline or Deadline()
        self._frames: SimpleQueue[Frame | BaseException] = SimpleQueue()
        self._decoder = Decoder(self._hear)
        self._closing = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def other_version(self) -> int | None:
        return self._decoder.other_version

    def send(self, data: bytes, *, timeout_s: float, phase: str) -> None:
        """Write encoded frames.

        Raises:
            LostError: The port is gone.
            InfraError: It took too little in ``timeout_s``, or the deadline passed.
        """
        self._deadline.require()
        try:
            self._wire.write(data, min(timeout_s, self._deadline.left))
        except TimeoutError as error:
            self._deadline.require()
            raise InfraError(
                f"port {self.url}: stuck while {phase}: {error} in {timeout_s:g} s; "
                "restart the board"
            ) from None
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, timeout_s: float) -> Frame | None:
        """Return the next frame, or None after ``timeout_s``.

        Raises:
            LostError: The port is gone and everything that came is consumed.
            InfraError: The deadline passed.
        """
        self._deadline.require()
        try:
            item = self._frames.get(
                timeout=max(0.0, min(timeout_s, self._deadline.left))
            )
        except Empty:
            self._deadline.require()
            return None
        if isinstance(item, BaseException):
            self._frames.put(item)  # for whoever asks again
            raise item
        return item

    def close(self) -> None:
        """End the reader and release the port; harmless when repeated."""
        if self._closing:
            return
        self._closing = True
        self._wire.wake()
        self._reader.join()
        self._wire.close()

    def _read(self) -> None:
        try:
            while not self._closing:
                data = self._wire.read()
                self.received_bytes += len(data)
                for frame in self._decoder.feed(data):
                    if frame.name == "log":
                        self._hear(frame.rest)
                    else:
                        self._frames.put(frame)
        except OSError as error:
            self._decoder.flush()
            self._frames.put(self._lost(error))
        except BaseException as error:  # noqa: BLE001  # a bug: surfaces in the caller
            self._frames.put(error)

    def _hear(self, data: bytes) -> None:
        self.stray = (self.stray + data)[-_STRAY_KEPT:]
        text = data.decode("ascii", "backslashreplace")
        for line in filter(None, map(str.strip, text.splitlines())):
            log.info("%s: %s", self.url, line)

    def _lost(self, error: OSError) -> LostError:
        said = f"; its last words: {self.last_words()}" if self.stray else ""
        return LostError(
            f"port {self.url} vanished ({error.strerror or error}){said}",
            "check the board's cable and power, then run again",
        )

    def take_text(self) -> str:
        """Return what was said outside frames lately; it is not returned again."""
        words, self.stray = self.stray + self._decoder.unfinished, b""
        return words.decode("ascii", "backslashreplace")

    def last_words(self, *, unfinished: bool = False) -> str:
        """The latest stray bytes, printable and short.

        Args:
            unfinished: Count what no delimiter has ended: of a board that speaks no
                frames it may be all.
        """
        rest = self._decoder.unfinished if unfinished else b""
        words = (self.stray + rest).strip()
        text = _printable(words, _SHOWN_CHARACTERS)
        if len(text) <= _SHOWN_CHARACTERS:
            return text
        return _printable(words, _SHOWN_CHARACTERS // len(r"\xff"))


def _printable(data: bytes, most: int) -> str:
    """The last bytes, those that are no printable ASCII escaped."""
    return repr(data[-most:])[2:-1]


def open_link(
    url: str, *, baud: int = DEFAULT_BAUD, deadline: Deadline | None = None
) -> Link:
    """Open a port as a link.

    Args:
        url: Device path, COM port, ``socket://HOST:PORT`` or
            ``rfc2217://HOST:PORT``.
        baud: Of a serial port; meaningless elsewhere.
        deadline: Of whatever is done with it.

    Raises:
        UserError: It does not exist, may not be opened or is in use.
    """
    return Link(open_wire(url, baud=baud), url, deadline)
