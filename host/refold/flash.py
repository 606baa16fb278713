"""Puts firmware on a board and waits until it answers.

Written is what esptool verified on the chip; flashed is what said Hello with the
expected build hash. Everything has a deadline.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from refold import esptool
from refold.boards import Board, Flash
from refold.boot import ROM_BAUD, Boot
from refold.deadline import Deadline
from refold.errors import InfraError, UserError, during
from refold.esptool import EsptoolError, Kind, Written
from refold.images import FlashImages
from refold.lock import hold
from refold.phase import Phase
from refold.place import Place, find_place
from refold.protocol import Hello
from refold.user_boards import user_board_file
from refold.watch import Watch
from refold.wire import open_wire

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FlashPatience:
    """Deadlines and tries.

    Attributes:
        tries: At each baud rate.
        connects: Times that the chip may fail to enter its bootloader, in all: a
            slower rate does not help there.
        overhead_s: What one try takes besides sending the images.
        slowness: How many times longer than the line needs the images may take;
            erasing and verifying are part of that.
        hello_s: For the firmware to start and answer.
        deadline: Of all of it.
    """

    tries: int = 2
    connects: int = 2
    overhead_s: float = 60.0
    slowness: float = 4.0
    hello_s: float = 15.0
    deadline: Deadline = field(default_factory=Deadline)


@dataclass(frozen=True)
class Failure:
    """A try that failed."""

    baud: int
    error: EsptoolError

    def __str__(self) -> str:
        return f"{self.baud} baud: {self.error.found}"


@dataclass(frozen=True)
class Flashed:
    """How it went.

    Attributes:
        images: How many were written, and to which chip.
        baud: At which everything was written.
        failures: The tries before, as one text; empty where there were none.
        hello: What the firmware says of itself.
    """

    images: Written
    baud: int
    failures: str
    hello: Hello


def flash(
    directory: Path,
    images: FlashImages,
    board: Board,
    port: str,
    *,
    watch: Watch | None = None,
    patience: FlashPatience | None = None,
    wait_s: float = 0.0,
) -> Flashed:
    """Write the images that the chip has not yet, and greet the firmware.

    Args:
        directory: To which the images' paths are relative.
        images: All that the board gets; an empty build hash takes any firmware.
        board: One with a ``[flash]`` table.
        port: As :func:`refold.place.find_place` takes it.
        watch: Told what is done.
        patience: Deadlines.
        wait_s: How long to wait for a process that has the board.

    Raises:
        UserError: esptool or the port is missing, the port is in use, the images
            are for another chip, it is not the chip that the port's name stands for,
            or other firmware answers than was written.
        InfraError: The chip cannot be reached, an image does not arrive, or the
            firmware does not answer.
    """
    watch, patience = watch or Watch(), patience or FlashPatience()
    settings = flash_settings(board)
    files = _files(directory, images, settings)
    esptool.check_installed()
    place = find_place(board, port)
    check_way(board, place)
    with hold(place, wait_s=min(wait_s, patience.deadline.left)):
        port = place.url
        open_wire(port, baud=ROM_BAUD).close()  # its messages are the better ones
        check_mac(place)
        boot = Boot(
            place,
            board.link.baud,
            images.build_hash or None,
            wait_s=patience.hello_s,
            deadline=patience.deadline,
            leave_download=partial(esptool.reset_by_watchdog, chip=settings.chip),
        )
        with during(Phase.FLASH):
            done, baud, failures = _write(files, settings, port, watch, patience)
        watch.stage(f"{port}: waiting for the firmware's hello")
        hello = boot.await_hello()
    return Flashed(done, baud, _summary(failures), hello)


def flash_settings(board: Board) -> Flash:
    """Return how the board is flashed.

    Raises:
        UserError: It is not.
    """
    if board.flash is None:
        raise UserError(
            f"board {board.id} is not flashed: 'refold run' starts its firmware; "
            "'refold boards' lists the others"
        )
    return board.flash


def check_way(board: Board, place: Place) -> None:
    """Refuse a way to a board on which esptool cannot restart it.

    Raises:
        UserError: The chip's own USB port is on another computer.
    """
    scheme, _, there = place.url.rpartition("://")
    if scheme and board.reset == "usb-jtag":
        raise UserError(
            f"port {place.url}: esptool flashes a chip's own USB port only at its own "
            f"computer; run 'refold flash' there ({there}), or flash by the "
            "connector marked UART"
        )
    if scheme == "socket":
        _logger.warning(
            "port %s: a raw socket carries neither reset lines nor baud rates: the "
            "chip must be in download mode already (hold BOOT, press RESET) and the "
            "server at %d baud; rfc2217:// carries both",
            *(place.url, ROM_BAUD),
        )


def check_mac(place: Place) -> None:
    """Be sure that the chip is the one of the user board file.

    Raises:
        UserError: It is another one.
        InfraError: It does not answer.
    """
    if place.mac is None:
        return
    try:
        found = esptool.read_mac(place.url)
    except EsptoolError as error:
        raise InfraError(
            f"port {place.url}: {error.found}, when asked for its MAC", error.remedy
        ) from None
    if found != place.mac.lower():
        raise UserError(
            f"port {place.url}: the chip there has MAC {found}, expected "
            f"{place.mac.lower()}: another board is connected; swap the cables, or "
            f"correct the entry in {user_board_file()}"
        )


def _files(directory: Path, images: FlashImages, settings: Flash) -> dict[int, Path]:
    """The files by offset, where all is well with them."""
    if images.chip != settings.chip:
        raise UserError(
            f"the images are for chip {images.chip}, the board has an {settings.chip}; "
            "build for this board, or correct --board"
        )
    files = {image.offset: directory / image.file for image in images.images}
    if not files or len(files) < len(images.images):
        raise UserError(
            f"{len(images.images)} images at {len(files)} offsets: expected one or "
            "more, each at its own; correct --image, or build again"
        )
    empty = [file for file in files.values() if file.stat().st_size == 0]
    if empty:
        raise UserError(f"image {empty[0]} is empty; build again, or correct --image")
    return files


def _write(
    files: Mapping[int, Path],
    settings: Flash,
    port: str,
    watch: Watch,
    patience: FlashPatience,
) -> tuple[Written, int, list[Failure]]:
    """Go down the ladder of baud rates; each try writes what the last did not."""
    failures: list[Failure] = []
    for baud in settings.bauds:
        for _ in range(patience.tries):
            patience.deadline.require()
            watch.stage(f"{port}: connecting, then {baud} baud")
            try:
                done = esptool.write(
                    files,
                    port,
                    chip=settings.chip,
                    baud=baud,
                    timeout_s=_deadline(files, baud, patience),
                    progress=watch.stage,
                )
            except EsptoolError as error:
                failures.append(Failure(baud, error))
                _take(failures, port, patience)
            else:
                return done, baud, failures
    raise _given_up(failures, port)


def _deadline(files: Mapping[int, Path], baud: int, patience: FlashPatience) -> float:
    total_bytes = sum(file.stat().st_size for file in files.values())
    line_s = 10 * total_bytes / baud  # start bit, eight data bits, stop bit
    needed_s = patience.overhead_s + patience.slowness * line_s
    return min(needed_s, patience.deadline.left)


def _take(failures: Sequence[Failure], port: str, patience: FlashPatience) -> None:
    """Raise where another try is of no use."""
    _logger.info("%s: %s", port, failures[-1])
    error = failures[-1].error
    if error.kind is Kind.USER:
        raise UserError(f"port {port}: {error.found}; {error.remedy}")
    connects = sum(failure.error.kind is Kind.CONNECT for failure in failures)
    if connects >= patience.connects:
        raise _given_up(failures, port)


def _given_up(failures: Sequence[Failure], port: str) -> InfraError:
    return InfraError(
        f"port {port}: not flashed: {_summary(failures)}", failures[-1].error.remedy
    )


def _summary(failures: Sequence[Failure]) -> str:
    counts = Counter(map(str, failures)).items()
    return "; ".join(f"{text} ({n} times)" if n > 1 else text for text, n in counts)
