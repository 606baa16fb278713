"""Finds the C compiler and learns what it is.

The host's compiler is, in this order: ``$CC``, ``cc``, ``gcc``, ``clang``, and
the one in the ziglang wheel (extra ``zig``), so that a computer without a
compiler can get one with pip.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from refold.boards import Toolchain
from refold.errors import UserError

_logger = logging.getLogger(__name__)

HOST_COMPILERS = ("cc", "gcc", "clang")
PROBE = "#include <stdlib.h>\n"
PROBE_S = 120.0
"""zig builds parts of its C library on first use."""

HOW_TO_GET_ONE = (
    "install one ('sudo apt install gcc', on macOS 'xcode-select --install') or add "
    "the bundled one: pip install 'refold[zig]'"
)


@dataclass(frozen=True)
class Compiler:
    """A compiler that works.

    Attributes:
        command: What to call.
        cflags: The board's flags, less those this compiler does not know.
        ldflags: The board's linker flags.
        macros: Everything it predefines under ``cflags``: version, instruction
            sets, platform. Equal macros mean equal code.
    """

    command: tuple[str, ...]
    cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    macros: str

    def defines(self, macro: str) -> bool:
        """Tell whether the compiler predefines ``macro``."""
        return f"#define {macro} " in self.macros


def find_compiler(toolchain: Toolchain) -> Compiler:
    """Return the first compiler of ``toolchain`` that works.

    Raises:
        UserError: There is none.
    """
    tried = []
    for command in _candidates(toolchain):
        compiler = _probe(command, toolchain)
        if compiler is not None:
            line = shlex.join((*compiler.command, *compiler.cflags))
            _logger.info("compiler: %s", line)
            return compiler
        tried.append(" ".join(command))
    found = f"{', '.join(tried)}: found, but cannot compile; " if tried else ""
    raise UserError(f"no C compiler: {found}{_remedy(toolchain)}")


def _candidates(toolchain: Toolchain) -> Iterator[tuple[str, ...]]:
    if toolchain.kind == "esp_idf":
        return
    if toolchain.kind == "command":
        yield from _installed(f"{toolchain.prefix}gcc")
    elif os.environ.get("CC"):
        yield _from_environment(os.environ["CC"])
    else:
        for name in HOST_COMPILERS:
            yield from _installed(name)
        if importlib.util.find_spec("ziglang"):
            yield (sys.executable, "-m", "ziglang", "cc")


def _installed(name: str) -> Iterator[tuple[str, ...]]:
    path = shutil.which(name)
    if path:
        yield (path,)


def _from_environment(text: str) -> tuple[str, ...]:
    """Read ``$CC``, which may carry flags, and stand by it: it was chosen."""
    command = tuple(shlex.split(text))
    if not shutil.which(command[0]):
        raise UserError(
            f"CC={text}: there is no program '{command[0]}'; correct CC or unset it"
        )
    return command


def _remedy(toolchain: Toolchain) -> str:
    if toolchain.kind == "esp_idf":
        return "this board is built by ESP-IDF, with 'refold build'"
    if toolchain.kind == "command":
        how = f" ({toolchain.install})" if toolchain.install else ""
        return f"install {toolchain.prefix}gcc{how} and put it on PATH"
    return HOW_TO_GET_ONE


def _probe(command: tuple[str, ...], toolchain: Toolchain) -> Compiler | None:
    cflags = toolchain.cflags
    macros = _macros(command, cflags)
    if macros is None:
        cflags = tuple(flag for flag in cflags if _known(command, flag))
        macros = _macros(command, cflags)
    if macros is None:
        return None
    return Compiler(command, cflags, toolchain.ldflags, macros)


def _known(command: tuple[str, ...], flag: str) -> bool:
    """Machine flags may be dropped; any other is needed and stays."""
    return not flag.startswith("-m") or _macros(command, (flag,)) is not None


def _macros(command: tuple[str, ...], cflags: Sequence[str]) -> str | None:
    """The macros predefined under ``cflags``, or None where they are refused."""
    try:
        result = subprocess.run(
            [*command, *cflags, "-dM", "-E", "-x", "c", "-"],
            input=PROBE,
            capture_output=True,
            text=True,
            timeout=PROBE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return result.stdout if result.returncode == 0 else None
