"""Instructions that a compiled model's kernels execute on the ESP32-S3.

    python benchmarks/esp32s3_count.py ARTEFACT
    python benchmarks/esp32s3_count.py ARTEFACT --markdown docs/kernels.md

The SIMD kernels are run on the C model of their instructions, which counts what it
executes; around them the kernels declare what their scalar code costs, as read from
the loops (PIE_SCALAR). A layer without a SIMD kernel has no number. Cycles, memory
stalls and the arithmetic of FORGE's tables are not modelled.
"""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click
from page import show

from refoldc.artefact import load_artefact
from refoldc.cost import layer_macs
from refoldc.emit_layers import OPERATORS
from refoldc.ir import QGraph, QLayer

from refold.boards import load_board
from refold.resources import firmware_dir
from refold.toolchain import Compiler, find_compiler

HARNESS = Path(__file__).with_suffix(".c")
LANES: Final = 16
"""Multiplications of one instruction: its limit."""
INPUT_INSTRUCTIONS: Final = 8
"""Of the portable input table, a value: two loads, a store, address and loop."""
FEW_SITES: Final = 3
"""So many are named in the table."""
SECTION: Final = "counts"
"""Of a page, that holds the tables."""


@dataclass(frozen=True)
class Count:
    """One layer.

    Attributes:
        name: Of the layer.
        op: Its operator.
        macs: Multiply-accumulate operations.
        executed: Instructions by class, in the order of enum refold_pie_class; 0
            where no SIMD kernel runs.
    """

    name: str
    op: str
    macs: int
    executed: tuple[int, ...]

    @property
    def instructions(self) -> int:
        """Of all classes."""
        return sum(self.executed)

    @property
    def per_vector(self) -> float:
        """Instructions for 16 multiplications."""
        return LANES * self.instructions / self.macs if self.macs else 0.0


@dataclass(frozen=True)
class Run:
    """Adaptation at some sites: all instructions, and those above adaptation off."""

    sites: tuple[int, ...]
    instructions: int
    added: float


def build(artefact: Path, compiler: Compiler, folder: Path) -> Path:
    """Compile the counting program for an artefact."""
    firmware = firmware_dir()
    program = folder / "count"
    flags = ("-DREFOLD_ESP32S3", "-DREFOLD_PIE_COUNT", "-ffp-contract=off", "-O2")
    include = [f"-I{p}" for p in (firmware / "include", firmware / "src", artefact)]
    sources = sorted((firmware / "src").rglob("*.c"))
    command = [*compiler.command, "-std=c99", *flags, *include, str(HARNESS)]
    files = [*map(str, sources), str(artefact / "model.c")]
    subprocess.run([*command, *files, "-o", str(program), "-lm"], check=True)
    return program


def count(program: Path, graph: QGraph, *sites: int) -> list[Count]:
    """Run one image and return what every layer executed."""
    command = [str(program), *map(str, sites)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [tuple(map(int, line.split())) for line in output.splitlines()]
    return [
        _count(layer, graph, row) for layer, row in zip(graph.layers, rows, strict=True)
    ]


def _count(layer: QLayer, graph: QGraph, row: tuple[int, ...]) -> Count:
    op = OPERATORS[type(layer)].kind(layer)
    return Count(layer.name, op, layer_macs(layer, graph), row)


def total(counts: list[Count], graph: QGraph) -> int:
    """Of an image, the input table included."""
    pixels = graph.input_spec.table is not None
    height, width, channels = (*graph.shapes[graph.input], 1, 1)[:3]
    values = height * width * channels if pixels else 0
    return INPUT_INSTRUCTIONS * values + sum(c.instructions for c in counts)


def render(graph: QGraph, off: list[Count], runs: list[Run]) -> str:
    """The tables, as Markdown."""
    lines = [
        "| layer | operator | MACs | SIMD | scalar | instructions | a 16 MACs | "
        "of the limit |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
        *(_row(c) for c in off),
        "",
        "| adaptation | instructions an image | added |",
        "|---|--:|--:|",
        f"| off | {total(off, graph):,} | |",
        *(f"| {_sites(r)} | {r.instructions:,} | {r.added:.2%} |" for r in runs),
    ]
    return "\n".join(lines) + "\n"


def _row(c: Count) -> str:
    rate = f"{c.per_vector:.2f} | {1 / c.per_vector:.0%}" if c.per_vector else " | "
    *simd, scalar = c.executed
    done = f"{sum(simd):,} | {scalar:,} | {c.instructions:,}"
    return f"| {c.name} | {c.op} | {c.macs:,} | {done} | {rate} |"


def _sites(run: Run) -> str:
    named = ", ".join(map(str, run.sites))
    which = f" ({named})" if len(run.sites) <= FEW_SITES else ""
    return f"FORGE, {len(run.sites)} sites{which}"


def spread(count_of_sites: int) -> tuple[int, ...]:
    """Three sites: the first, the middle one and the last."""
    return tuple(sorted({0, count_of_sites // 2, count_of_sites - 1}))


def measure(path: Path, graph: QGraph) -> str:
    """The tables of an emitted model: adaptation off, at all sites and at three."""
    compiler = find_compiler(load_board("native").toolchain)
    with tempfile.TemporaryDirectory() as folder:
        program = build(path, compiler, Path(folder))
        off = count(program, graph)
        base = total(off, graph)
        runs = []
        everywhere = tuple(range(len(graph.sites)))
        for sites in (everywhere, spread(len(everywhere))) if everywhere else ():
            instructions = total(count(program, graph, *sites), graph)
            runs.append(Run(sites, instructions, instructions / base - 1))
    return render(graph, off, runs)


@click.command(help=__doc__)
@click.argument("artefact", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the tables into this page, between its marks <!-- counts -->.",
)
def main(artefact: Path, markdown: Path | None) -> None:
    """Print the tables, or write them."""
    show(measure(artefact, load_artefact(artefact).qgraph), markdown, SECTION)


if __name__ == "__main__":
    main()
