"""Every instruction that the kernels can emit is one that the chip has."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cbuild import INCLUDE, ROOT
from instructions import INSTRUCTIONS, faults

SIMD = ROOT / "firmware/src/kernels/esp32s3"
KERNELS = sorted(SIMD.glob("*.c"))

ASM = re.compile(r"__asm__ volatile\s*\((.*?)\)\s*;\s*\}\s*while", re.DOTALL)
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
MACRO = re.compile(r"^#define (EE_\w+)\((.*?)\)", re.MULTILINE)


def templates(source: Path) -> Iterator[tuple[str, int]]:
    """(assembly, number of operands) of every asm statement, preprocessed."""
    command = ["cc", "-E", "-P", "-D__XTENSA__", "-DREFOLD_ESP32S3", f"-I{INCLUDE}"]
    text = subprocess.run(
        [*command, str(source)], capture_output=True, text=True, check=True
    ).stdout
    for match in ASM.finditer(text):
        template, *constraints = re.split(r"\s:\s", match[1].replace("::", ": :"))
        assembly = "".join(STRING.findall(template))
        operands = "".join(constraints[:2])
        yield assembly, len(re.findall(r'"[+=]?r"', operands))


@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.stem)
def test_the_chip_has_what_the_kernels_emit(source: Path) -> None:
    """Mnemonics, registers, immediates and constraints are encodable."""
    found = [fault for template in templates(source) for fault in faults(*template)]
    assert [] == found


def test_all_instructions_are_seen() -> None:
    """The kernels together use every row of the table, so nothing escaped the scan."""
    used = {text.split(" ")[0] for path in KERNELS for text, _ in templates(path)}
    assert set(INSTRUCTIONS) == used
    count = sum(1 for path in KERNELS for _ in templates(path))
    assert count > 300


@pytest.mark.parametrize(
    ("statement", "operands"),
    [
        ("ee.vld.128.ipp q0, %0, 16", 1),
        ("ee.vld.128.ip q8, %0, 16", 1),
        ("ee.vld.128.ip q0, %0, 8", 1),
        ("ee.vld.128.ip q0, %0, 2048", 1),
        ("ee.vmulas.s8.accx.ld.ip q0, %0, 512, q1, q2", 1),
        ("ee.vld.128.ip q0, 16", 0),
        ("ee.vld.128.ip q0, %0, 16", 2),
        ("ee.vld.128.xp q0, %1, %0", 2),
        ("ee.vld.128.ip q0, %0, STEP", 1),
    ],
)
def test_mistakes_are_found(statement: str, operands: int) -> None:
    """A wrong name, register, immediate, count or order of operands is a fault."""
    assert faults(statement, operands)


@pytest.mark.parametrize("source", KERNELS, ids=lambda path: path.stem)
def test_an_xtensa_compiler_makes_them(source: Path, tmp_path: Path) -> None:
    """GCC for Xtensa compiles the chip's back end; what it writes is encodable."""
    gcc = shutil.which("xtensa-lx106-elf-gcc")
    if gcc is None:
        pytest.skip("no xtensa-lx106-elf-gcc")
    output = tmp_path / "kernel.s"
    flags = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-DREFOLD_ESP32S3")
    command = [gcc, *flags, f"-I{INCLUDE}", "-S", str(source), "-o", str(output)]
    subprocess.run(command, check=True)
    for line in output.read_text().splitlines():
        if line.strip().startswith(("ee.", "rur.")):
            named, count = numbered(line)
            assert [] == faults(named, count)


def numbered(line: str) -> tuple[str, int]:
    """Compiled assembly with its address registers as %0, %1, and their number."""
    names = itertools.count()
    text = re.sub(r"\b(?:a\d+|sp)\b", lambda _: f"%{next(names)}", line)
    return text, next(names)


def test_both_back_ends_have_the_same_macros() -> None:
    """What the chip has the model has, with the same parameters."""
    chip, model = (
        dict(MACRO.findall((SIMD / name).read_text()))
        for name in ("pie.h", "pie_model.h")
    )
    assert chip == model
    assert len(chip) == len(INSTRUCTIONS)


def test_a_macro_is_named_after_its_instruction() -> None:
    """EE_VLD_128_IP is ee.vld.128.ip, so a call says what is executed."""
    text = (SIMD / "pie.h").read_text()
    body = re.compile(
        r'^#define EE_(\w+)\([^)]*\)\s*\\?\s*PIE_ASM\("(\S+?)["\s]', re.MULTILINE
    )
    named = {name.lower(): mnemonic for name, mnemonic in body.findall(text)}
    assert len(INSTRUCTIONS) == len(named)
    for name, mnemonic in named.items():
        assert name == mnemonic.removeprefix("ee.").replace(".", "_")
