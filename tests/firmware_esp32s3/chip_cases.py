"""Random calls as C, to be executed as machine code of the ESP32-S3.

Each call of :mod:`random_cases` becomes constants: its parameters, its inputs, and
what the portable kernel writes for them on this machine. chip_cases.c runs them.
"""

from __future__ import annotations

import ctypes as c
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cbuild import INCLUDE, ROOT
from numpy.typing import NDArray
from random_cases import DRAWS, Draw, Kernel
from simd_kernels import SOURCES

from refold.boards import Board
from refold.toolchain import find_compiler

HARNESS: Final = Path(__file__).with_suffix(".c")
RUN_S: Final = 120.0


class Writer:
    """Names arrays and writes their definitions."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def array(self, values: NDArray[Any]) -> str:
        """Define a constant and return its name."""
        name = f"a{len(self.lines)}"
        kind = f"{values.dtype.name}_t"
        numbers = ", ".join(f"{v}LL" for v in values.ravel()) or "0"
        # Kernels read up to 48 bytes beyond a tensor, as the runtime's memory allows.
        size = values.size + -(-64 // values.itemsize)
        self.lines.append(
            f"static REFOLD_ALIGNED const {kind} {name}[{size}] = {{{numbers}}};"
        )
        return name

    def params(self, params: c.Structure, alive: dict[int, NDArray[Any]]) -> str:
        """Define a call's parameters and return their name."""
        kind = f"refold_{type(params).__name__.lower()}_params"
        value = self._value(params, alive)
        name = f"a{len(self.lines)}"
        self.lines.append(f"static const {kind} {name} = {value};")
        return name

    def _value(self, value: Any, alive: dict[int, NDArray[Any]]) -> str:
        if not isinstance(value, c.Structure):
            return str(value)
        parts = []
        for name, kind, *_ in value._fields_:
            member = getattr(value, name)
            if kind is c.c_void_p:
                parts.append(self.array(alive[member]) if member else "0")
            else:
                parts.append(self._value(member, alive))
        return f"{{{', '.join(parts)}}}"


def write_cases(lib: c.CDLL, count: int, seed: int) -> str:
    """The text of cases.h.

    Args:
        lib: Portable kernels and the model's, on this machine.
        count: Calls.
        seed: Of what they are.
    """
    d, writer = Draw(seed), Writer()
    rows = [_row(d, lib, writer, number) for number in range(count)]
    table = ["static const chip_case cases[] = {", *rows, "};"]
    return "\n".join([*writer.lines, *table, ""])


def _row(d: Draw, lib: c.CDLL, writer: Writer, number: int) -> str:
    d.alive.clear()
    call = DRAWS[number % len(DRAWS)](d)
    for x in call.inputs:
        x.array[...] = d.bytes(*x.array.shape)
    kernel = Kernel(lib, call, "ref")
    assert kernel.run()
    alive = {guarded.pointer.value: guarded.array for guarded in d.alive}
    params = writer.params(call.params, alive)
    inputs = [writer.array(x.array) for x in call.inputs]
    out, *sums = kernel.written
    sides = [writer.array(s.array) if call.sums else "0" for s in sums]
    fields = (
        call.operator.upper(),
        f"&{params}",
        f"{{{', '.join(inputs)}}}",
        writer.array(out.array),
        str(out.array.nbytes),
        f"{{{', '.join(sides)}}}",
        f"{call.sums}, {call.shift}",
    )
    return f"    {{{', '.join(fields)}}},"


def build_cases(text: str, board: Board, folder: Path) -> Path:
    """Compile the program that runs the cases of ``text``."""
    (folder / "cases.h").write_text(text)
    compiler = find_compiler(board.toolchain)
    port = ROOT / "firmware/ports" / board.port
    sources = [*SOURCES, *port.glob("*_helpers.c"), port / "start.S", HARNESS]
    program = folder / "cases.elf"
    include = [f"-I{p}" for p in (INCLUDE, ROOT / "firmware/src", folder)]
    script = f"-Wl,--gc-sections,-T,{port / board.toolchain.linker_script}"
    command = [*compiler.command, *compiler.cflags, *include, script]
    tail = [*map(str, sources), *compiler.ldflags, "-o", str(program)]
    subprocess.run([*command, *tail], check=True)
    return program


def run_cases(program: Path, command: Sequence[str]) -> str:
    """What the program says when an emulator's command runs it.

    Args:
        program: Of :func:`build_cases`.
        command: In which ``{firmware}`` stands for the program; a serial port that
            waits for a host is left out, for none is needed.
    """
    parts = ("null" if part.startswith("tcp:") else part for part in command)
    done = subprocess.run(
        [part.replace("{firmware}", str(program)) for part in parts],
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    return done.stdout.strip()
