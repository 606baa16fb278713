"""What compilers, sanitizers and the symbol table say about the firmware."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cbuild import INCLUDE, RUNTIME_SOURCES, STRICT, compile_c, compilers

HERE = Path(__file__).parent
TINY = (HERE / "tiny_model.c", HERE / "exercise.c")
VARIANTS = ((), ("-march=native", "-DREFOLD_X86"), ("-DREFOLD_ESP32S3",))
MAY_CALL = {
    *("memchr", "memcmp", "memcpy", "memmove", "memset", "strlen"),
    *("sqrtf", "__stack_chk_fail"),
}
GUARDED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def objects(folder: Path, *, cc: str = "cc", flags: tuple[str, ...] = ()) -> list[Path]:
    """Compile every firmware source to an object."""
    return [
        compile_c(
            [source], folder / f"{number}-{source.stem}.o", cc=cc, flags=("-c", *flags)
        )
        for number, source in enumerate(RUNTIME_SOURCES)
    ]


@pytest.mark.parametrize("cc", compilers())
@pytest.mark.parametrize("variant", VARIANTS, ids=" ".join)
def test_no_warnings(cc: str, variant: tuple[str, ...], tmp_path: Path) -> None:
    """All sources are strict C99 without a warning."""
    assert objects(tmp_path, cc=cc, flags=(*STRICT, "-O1", *variant))


def test_headers_stand_alone_in_cpp(tmp_path: Path) -> None:
    """Every public header compiles by itself, as C++ too."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    headers = sorted((INCLUDE / "refold").glob("*.h"))
    assert headers
    for header in headers:
        source = tmp_path / f"{header.stem}.cpp"
        source.write_text(f'#include "refold/{header.name}"\n')
        command = [compiler, "-std=c++11", *STRICT, "-fsyntax-only", f"-I{INCLUDE}"]
        subprocess.run([*command, str(source)], check=True)


@pytest.mark.parametrize("cc", compilers())
def test_sanitizers_are_silent(cc: str, tmp_path: Path) -> None:
    """Every mode of the runtime runs clean under both sanitizers."""
    if "zig" in cc:
        pytest.skip("the zig wheel carries no address sanitizer")
    program = compile_c(
        [*RUNTIME_SOURCES, *TINY], tmp_path / "exercise", cc=cc, flags=GUARDED
    )
    environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}
    result = subprocess.run(
        [program], env=environment, capture_output=True, text=True, check=False
    )
    assert (0, "") == (result.returncode, result.stderr)


def test_optimised_program_agrees(tmp_path: Path) -> None:
    """The same program passes as the native board builds it."""
    program = compile_c(
        [*RUNTIME_SOURCES, *TINY],
        tmp_path / "exercise",
        flags=("-O2", "-march=native", "-DREFOLD_X86"),
    )
    subprocess.run([program], check=True)


def symbols(folder: Path, *flags: str) -> list[tuple[str, str]]:
    """(kind, name) of what the firmware's objects define and need.

    At fixed addresses, where tables of pointers count as the constants they are.
    """
    if shutil.which("nm") is None:
        pytest.skip("no nm")
    made = objects(folder, flags=("-fno-pic", "-fno-pie", *flags))
    output = subprocess.run(
        ["nm", *made], capture_output=True, text=True, check=True
    ).stdout
    return re.findall(r"^[0-9a-f ]{16} (\w) (\S+)$", output, re.MULTILINE)


@pytest.mark.parametrize("variant", VARIANTS, ids=" ".join)
def test_symbols(variant: tuple[str, ...], tmp_path: Path) -> None:
    """Exports start with refold_, nothing is mutable, no heap and no stdio."""
    found = symbols(tmp_path, "-O1", *variant)
    exported = [name for kind, name in found if kind in "TRDBC"]
    assert "refold_infer" in exported
    assert [] == [name for name in exported if not name.startswith("refold_")]
    assert [] == [name for kind, name in found if kind in "DdBbC"]
    needed = {name for kind, name in found if kind == "U"}
    assert set() == {n for n in needed if not n.startswith("refold_")} - MAY_CALL


@pytest.mark.parametrize(
    ("name", "flags"), [("X86", ("-march=native",)), ("ESP32S3", ())]
)
def test_switch_removes_simd(name: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    """Without its switch a variant is called, with it nothing calls it."""
    if shutil.which("nm") is None:
        pytest.skip("no nm")
    dispatch = next(p for p in RUNTIME_SOURCES if p.name == "dispatch.c")
    for switch, called in (((), True), ((f"-DREFOLD_NO_{name}",), False)):
        made = compile_c(
            [dispatch],
            tmp_path / "dispatch.o",
            flags=("-c", *flags, f"-DREFOLD_{name}", *switch),
            include=[dispatch.parent],
        )
        listing = subprocess.run(
            ["nm", made], capture_output=True, text=True, check=True
        ).stdout
        assert called == (f"refold_conv2d_{name.lower()}" in listing)
