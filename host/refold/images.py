"""What lies where in a board's flash: ``flash.json`` of a build directory.

The builders of boards that are flashed write it beside their images, and
``refold flash`` reads it: how the images were built is of no concern to it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from refold.errors import UserError

FLASH_FILE = "flash.json"


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """One file and its place.

    Attributes:
        offset: Bytes from the start of flash.
        file: Its path, relative to the folder that holds ``flash.json``.
    """

    offset: int
    file: str


class FlashImages(msgspec.Struct, frozen=True, kw_only=True):
    """The images of one build.

    Attributes:
        chip: As esptool names it.
        build_hash: What the firmware reports once it runs.
        images: By offset; they do not overlap.
    """

    chip: str
    build_hash: str
    images: tuple[Image, ...]


def write_images(directory: Path, images: FlashImages) -> None:
    """Write ``flash.json`` into ``directory``, beside its place and renamed."""
    text = msgspec.json.format(msgspec.json.encode(images), indent=1)
    unfinished = directory / f"unfinished-{FLASH_FILE}"
    unfinished.write_bytes(text + b"\n")
    unfinished.replace(directory / FLASH_FILE)


def read_images(directory: Path) -> FlashImages:
    """Return what a build left in ``directory``.

    Raises:
        UserError: There is no ``flash.json``, it is damaged, or an image that it
            names is missing.
    """
    path = directory / FLASH_FILE
    remedy = "make it with 'refold build DIR --board ID'"
    try:
        images = msgspec.json.decode(path.read_bytes(), type=FlashImages)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}); {remedy}") from None
    missing = [i.file for i in images.images if not (directory / i.file).is_file()]
    if missing:
        raise UserError(f"{path}: {missing[0]} is missing; {remedy}")
    return images
