"""Arithmetic without a floating point unit equals this computer's, bit for bit."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cbuild import ROOT, STRICT, compile_shared, compilers
from numpy.typing import NDArray

from refold.boards import Board
from refold.toolchain import find_compiler

HERE = Path(__file__).parent
PORT = ROOT / "firmware/ports/xtensa_qemu"
HELPERS = (PORT / "integer_helpers.c", PORT / "float_helpers.c")
EDGES = np.array(
    [
        *(0, 1, 2, 3, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFF, 0x1000000),
        *(0x33800000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3FFFFFFF, 0x40490FDB),
        *(0x4B7FFFFF, 0x4B800000, 0x4EFFFFFF, 0x4F000000, 0x5EFFFFFF, 0x5F000000),
        *(0x7E800000, 0x7F000000, 0x7F7FFFFE, 0x7F7FFFFF, 0x7F800000, 0x7FC00000),
    ],
    np.uint32,
)
"""Zero, subnormals, the least normals, ones, the integers' ends, the largest, inf."""

Words = NDArray[np.uint32]
Answers = NDArray[np.uint64]


def operands(count: int) -> Words:
    """Pairs [N, 2]: all edges with either sign, and ``count`` random of each kind."""
    rng = np.random.default_rng(20)
    signed = np.concatenate([EDGES, EDGES | 0x80000000])
    edges = np.stack(np.meshgrid(signed, signed), -1).reshape(-1, 2)
    anything = rng.integers(0, 1 << 32, (count, 2), np.uint32)
    close = anything.copy()  # exponents at most 31 apart, so that bits meet
    nearby = (close[:, 0] >> 23) + rng.integers(0, 32, count, np.uint32) & 0xFF
    close[:, 1] = close[:, 1] & 0x807FFFFF | nearby << 23
    sparse = anything & rng.integers(0, 1 << 32, (count, 2), np.uint32) << 14
    tiny = anything & 0x87FFFFFF | rng.integers(0, 2, (count, 2), np.uint32) << 29
    kinds = [edges, anything, close, sparse, tiny]
    return np.ascontiguousarray(np.concatenate(kinds).astype(np.uint32))


def expected(pairs: Words) -> dict[str, Answers]:
    """What each operation of operations.c answers, by NumPy."""
    a, b = pairs[:, 0].copy(), pairs[:, 1].copy()
    x, y = a.view(np.float32), b.view(np.float32)
    wide = b.astype(np.uint64) << np.uint64(32) | a
    swapped = a.astype(np.uint64) << np.uint64(32) | b
    divisor = np.maximum(b, 1)
    comparisons = (x < y, x <= y, x == y, x != y, x >= y, x > y)
    small = np.where(np.abs(x) < np.float32(2**31), x, 0).astype(np.int64)
    large = np.where(np.abs(x) < np.float32(2**63), x, 0).astype(np.int64)
    with np.errstate(all="ignore"):
        return {
            "add": canonical(x + y),
            "subtract": canonical(x - y),
            "multiply": canonical(x * y),
            "from int32": canonical(a.view(np.int32).astype(np.float32)),
            "from uint32": canonical(a.astype(np.float32)),
            "64-bit product": wide * swapped,
            "product to 64 bits": a.astype(np.uint64) * b,
            "quotient": np.where(b > 0, a // divisor, 0).astype(np.uint64),
            "remainder": np.where(b > 0, a % divisor, 0).astype(np.uint64),
            "divide": canonical(x / y),
            "square root": canonical(np.sqrt(x)),
            "compare": sum(
                c.astype(np.uint64) << np.uint64(i) for i, c in enumerate(comparisons)
            ),
            "to int32": small.astype(np.int32).view(np.uint32).astype(np.uint64),
            "to int64": large.view(np.uint64),
            "from int64": canonical(wide.view(np.int64).astype(np.float32)),
            "from uint64": canonical(wide.astype(np.float32)),
            "shifts": (wide.view(np.int64) >> (a & 63).astype(np.int64)).view(np.uint64)
            ^ wide << (b & 63).astype(np.uint64),
        }


def canonical(x: NDArray[np.float32]) -> Answers:
    """Bits of floats; every NaN is the same one, for IEEE leaves its bits open."""
    bits = x.view(np.uint32).astype(np.uint64)
    return np.where(np.isnan(x), np.uint64(0x7FC00000), bits)


FLOATS = ("add", "subtract", "multiply", "divide", "square root")


def check(pairs: Words, answers: Answers) -> None:
    """Compare answers [N, operations] and name the first operands that differ."""
    assert (len(pairs), len(expected(pairs))) == answers.shape
    for column, (name, right) in enumerate(expected(pairs).items()):
        found = answers[:, column]
        if name in FLOATS:
            found = canonical(found.astype(np.uint32).view(np.float32))
        (wrong,) = np.nonzero(right != found)
        if len(wrong):
            i = wrong[0]
            a, b = (f"{word:#010x}" for word in pairs[i])
            raise AssertionError(
                f"{name} of {a} and {b}: expected {right[i]:#x}, got {found[i]:#x}; "
                f"{len(wrong)} of {len(pairs)} differ"
            )


def test_helpers_on_this_computer(tmp_path: Path) -> None:
    """Half a million pairs: the port's C gives what the processor gives."""
    if not compilers():
        pytest.skip("no C compiler")
    flags = ("-O2", *STRICT, "-DREFOLD_HELPER(name)=own_##name")
    library = compile_shared(
        [HERE / "operations.c", *HELPERS],
        cc=compilers()[0],
        flags=flags,
        include=[HERE, PORT],
        out_dir=tmp_path,
    )
    pairs = operands(125_000)
    answers = np.zeros((len(pairs), len(expected(pairs[:1]))), np.uint64)
    library.operate(
        ctypes.c_void_p(pairs.ctypes.data),
        ctypes.c_size_t(len(pairs)),
        ctypes.c_void_p(answers.ctypes.data),
    )
    check(pairs, answers)


OPERANDS = """
    .section .rodata.operands, "a"
    .balign 4
    .global operands, operands_end
operands: .incbin "operands.bin"
operands_end:
"""


def test_arithmetic_on_the_core(xtensa: Board, tmp_path: Path) -> None:
    """Built and linked as firmware: own helpers, libgcc's and the C library's."""
    pairs = operands(1000)
    (tmp_path / "operands.bin").write_bytes(pairs.tobytes())
    (tmp_path / "operands.S").write_text(OPERANDS)
    program, output = tmp_path / "program", tmp_path / "answers.bin"
    compiler = find_compiler(xtensa.toolchain)
    sources = [HERE / "operations.c", HERE / "operations_device.c", PORT / "uart.c"]
    subprocess.run(
        [
            *(*compiler.command, *compiler.cflags, *STRICT, f"-I{HERE}", f"-I{PORT}"),
            *(*sources, *HELPERS, PORT / "start.S", "operands.S"),
            *("-T", PORT / "link.ld", *compiler.ldflags, "-o", program),
        ],
        cwd=tmp_path,
        check=True,
    )
    emulator = list(xtensa.link.emulator)
    emulator[emulator.index("-serial") + 1] = f"file:{output}"
    emulator[emulator.index("{firmware}")] = str(program)
    subprocess.run(emulator, check=True, timeout=60)
    answers = np.fromfile(output, "<u8").reshape(len(pairs), -1)
    check(pairs, answers)
