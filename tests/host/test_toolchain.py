from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from refold.boards import Toolchain
from refold.errors import UserError
from refold.toolchain import find_compiler

HOST = Toolchain(kind="host", cflags=("-O2", "-march=native"))

FAKE = """#!/bin/sh
for flag in "$@"; do
    case "$flag" in
    REFUSED) exit 1;;
    esac
done
echo "#define __FAKE_%s__ 1"
"""


def fake(folder: Path, name: str, *refused: str) -> Path:
    """Put a compiler on the path that refuses some flags."""
    path = folder / name
    path.write_text(FAKE.replace("REFUSED", "|".join(refused) or "-none") % name)
    path.chmod(0o755)
    return path


@pytest.fixture
def bin_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder on PATH; there is no CC and no ziglang."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    return folder


posix = pytest.mark.skipif(os.name != "posix", reason="fake compilers are scripts")


@posix
def test_cc_comes_before_gcc_and_clang(bin_folder: Path) -> None:
    """The system's own choice of compiler is respected."""
    for name in ("clang", "gcc", "cc"):
        fake(bin_folder, name)
        compiler = find_compiler(HOST)
        assert (str(bin_folder / name),) == compiler.command
        assert compiler.defines(f"__FAKE_{name}__")


@posix
def test_the_environment_chooses_and_may_add_flags(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``$CC`` is taken before what is on PATH, arguments included."""
    fake(bin_folder, "cc")
    fake(bin_folder, "mine")
    monkeypatch.setenv("CC", "mine -m32")
    assert ("mine", "-m32") == find_compiler(HOST).command


@posix
def test_an_environment_that_names_nothing_is_refused(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong ``$CC`` is not silently replaced by another compiler."""
    fake(bin_folder, "cc")
    monkeypatch.setenv("CC", "no-such-cc")
    with pytest.raises(UserError, match="CC=no-such-cc: there is no program"):
        find_compiler(HOST)


@posix
def test_a_compiler_that_cannot_compile_is_passed_over(bin_folder: Path) -> None:
    """Some systems have a cc that only asks to be installed."""
    fake(bin_folder, "cc", "-E")
    fake(bin_folder, "clang")
    assert (str(bin_folder / "clang"),) == find_compiler(HOST).command


@posix
def test_unknown_machine_flags_are_left_out(bin_folder: Path) -> None:
    """-march=native goes where it is unknown; everything else stays."""
    fake(bin_folder, "cc", "-march=native")
    assert ("-O2",) == find_compiler(HOST).cflags


@posix
def test_other_flags_are_never_left_out(bin_folder: Path) -> None:
    """A compiler without a flag that results depend on is none."""
    fake(bin_folder, "cc", "-ffp-contract=off")
    toolchain = Toolchain(kind="host", cflags=("-ffp-contract=off",))
    with pytest.raises(UserError, match="found, but cannot compile"):
        find_compiler(toolchain)


def test_without_a_compiler_the_user_is_told_how_to_get_one(bin_folder: Path) -> None:
    """By the system's packages or by pip."""
    assert not list(bin_folder.iterdir())
    with pytest.raises(
        UserError,
        match=r"no C compiler: .*apt install gcc.*pip install 'refold\[zig\]'",
    ):
        find_compiler(HOST)


@posix
def test_a_cross_compiler_is_called_by_its_prefix(bin_folder: Path) -> None:
    """Other toolchains are looked up on PATH and named where they are missing."""
    toolchain = Toolchain(
        kind="command", prefix="xtensa-esp32s3-elf-", install="apt install it"
    )
    with pytest.raises(
        UserError, match=r"install xtensa-esp32s3-elf-gcc \(apt install it\)"
    ):
        find_compiler(toolchain)
    path = fake(bin_folder, "xtensa-esp32s3-elf-gcc")
    assert (str(path),) == find_compiler(toolchain).command


@posix
def test_zig_is_the_last_resort(
    bin_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without any other compiler the ziglang wheel's is called."""
    python = fake(bin_folder, "python")
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "ziglang")
    assert (str(python), "-m", "ziglang", "cc") == find_compiler(HOST).command
    cc = fake(bin_folder, "cc")
    assert (str(cc),) == find_compiler(HOST).command


@pytest.mark.parametrize("name", ["gcc", "clang", "zig"])
def test_real_compilers_build_a_program(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is found compiles and links a program that runs."""
    if name == "zig":
        pytest.importorskip("ziglang", reason="the extra 'zig' is not installed")
        monkeypatch.setenv("CC", f"{sys.executable} -m ziglang cc")
    elif shutil.which(name):
        monkeypatch.setenv("CC", name)
    else:
        pytest.skip(f"no {name}")
    compiler = find_compiler(HOST)
    source, program = tmp_path / "main.c", tmp_path / "main"
    source.write_text("int main(void) { return 7; }\n")
    subprocess.run(
        [*compiler.command, *compiler.cflags, source, "-o", program], check=True
    )
    assert subprocess.run([program], check=False).returncode == 7
    assert compiler.defines("__STDC__")
