"""Compiles C for tests and loads it into Python."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "firmware/include"
RUNTIME_SOURCES = tuple(sorted((ROOT / "firmware/src").rglob("*.c")))
"""All of the portable firmware; files of other machines guard themselves."""

IEEE = ("-std=c99", "-ffp-contract=off", "-fno-fast-math")
"""What every build that refold ships passes."""
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")


def compilers() -> tuple[str, ...]:
    """Commands of the C compilers that this machine has."""
    found = [name for name in ("gcc", "clang") if shutil.which(name)]
    if importlib.util.find_spec("ziglang"):
        found.append(f"{shlex.quote(sys.executable)} -m ziglang cc")
    return tuple(found)


def compile_c(
    sources: Iterable[Path],
    output: Path,
    *,
    cc: str = "cc",
    flags: Sequence[str] = (),
    include: Sequence[Path] = (),
) -> Path:
    """Run the compiler once; ``output`` is made from all ``sources``.

    Raises:
        subprocess.CalledProcessError: It failed; its messages are the note.
    """
    folders = [f"-I{folder}" for folder in (INCLUDE, *include)]
    command = [*shlex.split(cc), *IEEE, *flags, *folders, *map(str, sources)]
    libraries = () if "-c" in flags else ("-lm",)
    result = subprocess.run(
        [*command, "-o", str(output), *libraries],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        result.check_returncode()
    except subprocess.CalledProcessError as error:
        error.add_note(result.stderr)
        raise
    return output


def compile_shared(
    sources: Iterable[Path],
    *,
    cc: str = "cc",
    flags: Sequence[str] = (),
    include: Sequence[Path] = (),
    out_dir: Path,
) -> ctypes.CDLL:
    """Compile ``sources`` into a shared library in ``out_dir`` and load it."""
    paths = tuple(sources)
    key = repr((paths, cc, tuple(flags), tuple(include)))
    library = out_dir / f"lib{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"
    compile_c(
        paths, library, cc=cc, flags=("-fPIC", "-shared", *flags), include=include
    )
    return ctypes.CDLL(str(library))
