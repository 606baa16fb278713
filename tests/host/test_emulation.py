"""Whether a board's emulator is there, and the right one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec import structs

from refold import emulation
from refold.boards import Board, load_board
from refold.cli.boards import attached
from refold.emulation import lacking

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the stand-in is a shell script"
)


def board(program: Path | str) -> Board:
    """Return the emulated ESP32-S3 with another emulator."""
    known = load_board("esp32s3-qemu")
    _, *arguments = known.link.emulator
    link = structs.replace(known.link, emulator=(str(program), *arguments))
    return structs.replace(known, link=link)


def stand_in(folder: Path, *machines: str, code: int = 0) -> Path:
    """Write a program that answers ``-M help`` as QEMU does."""
    lines = "".join(f"echo '{name}   a machine'\n" for name in machines)
    path = folder / "qemu"
    path.write_text(f"#!/bin/sh\necho 'Supported machines are:'\n{lines}exit {code}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def forget() -> None:
    """Ask every stand-in anew."""
    emulation._machines.cache_clear()


def test_nothing_is_lacking(tmp_path: Path) -> None:
    """The program lists the machine."""
    assert lacking(board(stand_in(tmp_path, "esp32", "esp32s3"))) is None


def test_another_build_lacks_the_machine(tmp_path: Path) -> None:
    """A QEMU without the chip's machine is told from one with it."""
    program = stand_in(tmp_path, "esp32", "esp32s3-picsimlab", "none")
    expected = f"the {program} on PATH has no machine 'esp32s3'"
    assert expected == lacking(board(program)) == attached(board(program))


def test_no_program() -> None:
    """A program that is not on PATH is named."""
    expected = "there is no qemu-of-nobody on PATH"
    assert expected == lacking(board("qemu-of-nobody"))


def test_a_board_without_an_emulator() -> None:
    """Lacks none."""
    assert lacking(load_board("native")) is None
