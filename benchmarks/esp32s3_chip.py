"""Executes the ESP32-S3's kernels in an emulator of the chip and counts.

    python benchmarks/esp32s3_chip.py ARTEFACT
    python benchmarks/esp32s3_chip.py ARTEFACT --markdown docs/kernels.md

The board esp32s3-qemu's compiler and emulator are used (see docs/boards.md). Random
calls of every SIMD kernel must write what the portable kernels do, and the artefact's
golden images must give the host model's logits and scores, with adaptation off, at
all sites and at three. Then every layer's executed instructions are shown, the
recomputation of FORGE's tables included: the emulator runs with ``-icount``, in which
CCOUNT advances by the same time for each instruction, whatever it is.

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
from esp32s3_count import spread
from msgspec import structs
from numpy.typing import NDArray

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
MARKER: Final = "<!-- executed -->\n\n"
END: Final = "<!-- /executed -->\n"


@dataclass(frozen=True)
class Image:
    """What one image gave: instructions of each layer, and the outcome."""

    layers: tuple[int, ...]
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


def plan(images: NDArray[Any], modes: Sequence[Sequence[int]]) -> str:
    """The text of plan.h."""
    rows = "".join(f"{{{_bytes(image.tobytes())}}},\n" for image in images)
    masks = "".join(f"{{{_bytes(site_mask(sites))}}},\n" for sites in modes)
    return (
        f"#define IMAGES {len(images)}\n#define MODES {len(modes)}\n"
        "static REFOLD_ALIGNED const uint8_t "
        f"images[IMAGES][REFOLD_MODEL_INPUT_BYTES] = {{\n{rows}}};\n"
        f"static const uint8_t modes[MODES][REFOLD_SITE_MASK_BYTES] = {{\n{masks}}};\n"
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
    total, *logits, score = np.array(outcome, np.uint32)
    spent = (*layers, int(total) - sum(layers))
    return Image(
        layers=tuple(round(ticks / CYCLES) for ticks in spent),
        logits=np.array(logits, np.uint32).view(np.int32),
        score=score.view(np.float32),
    )


def differing(
    graph: QGraph, images: NDArray[Any], sites: Sequence[int], ran: Sequence[Image]
) -> int:
    """How many images differ from the host model in any bit."""
    reference = Reference(graph)
    method = "forge" if sites else "off"
    reference.configure(AdaptConfig(method=method, sites=tuple(sites)))
    wrong = 0
    for image, found in zip(images, ran, strict=True):
        outcome = reference.infer(image)
        same = np.array_equal(outcome.logits, found.logits)
        wrong += not (same and np.float32(outcome.shift_score) == found.score)
    return wrong


def least(ran: Sequence[Image]) -> tuple[int, ...]:
    """Instructions of each layer, and of what follows the last.

    Every 50 ms of its time the emulator gives the chip's other core a turn, which a
    layer that just ran seems to have taken. Images take the same instructions but for
    few, so the least over them is a layer's own.
    """
    columns = zip(*(image.layers for image in ran), strict=True)
    return tuple(map(min, columns))


def render(
    graph: QGraph, modes: Sequence[Sequence[int]], ran: Sequence[Sequence[int]]
) -> str:
    """The tables, as Markdown.

    Args:
        graph: The network.
        modes: Sites of each.
        ran: Of each mode, what :func:`least` gives.
    """
    lines = ["| layer | operator | MACs |", "|---|---|--:|"]
    for sites in modes:
        lines[0] += f" {_title(sites)} |"
        lines[1] += "--:|"
    for layer, *counts in zip(graph.layers, *ran, strict=False):
        op, macs = OPERATORS[type(layer)].kind(layer), layer_macs(layer, graph)
        cells = " | ".join(f"{count:,}" for count in counts)
        lines.append(f"| {layer.name} | {op} | {macs:,} | {cells} |")
    totals = [sum(counts) for counts in ran]
    added = " | ".join(f"{total / totals[0] - 1:.2%}" for total in totals[1:])
    lines.append(f"| all | | | {' | '.join(f'{total:,}' for total in totals)} |")
    lines.append(f"| added | | | | {added} |")
    return "\n".join(lines) + "\n"


def _title(sites: Sequence[int]) -> str:
    return f"FORGE, {len(sites)} sites" if sites else "off"


def missed(ran: Sequence[Sequence[int]]) -> Iterator[str]:
    """The bounds that ResNet-20 misses."""
    off, everywhere, few = map(sum, ran)
    if off > BASE_MOST:
        yield f"off: {off:,} instructions, bound {BASE_MOST:,}"
    for name, found, most in (("all", everywhere, ALL_MOST), ("few", few, FEW_MOST)):
        if found > (1 + most) * off:
            yield f"FORGE, {name} sites: {found / off - 1:.2%} more, bound {most:.1%}"


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
    images = np.load(artefact / GOLDEN)[GOLDEN_INPUT]
    everywhere = tuple(range(len(graph.sites)))
    modes = ((), everywhere, spread(len(everywhere))) if everywhere else ((),)
    with tempfile.TemporaryDirectory() as folder:
        program = build(artefact, target, plan(images, modes), Path(folder))
        ran = execute(program, target)
    parts = [ran[i : i + len(images)] for i in range(0, len(ran), len(images))]
    for sites, part in zip(modes, parts, strict=True):
        wrong = differing(graph, images, sites, part)
        click.echo(f"{_title(sites)}: {wrong} of {len(images)} images differ")
        complaints += [f"{_title(sites)}: {wrong} images differ"] if wrong else []
    counts = [least(part) for part in parts]
    show(render(graph, modes, counts), markdown)
    return [*complaints, *(missed(counts) if bounds else ())]


def show(text: str, markdown: Path | None) -> None:
    """Print the tables, or put them between a document's marks."""
    if markdown is None:
        click.echo(text, nl=False)
        return
    head, _, tail = markdown.read_text(encoding="utf-8").partition(MARKER)
    _, end, tail = tail.partition(END)
    markdown.write_text(f"{head}{MARKER}{text}\n{end}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
