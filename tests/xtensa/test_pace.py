"""PACE's mathematics without a floating point unit has this computer's bits."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cbuild import INCLUDE, ROOT, STRICT, compile_shared, compilers

from refold.boards import Board
from refold.toolchain import find_compiler

HERE = Path(__file__).parent
PORT = ROOT / "firmware/ports/xtensa_qemu"
FIRMWARE = ROOT / "firmware/src"
EXERCISE = ROOT / "tests/firmware/pace_exercise.c"
SOURCES = (EXERCISE, *sorted((FIRMWARE / "pace").glob("*.c")))


def on_the_core(board: Board, folder: Path) -> bytes:
    """Words that the emulated core sends."""
    program, output = folder / "program", folder / "words.bin"
    compiler = find_compiler(board.toolchain)
    includes = [f"-I{p}" for p in (INCLUDE, FIRMWARE, EXERCISE.parent, PORT)]
    helpers = (PORT / "integer_helpers.c", PORT / "float_helpers.c", PORT / "uart.c")
    subprocess.run(
        [
            *(*compiler.command, *compiler.cflags, *STRICT, *includes),
            *(*SOURCES, HERE / "pace_device.c", *helpers, PORT / "start.S"),
            *("-T", PORT / "link.ld", *compiler.ldflags, "-o", program),
        ],
        check=True,
    )
    emulator = list(board.link.emulator)
    emulator[emulator.index("-serial") + 1] = f"file:{output}"
    emulator[emulator.index("{firmware}")] = str(program)
    subprocess.run(emulator, check=True, timeout=120)
    return output.read_bytes()


def test_bits_on_the_core(xtensa: Board, tmp_path: Path) -> None:
    """Soft floats give every random number, search and statistic alike."""
    if not compilers():
        pytest.skip("no C compiler")
    library = compile_shared(
        SOURCES,
        cc=compilers()[0],
        flags=("-O2",),
        include=[FIRMWARE, EXERCISE.parent],
        out_dir=tmp_path,
    )
    words = np.zeros(1024, np.uint32)
    count = library.pace_exercise(ctypes.c_void_p(words.ctypes.data))
    assert words[:count].tobytes() == on_the_core(xtensa, tmp_path)
