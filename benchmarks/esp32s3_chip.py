"""Executes the ESP32-S3's kernels in an emulator of the chip and counts.

    python benchmarks/esp32s3_chip.py ARTEFACT
    python benchmarks/esp32s3_chip.py ARTEFACT --markdown docs/kernels.md

The board esp32s3-qemu's compiler and emulator are used (see docs/boards.md). Random
calls of every SIMD kernel must write what the portable kernels do, and the artefact's
golden images must give the host model's logits and scores, with adaptation off, at
all sites and at three; there both with the gate, which stays closed on such few clean
images, and without it, when a table is made after every image. Then every layer's
executed instructions are shown, and what each part of FORGE adds: the emulator runs
with ``-icount``, in which CCOUNT advances by the same time for each instruction.

Exits 1 where a result differs or a bound is missed.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
import numpy as np
from esp32s3_count import FEW_SITES, spread
from msgspec import structs
from numpy.typing import NDArray
from page import show

from refoldc.adapt import AdaptConfig
from refoldc.artefact import GOLDEN, GOLDEN_INPUT, load_artefact
from refoldc.cost import layer_macs
from refoldc.emit_layers import OPERATORS
from refoldc.ir import QGraph
from refoldc.reference import Reference

from refold.boards import Board, load_board
from refold.emulation import lacking
from refold.errors import UserError
from refold.facts import SITE_MASK_BYTES
from refold.resources import firmware_dir
from refold.toolchain import find_compiler

TESTS: Final = Path(__file__).resolve().parents[1] / "tests"
HARNESS: Final = Path(__file__).with_suffix(".c")
BOARD: Final = "esp32s3-qemu"
SHIFT: Final = 4
"""Of ``-icount``: an instruction takes 2^4 ns, and so many cycles at 40 MHz:"""
CYCLES: Final = (1 << SHIFT) * 40e6 / 1e9
RUN_S: Final = 600.0
BASE_MOST: Final = 5_500_000
"""Instructions of ResNet-20 without adaptation, as the issue bounds them."""
ALL_MOST, FEW_MOST = 0.04, 0.015
SECTION: Final = "executed"


@dataclass(frozen=True)
class Mode:
    """FORGE at some sites; adaptation off where there are none.

    Attributes:
        sites: Their indices.
        gate: Static tables until the stream has shifted; else recomputed ones.
    """

    sites: tuple[int, ...] = ()
    gate: bool = True

    @property
    def config(self) -> AdaptConfig:
        """For the host model."""
        if not self.sites:
            return AdaptConfig(method="off")
        return AdaptConfig(sites=self.sites, gate=self.gate)

    @property
    def title(self) -> str:
        """Of a column."""
        if not self.sites:
            return "off"
        return f"{len(self.sites)} sites, gate {'closed' if self.gate else 'open'}"


@dataclass(frozen=True)
class Image:
    """What one image gave: instructions, and the outcome.

    Attributes:
        spent: Of each layer, of what follows the last, and of update, score and
            tables, which the layers contain.
        logits: int32 [C].
        score: The shift score.
    """

    spent: tuple[int, ...]
    logits: NDArray[np.int32]
    score: np.float32


def board(prefix: str | None, qemu: str | None) -> Board:
    """The board with another compiler or emulator, counting instructions.

    Raises:
        UserError: The emulator is not there.
    """
    known = load_board(BOARD)
    program, *arguments = known.link.emulator
    counting = (qemu or program, "-icount", f"shift={SHIFT}", *arguments)
    link = structs.replace(known.link, emulator=counting)
    toolchain = structs.replace(
        known.toolchain, prefix=prefix or known.toolchain.prefix
    )
    changed = structs.replace(known, link=link, toolchain=toolchain)
    missing = lacking(changed)
    if missing is not None:
        raise UserError(f"{missing}; install it ({known.link.install})")
    return changed


def without_port(command: Sequence[str], firmware: Path) -> list[str]:
    """The emulator's command for a program that needs no serial port."""
    parts = ("null" if part.startswith("tcp:") else part for part in command)
    return [part.replace("{firmware}", str(firmware)) for part in parts]


def site_mask(sites: Sequence[int]) -> bytes:
    """As refold_adapt_config has it."""
    mask = sum(1 << site for site in sites)
    return mask.to_bytes(SITE_MASK_BYTES, "little")


