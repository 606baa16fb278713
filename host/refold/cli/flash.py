"""``refold flash``."""

from __future__ import annotations

from pathlib import Path

import click

from refold.boards import Board, load_board
from refold.build import build
from refold.cli.options import FOLDER, board_option
from refold.console import watching
from refold.errors import UserError
from refold.flash import Flashed, flash, flash_settings
from refold.images import FLASH_FILE, FlashImages, Image, read_images


@click.command(name="flash")
@click.argument("artefact", metavar="DIR", type=FOLDER)
@board_option
@click.option("--port", required=True, metavar="URL", help="Where the board is.")
@click.option(
    "--image",
    "files",
    multiple=True,
    metavar="FILE@OFFSET",
    help="Write this instead of what the build lists; repeatable.",
)
def command(artefact: Path, board: str, port: str, files: tuple[str, ...]) -> int:
    """Put a compiled model's firmware on a board, and wait until it answers.

    Builds it where it is missing. Only images that differ from the board's flash are
    written; each is verified there. Exits 3 where the chip or its firmware cannot be
    reached.
    """
    target = load_board(board)
    chip = flash_settings(target).chip
    if files:
        named = tuple(parse_image(text) for text in files)
        directory, images = Path(), FlashImages(chip=chip, build_hash="", images=named)
    else:
        directory = build_directory(artefact, target)
        images = read_images(directory)
    with watching() as watch:
        done = flash(directory, images, target, port, watch=watch)
    click.echo(report(done, port))
    return 0


def build_directory(artefact: Path, board: Board) -> Path:
    """Where the firmware for a board is, built if it is missing."""
    directory = artefact / "build" / board.id
    if not (directory / FLASH_FILE).is_file():
        build(artefact, board)
    return directory


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


def report(done: Flashed, port: str) -> str:
    """What was done, for people."""
    after = f", after {done.failures}" if done.failures else ""
    return (
        f"{port}: {done.written} images written at {done.baud} baud{after}, "
        f"{done.unchanged} were there already\n"
        f"the firmware answers: build {done.hello.build_hash}, chip {done.hello.chip}"
    )
