"""flash.json: what a build leaves for whoever writes it to a board."""

from __future__ import annotations

from pathlib import Path

import pytest

from refold.errors import UserError
from refold.images import FlashImages, Image, read_images, write_images

IMAGES = FlashImages(
    chip="esp32s3",
    build_hash="0123456789abcdef",
    images=(
        Image(offset=0, file="bootloader.bin"),
        Image(offset=0x10000, file="sub/app.bin"),
    ),
)


def test_images_come_back_as_written(tmp_path: Path) -> None:
    """Reading is the inverse of writing, and nothing else is left behind."""
    (tmp_path / "sub").mkdir()
    for image in IMAGES.images:
        (tmp_path / image.file).write_bytes(b"x")
    write_images(tmp_path, IMAGES)
    assert IMAGES == read_images(tmp_path)
    assert {"sub", "bootloader.bin", "flash.json"} == {
        path.name for path in tmp_path.iterdir()
    }


@pytest.mark.parametrize("content", [None, "{", '{"chip": 5}', "[]"])
def test_what_cannot_be_read_is_answered_with_the_command(
    content: str | None, tmp_path: Path
) -> None:
    """Absent or damaged, the message names the file and what makes it."""
    if content is not None:
        (tmp_path / "flash.json").write_text(content)
    with pytest.raises(UserError, match=r"flash\.json cannot be read .*refold build"):
        read_images(tmp_path)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    """A build folder that somebody cleaned by half is no build."""
    write_images(tmp_path, IMAGES)
    with pytest.raises(UserError, match=r"bootloader\.bin is missing; .*refold build"):
        read_images(tmp_path)