def plan(images: NDArray[Any], modes: Sequence[Mode]) -> str:
    """The text of plan.h."""
    rows = "".join(f"{{{_bytes(image.tobytes())}}},\n" for image in images)
    masks = "".join(
        f"{{{mode.gate:d}, {{{_bytes(site_mask(mode.sites))}}}}},\n" for mode in modes
    )
    return (
        f"#define IMAGES {len(images)}\n#define MODES {len(modes)}\n"
        "static REFOLD_ALIGNED const uint8_t "
        f"images[IMAGES][REFOLD_MODEL_INPUT_BYTES] = {{\n{rows}}};\n"
        f"static const mode modes[MODES] = {{\n{masks}}};\n"
    )


def _bytes(data: bytes) -> str:
    return ", ".join(map(str, data))


def build(artefact: Path, target: Board, text: str, folder: Path) -> Path:
    """Compile the counting program for an artefact and a plan."""
    (folder / "plan.h").write_text(text)
    firmware = firmware_dir()
    port = firmware / "ports" / target.port
    compiler = find_compiler(target.toolchain)
    program = folder / "chip.elf"
    include = [f"-I{p}" for p in (firmware / "include", firmware / "src", artefact)]
    sources = [*sorted((firmware / "src").rglob("*.c")), *port.glob("*_helpers.c")]
    script = f"-Wl,--gc-sections,-T,{port / target.toolchain.linker_script}"
    subprocess.run(
        [
            *(*compiler.command, *compiler.cflags, *include, f"-I{folder}", script),
            *map(str, (*sources, port / "start.S", artefact / "model.c", HARNESS)),
            *(*compiler.ldflags, "-o", str(program)),
        ],
        check=True,
    )
    return program


