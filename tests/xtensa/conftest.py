"""What tests of the emulated Xtensa board need."""

from __future__ import annotations

import os
import shutil

import pytest

from refold.boards import Board, load_board


@pytest.fixture(scope="session")
def xtensa() -> Board:
    """Return the board xtensa-qemu; without its tools skip, in CI fail."""
    board = load_board("xtensa-qemu")
    needed = (f"{board.toolchain.prefix}gcc", board.link.emulator[0])
    missing = [program for program in needed if shutil.which(program) is None]
    if missing:
        hints = f"{board.toolchain.install}; {board.link.install}"
        words = f"no {' and no '.join(missing)} ({hints})"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    return board
