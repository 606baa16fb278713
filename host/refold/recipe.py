"""Everything that determines a board's firmware: sources, compiler, flags.

``build.py`` compiles by it, and so do other build tools (``firmware/platformio``):
equal recipes have equal build hashes, whoever follows them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from refold.boards import Board
from refold.errors import UserError
from refold.resources import firmware_dir
from refold.toolchain import Compiler, find_compiler

BUILD_HASH_BYTES = 8


@dataclass(frozen=True)
class Recipe:
    """How a model's firmware is made.

    Attributes:
        compiler: Of the board.
        sources: C and assembly, the model's included.
        headers: All that a source may include.
        include: Folders of headers.
        linker_script: At most one.
        twin: It is the host's twin of a device: a library of portable kernels.
    """

    compiler: Compiler
    sources: tuple[Path, ...]
    headers: tuple[Path, ...]
    include: tuple[Path, ...]
    linker_script: tuple[Path, ...]
    twin: bool = False

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's arguments for every source, folders apart."""
        if self.twin:
            return (*self.compiler.cflags, "-fPIC")
        x86 = ("-DREFOLD_X86",) if self.compiler.defines("__x86_64__") else ()
        return (*self.compiler.cflags, *x86)

    def source_flags(self, source: Path) -> tuple[str, ...]:
        """The flags of one source: those that name the build are told its hash."""
        if b"REFOLD_BUILD_HASH" not in source.read_bytes():
            return self.flags
        return (*self.flags, f'-DREFOLD_BUILD_HASH="{self.build_hash}"')

    @property
    def link_flags(self) -> tuple[str, ...]:
        """The compiler's arguments before the objects when it links."""
        strip = "-dead_strip" if self.compiler.defines("__APPLE__") else "--gc-sections"
        script = (f"-Wl,-T,{path}" for path in self.linker_script)
        shared = ("-shared",) if self.twin else ()
        return (*self.compiler.cflags, *shared, f"-Wl,{strip}", *script)

    @cached_property
    def build_hash(self) -> str:
        """16 hexadecimal digits; the firmware reports them."""
        everything = (*self.sources, *self.linker_script)
        return self.digest(everything)[: 2 * BUILD_HASH_BYTES]

    def digest(self, sources: Iterable[Path], *more: str) -> str:
        """Hash of compiler, flags and texts; file names count, their place does not."""
        digest = hashlib.sha256()
        for text in (self.compiler.macros, *self.flags, *self.compiler.ldflags, *more):
            digest.update(text.encode() + b"\0")
        for path in (*self.headers, *sources):
            content = path.read_bytes()
            digest.update(f"{path.name}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()


def make_recipe(artefact: Path, board: Board) -> Recipe:
    """Return the recipe of an artefact's firmware for a board.

    Raises:
        UserError: The artefact is incomplete or there is no compiler.
    """
    firmware = firmware_dir()
    port = firmware / "ports" / board.port
    sources = [*sorted((firmware / "src").rglob("*.c")), *sorted(port.glob("*.[cS]"))]
    script = board.toolchain.linker_script
    model, header = _emitted(artefact)
    return Recipe(
        compiler=find_compiler(board.toolchain),
        sources=(*sources, model),
        headers=(*sorted(firmware.rglob("*.h")), header),
        include=(firmware / "include", firmware / "src", artefact),
        linker_script=(port / script,) if script else (),
    )


def make_twin_recipe(artefact: Path, board: Board) -> Recipe:
    """Return the recipe of a library that computes what the firmware does.

    It has the portable kernels only, whatever the computer, so that it is not what
    it is compared with.

    Args:
        artefact: Compiled model directory.
        board: Whose compiler makes it: the native one.

    Raises:
        UserError: The artefact is incomplete or there is no compiler.
    """
    firmware = firmware_dir()
    model, header = _emitted(artefact)
    return Recipe(
        compiler=find_compiler(board.toolchain),
        sources=(*sorted((firmware / "src").rglob("*.c")), model),
        headers=(*sorted(firmware.rglob("*.h")), header),
        include=(firmware / "include", firmware / "src", artefact),
        linker_script=(),
        twin=True,
    )


def _emitted(artefact: Path) -> tuple[Path, Path]:
    """The model's source and header."""
    model, header = artefact / "model.c", artefact / "model.h"
    for path in (model, header):
        if not path.is_file():
            raise UserError(
                f"{path} is missing: the artefact is incomplete; make it again with "
                f"'refold compile MODEL -o {artefact}'"
            )
    return model, header
