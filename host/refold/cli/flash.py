"""``refold flash``."""

from __future__ import annotations

from pathlib import Path

import click

from refold.boards import Board, Flash
from refold.boot import ROM_BAUD
from refold.build import build
from refold.cli.options import (
    FOLDER,
    board_option,
    deadline_option,
    port_option,
    wait_option,
)
from refold.console import watching
from refold.deadline import Deadline
from refold.errors import UserError
from refold.flash import Flashed, FlashPatience, flash, flash_settings
from refold.images import FLASH_FILE, FlashImages, Image, read_images
from refold.pio_upload import upload
from refold.place import address, find_place
from refold.wire import open_wire


@click.command(name="flash")
@click.argument("artefact", metavar="DIR", type=FOLDER)
@board_option
@port_option
@wait_option
@deadline_option
@click.option(
    "--image",
    "files",
    multiple=True,
    metavar="FILE@OFFSET",
    help="Write this instead of what the build lists; repeatable.",
)
def command(
    artefact: Path,
    board: str,
    port: str | None,
    wait: float,
    deadline: float | None,
    files: tuple[str, ...],
) -> int:
    """Put a model's firmware on a board, and wait until it answers.

    Builds it where it is missing. Only images that differ from the board's flash are
    written; each is verified there. Exits 3 where the chip or its firmware cannot be
    reached.
    """
    limit = Deadline(deadline)
    target, port = address(board, port)
    settings = flash_settings(target)
    url = find_place(target, port).url
    port = port or url
    with watching() as watch:
        if settings.method == "platformio" and not files:
            hello = upload(
                artefact, target, port, watch=watch, wait_s=wait, deadline=limit
            )
            text = f"{url}: uploaded by PlatformIO"
        else:
            if not (files or is_built(artefact, target)):
                open_wire(url, baud=ROM_BAUD).close()  # a build may take minutes
            directory, images = choose(artefact, target, settings, files)
            flashed = flash(
                *(directory, images, target, port),
                watch=watch,
                patience=FlashPatience(deadline=limit),
                wait_s=wait,
            )
            hello, text = flashed.hello, summary(flashed, url)
    click.echo(text)
    click.echo(f"the firmware answers: {hello.chip}, build {hello.build_hash}")
    return 0


def choose(
    artefact: Path, board: Board, settings: Flash, files: tuple[str, ...]
) -> tuple[Path, FlashImages]:
    """What to write: ``files``, or the build's images; and where their paths begin."""
    if files:
        named = tuple(parse_image(text) for text in files)
        return Path(), FlashImages(chip=settings.chip, build_hash="", images=named)
    directory = build_directory(artefact, board)
    return directory, read_images(directory)


def build_directory(artefact: Path, board: Board) -> Path:
    """Where the firmware for a board is, built if it is missing."""
    if not is_built(artefact, board):
        build(artefact, board)
    return artefact / "build" / board.id


def is_built(artefact: Path, board: Board) -> bool:
    """Whether there is firmware for a board."""
    return (artefact / "build" / board.id / FLASH_FILE).is_file()


def parse_image(text: str) -> Image:
    """Read ``FILE@OFFSET``; the offset is decimal, or hexadecimal after 0x.

    Raises:
        UserError: It is written otherwise, or the file is missing or empty.
    """
    file, _, offset = text.rpartition("@")
    try:
        image = Image(offset=int(offset, 0), file=file)
    except ValueError:
        image = Image(offset=-1, file=file)
    if image.offset < 0:
        raise UserError(
            f"--image {text}: expected FILE@OFFSET, such as app.bin@0x10000"
        )
    if not Path(file).is_file() or Path(file).stat().st_size == 0:
        raise UserError(f"--image {text}: {file} is missing or empty; correct the path")
    return image


def summary(flashed: Flashed, port: str) -> str:
    """What was written, for people."""
    done = flashed.images
    after = f", after {flashed.failures}" if flashed.failures else ""
    return (
        f"{port}: chip {done.mac}: {done.written} images written and verified at "
        f"{flashed.baud} baud{after}; {done.unchanged} unchanged"
    )