def execute(program: Path, target: Board) -> list[Image]:
    """Run the program and read what it prints."""
    done = subprocess.run(
        without_port(target.link.emulator, program),
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    if done.returncode != 0:
        raise UserError(f"the emulator ends with {done.returncode}: {done.stdout}")
    rows = [line.partition(": ")[2].split() for line in done.stdout.splitlines()]
    numbers = [[int(word, 16) for word in row] for row in rows]
    return list(map(_image, numbers[::2], numbers[1::2]))


def _image(layers: list[int], outcome: list[int]) -> Image:
    total, adapt, *logits, score = np.array(outcome, np.uint32)
    spent = (*layers, int(total) - sum(layers), int(adapt))
    return Image(
        spent=tuple(round(ticks / CYCLES) for ticks in spent),
        logits=np.array(logits, np.uint32).view(np.int32),
        score=score.view(np.float32),
    )


def differing(
    graph: QGraph, images: NDArray[Any], mode: Mode, ran: Sequence[Image]
) -> int:
    """How many images differ from the host model in any bit."""
    reference = Reference(graph)
    reference.configure(mode.config)
    wrong = 0
    for image, found in zip(images, ran, strict=True):
        outcome = reference.infer(image)
        same = np.array_equal(outcome.logits, found.logits)
        wrong += not (same and np.float32(outcome.shift_score) == found.score)
    return wrong


def least(ran: Sequence[Image]) -> tuple[int, ...]:
    """Instructions as in ``Image.spent``.

    Every 50 ms of its time the emulator gives the chip's other core a turn, which a
    layer that just ran seems to have taken. Images take the same instructions but for
    few, so the least over them is a layer's own.
    """
    columns = zip(*(image.spent for image in ran), strict=True)
    return tuple(map(min, columns))


def render(graph: QGraph, modes: Sequence[Mode], ran: Sequence[Sequence[int]]) -> str:
    """The tables, as Markdown.

    Args:
        graph: The network.
        modes: As :func:`run_modes` returns them.
        ran: Of each mode, what :func:`least` gives.
    """
    lines = ["| layer | operator | MACs |", "|---|---|--:|"]
    for mode in modes:
        lines[0] += f" {mode.title} |"
        lines[1] += "--:|"
    for layer, *counts in zip(graph.layers, *ran, strict=False):
        op, macs = OPERATORS[type(layer)].kind(layer), layer_macs(layer, graph)
        cells = " | ".join(f"{count:,}" for count in counts)
        lines.append(f"| {layer.name} | {op} | {macs:,} | {cells} |")
    totals = [sum(counts[:-1]) for counts in ran]
    added = " | ".join(f"{total / totals[0] - 1:.2%}" for total in totals[1:])
    lines.append(f"| all | | | {' | '.join(f'{total:,}' for total in totals)} |")
    lines.append(f"| added | | | | {added} |")
    return "\n".join((*lines, "", *parts(modes, ran))) + "\n"


def parts(modes: Sequence[Mode], ran: Sequence[Sequence[int]]) -> Iterator[str]:
    """What each part of FORGE adds to the network without it."""
    if len(modes) == 1:
        return
    sites = " | ".join(f"{len(mode.sites)} sites" for mode in modes[1:3])
    yield f"| part of FORGE | {sites} |"
    yield "|---|--:|--:|"
    off, *closed_then_open = (np.array([sum(c[:-1]), c[-1]]) for c in ran)
    closed, opened = closed_then_open[:2], closed_then_open[2:]
    rows = {
        "sums, in the kernels": [c[0] - off[0] - c[1] for c in closed],
        "update, score and window": [c[1] for c in closed],
        "together, while the gate is closed": [c[0] - off[0] for c in closed],
        "tables, while it is open": [
            o[0] - c[0] for c, o in zip(closed, opened, strict=True)
        ],
        "together": [o[0] - off[0] for o in opened],
    }
    for name, found in rows.items():
        yield f"| {name} | {' | '.join(f'{x / off[0]:.2%}' for x in found)} |"


def missed(modes: Sequence[Mode], ran: Sequence[Sequence[int]]) -> Iterator[str]:
    """The bounds that ResNet-20 misses."""
    off, *adapting = (sum(counts[:-1]) for counts in ran)
    if off > BASE_MOST:
        yield f"off: {off:,} instructions, bound {BASE_MOST:,}"
    for mode, found in zip(modes[1:], adapting, strict=True):
        most = FEW_MOST if len(mode.sites) == FEW_SITES else ALL_MOST
        if found > (1 + most) * off:
            yield f"{mode.title}: {found / off - 1:.2%} more, bound {most:.1%}"


def check_cases(target: Board, cases: int) -> str:
    """What the program of random calls says; see tests/firmware_esp32s3."""
    sys.path[:0] = [
        str(TESTS),
        *(str(TESTS / f) for f in ("firmware", "firmware_esp32s3")),
    ]
    from chip_cases import build_cases, run_cases, write_cases  # noqa: PLC0415
    from simd_kernels import build as build_model  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = write_cases(build_model("fast", folder), cases, seed=1)
        program = build_cases(text, target, folder)
        return run_cases(program, target.link.emulator)


@click.command(help=__doc__)
@click.argument("artefact", type=click.Path(exists=True, path_type=Path))
@click.option("--prefix", help="Of the compiler, such as xtensa-esp32s3-elf-.")
@click.option("--qemu", help="The emulator, such as qemu-system-xtensa.")
@click.option(
    "--cases", default=120, show_default=True, help="Random calls to compare."
)
@click.option("--bounds/--no-bounds", default=False, help="Judge ResNet-20's counts.")
@click.option("--markdown", type=click.Path(dir_okay=False, path_type=Path))
def main(
    artefact: Path,
    prefix: str | None,
    qemu: str | None,
    cases: int,
    bounds: bool,
    markdown: Path | None,
) -> None:
    """Check, count and show."""
    try:
        complaints = run(board(prefix, qemu), artefact, cases, bounds, markdown)
    except UserError as error:
        raise click.UsageError(str(error)) from None
    for complaint in complaints:
        click.echo(complaint, err=True)
    sys.exit(1 if complaints else 0)


def run(
    target: Board, artefact: Path, cases: int, bounds: bool, markdown: Path | None
) -> list[str]:
    """Return what is wrong."""
    said = check_cases(target, cases)
    click.echo(f"random calls: {said}")
    complaints = [] if said == f"agree: {cases}" else [f"random calls: {said}"]
    graph = load_artefact(artefact).qgraph
    modes, images, ran = run_modes(target, artefact)
    for mode, found in zip(modes, ran, strict=True):
        wrong = differing(graph, images, mode, found)
        click.echo(f"{mode.title}: {wrong} of {len(images)} images differ")
        complaints += [f"{mode.title}: {wrong} images differ"] if wrong else []
    counts = [least(found) for found in ran]
    show(render(graph, modes, counts), markdown, SECTION)
    return [*complaints, *(missed(modes, counts) if bounds else ())]


def run_modes(
    target: Board, artefact: Path
) -> tuple[tuple[Mode, ...], NDArray[Any], list[list[Image]]]:
    """Run the golden images: the modes, the images, and what each mode gave.

    The modes are: off; all sites and few with the gate; the same without it.
    """
    everywhere = tuple(range(len(load_artefact(artefact).qgraph.sites)))
    places = (everywhere, spread(len(everywhere))) if everywhere else ()
    adapting = (Mode(sites, gate) for gate in (True, False) for sites in places)
    modes = (Mode(), *adapting)
    images = np.load(artefact / GOLDEN)[GOLDEN_INPUT]
    with tempfile.TemporaryDirectory() as folder:
        program = build(artefact, target, plan(images, modes), Path(folder))
        ran = execute(program, target)
    step = len(images)
    return modes, images, [ran[i : i + step] for i in range(0, len(ran), step)]


if __name__ == "__main__":
    main()
