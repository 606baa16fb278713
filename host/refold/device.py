"""A board that speaks the protocol: who it is, its settings, state and replies.

Requests carry a sequence number that the answer repeats. One that stays
unanswered is sent again; the device takes a repeat for the same request.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable, Iterator
from struct import iter_unpack

from refoldc.adapt import AdaptConfig

from refold import facts
from refold.errors import (
    InfraError,
    RefoldError,
    RestartError,
    UserError,
    during,
)
from refold.link import Link
from refold.no_hello import no_hello
from refold.patience import TRIES, Patience
from refold.phase import Phase
from refold.protocol import DELIMITER, Frame, Hello, Times, encode
from refold.stream import Reply, Stream

__all__ = ["Device", "Hello", "Patience", "Reply"]

_logger = logging.getLogger(__name__)

_USER_FAULTS = (
    facts.Status.ERROR_CONFIG,
    facts.Status.ERROR_UNSUPPORTED,
    facts.Status.ERROR_STATE,
)


class Device:
    """The firmware at the other end of a link.

    Args:
        link: To it.
        build_hash: Hexadecimal, of the firmware that should run there; None
            takes any.
        remedy: What to do where other firmware runs, for the message.
        default_sites: Sites that adapt where the settings do not say.
        patience: Deadlines.
    """

    def __init__(
        self,
        link: Link,
        *,
        build_hash: str | None = None,
        remedy: str = "put current firmware on the board",
        default_sites: tuple[int, ...] = (),
        patience: Patience | None = None,
    ) -> None:
        self._link = link
        self._build_hash = build_hash
        self._remedy = remedy
        self._default_sites = default_sites
        self._patience = patience or Patience()
        # Random, for a board may remember the last stream of an earlier run.
        self._stream_number = secrets.randbits(32)
        self._sequence = secrets.randbits(16)
        self._hello: Hello | None = None
        self._stream: Stream | None = None

    @property
    def port(self) -> str:
        """URL of the port."""
        return self._link.url

    # --- identity ------------------------------------------------------------

    def hello(self) -> Hello:
        """Ask the device who it is, and refuse firmware that is not the build's.

        Raises:
            UserError: The firmware is of another ABI, protocol or build.
            SilentError, GarbledError: Nothing, or nothing intelligible, answers.
            InfraError: The port is gone, or takes nothing.
        """
        with during(Phase.HELLO):
            frame = self._exchange(
                "hello_request", "hello", total_s=self._patience.hello_s
            )
            if frame is None:
                raise no_hello(self._link, self._patience.hello_s, self._remedy)
        hello = Hello.of(frame)
        stale = self._build_hash is not None and hello.build_hash != self._build_hash
        if stale or hello.abi != facts.ABI:
            raise UserError(
                f"port {self.port}: the board runs build {hello.build_hash} (ABI "
                f"{hello.abi}, model {hello.model_hash[:12]}), expected build "
                f"{self._build_hash or 'any'} (ABI {facts.ABI}); {self._remedy}"
            )
        self._hello = hello
        _logger.info("%s: %s", self.port, hello)
        return hello

    # --- streams -------------------------------------------------------------

    def begin(self, config: AdaptConfig, *, keep_state: bool = False) -> None:
        """Begin a stream: images are numbered from 0 again.

        Args:
            config: Adaptation method and its parameters.
            keep_state: Go on from the statistics of the stream before.

        Raises:
            UserError: The firmware has not the method or refuses a parameter.
            InfraError: The device is gone or silent.
        """
        hello = self._hello or self.hello()
        number = self._stream_number = (self._stream_number + 1) % (1 << 32)
        self._ask("configure", "ack", *self._settings(number, config, keep_state))
        self._stream = Stream(self._link, number, hello, patience=self._patience)

    def _settings(
        self, number: int, config: AdaptConfig, keep_state: bool
    ) -> tuple[object, ...]:
        """The fields of CONFIGURE."""
        return (
            number,
            keep_state,
            config.code,
            facts.Stats[config.stats.upper()],
            facts.Rule[config.rule.upper()],
            config.gate,
            config.interval,
            config.warm,
            config.shrinkage,
            config.momentum,
            config.grade,
            self._site_mask(config.sites),
            config.seed,
            config.dimension,
            config.population,
            config.window,
            config.generations,
            config.sigma,
            config.weight,
            config.settle,
            config.shift,
            config.accept,
            config.source,
        )

    def _site_mask(self, sites: tuple[int, ...] | None) -> bytes:
        chosen = self._default_sites if sites is None else sites
        mask = sum(1 << site for site in set(chosen))
        return mask.to_bytes(facts.SITE_MASK_BYTES, "little")

    def run(self, images: Iterable[bytes]) -> Iterator[Reply]:
        """Stream images through the firmware; yield the replies in order.

        Transfer and inference overlap. May be called again within a stream.

        Args:
            images: Each as the device takes it, ``Hello.input_bytes`` long.

        Raises:
            UserError: An image has another length.
            InfraError: The device is lost; every reply that arrived before has
                then been yielded.
        """
        if self._stream is None:
            raise ValueError("call begin() before run()")
        return self._stream.run(images)

    def confirm(self) -> None:
        """Make sure that the board has held this stream until now.

        Raises:
            RestartError: It restarted, so what it has told since is not the stream's.
            InfraError: The device is gone or silent.
        """
        if self._stream is None:
            raise ValueError("call begin() before confirm()")
        self._stream.confirm()

    def trace(self, image: bytes) -> list[Frame]:
        """Run one image as the first of a stream; return its TENSOR frames.

        Raises:
            InfraError: The device is gone or silent.
        """
        if self._stream is None:
            raise ValueError("call begin() before trace()")
        self._ask("trace", "ack", 1)
        frames: list[Frame] = []
        self._stream.on_tensor = frames.append
        for _ in self._stream.run([image]):
            pass
        return frames

    def read_times(self) -> Times:
        """Return what the layers of the last image took.

        Raises:
            InfraError: The device is gone or silent.
        """
        layers: tuple[int, ...] = ()
        while True:
            frame = self._ask("profile_request", "profile", len(layers))
            kind, ticks_per_us, image, count, first = frame.values
            more = tuple(value for (value,) in iter_unpack("<I", frame.rest))
            if first != len(layers) or (first < count and not more):
                raise InfraError(
                    f"port {self.port}: asked for times from layer {len(layers)}, got "
                    f"{len(more)} from {first} of {count}; restart the board"
                )
            layers += more
            if len(layers) >= count:
                return Times(kind, ticks_per_us, image, layers)

    # --- adaptation state ----------------------------------------------------

    def read_state(self) -> bytes:
        """Return the adaptation state as the firmware saves it.

        Empty where the firmware has none.

        Raises:
            RestartError: The device restarted meanwhile.
            InfraError: The device is gone or silent.
        """
        hello = self._hello or self.hello()
        state, total = b"", hello.state_bytes
        while len(state) < total:
            frame = self._ask("state_read", "state", len(state), facts.CHUNK_BYTES)
            total, offset = frame.values
            if offset != len(state) or (len(state) < total and not frame.rest):
                raise InfraError(
                    f"port {self.port}: asked for the state from byte {len(state)}, "
                    f"got {len(frame.rest)} bytes from {offset} of {total}; restart "
                    "the board"
                )
            state += frame.rest
        return state

    def write_state(self, state: bytes) -> None:
        """Load a state that :meth:`read_state` returned.

        Raises:
            UserError: It is damaged or belongs to another model, or the device
                restarted meanwhile.
            InfraError: The device is gone or silent.
        """
        for offset in range(0, len(state), facts.CHUNK_BYTES):
            chunk = state[offset : offset + facts.CHUNK_BYTES]
            self._ask("state_write", "ack", len(state), offset, rest=chunk)

    # --- requests ------------------------------------------------------------

    def _ask(self, name: str, answer: str, *values: object, rest: bytes = b"") -> Frame:
        """Send a request and return its answer; raise where it is refused."""
        total_s = self._patience.image_s
        frame = self._exchange(name, answer, *values, rest=rest, total_s=total_s)
        if frame is None:
            raise InfraError(
                f"port {self.port}: no answer to {name} within {total_s:g} s, although "
                "repeated; restart the board, then run again"
            )
        status = frame.values[0] if frame.name == "ack" else facts.Status.OK
        if status != facts.Status.OK:
            raise self._refusal(name, status)
        return frame

    def _refusal(self, name: str, status: int) -> RefoldError:
        if (name, status) == ("state_read", facts.Status.ERROR_STATE):
            return RestartError(f"port {self.port}: the board lost what it was sending")
        kind = UserError if status in _USER_FAULTS else InfraError
        return kind(
            f"port {self.port}: the board refused {name}: "
            f"{facts.STATUS_TEXT.get(status, f'status {status}')}; compile and build "
            "with what this needs, or restart the board, then run again"
        )

    def _exchange(
        self, name: str, answer: str, *values: object, rest: bytes = b"", total_s: float
    ) -> Frame | None:
        """Send a request until it is answered; None after ``total_s``."""
        self._sequence = (self._sequence + 1) % (1 << 16)
        # The first delimiter ends whatever a disturbance left in the receiver.
        request = DELIMITER + encode(name, self._sequence, *values, rest=rest)
        end = time.monotonic() + total_s
        wait = self._patience.first_s
        while (left := end - time.monotonic()) > 0:
            self._link.send(request, timeout_s=left, phase=f"sending {name}")
            frame = self._answer(answer, min(end, time.monotonic() + wait))
            if frame is not None:
                return frame
            _logger.debug("%s: %s unanswered, asking again", self.port, name)
            wait = min(2 * wait, total_s / TRIES)
        return None

    def _answer(self, answer: str, end: float) -> Frame | None:
        """Return the answer to the last request, or its refusal; drop older ones."""
        wanted = (answer,) if answer == "hello" else (answer, "ack")
        while (left := end - time.monotonic()) > 0:
            frame = self._link.receive(left)
            if frame and frame.name in wanted and frame.sequence == self._sequence:
                return frame
        return None
