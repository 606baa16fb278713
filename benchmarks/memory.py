"""What a model takes of every board's memory.

    python benchmarks/memory.py MODEL.onnx
    python benchmarks/memory.py MODEL.onnx --markdown docs/boards.md

Bytes do not depend on calibration, so noise serves for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import numpy as np
from page import show

from refoldc.calibrate import calibrate
from refoldc.errors import DoesNotFit
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.ir import QGraph
from refoldc.memory import measure
from refoldc.options import CompileOptions
from refoldc.plan import plan
from refoldc.quantise import quantise

from refold.boards import Board, list_boards
from refold.placement import board_limits, free_sram, place

SECTION: Final = "memory"
"""Of a page, that holds the table."""
HEAD: Final = (
    "| board | tensors and scratch | adaptation state | link | hot weights | of RAM "
    "| constants | of flash |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|"
)


def quantised(model: Path) -> QGraph:
    """Import and quantise a network on pixels."""
    folded = fold(import_model(model))
    shape = (2, *folded.shapes[folded.input])
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    options = CompileOptions()
    return quantise(folded, calibrate(folded, images, options), options)


def render(graph: QGraph, boards: tuple[Board, ...]) -> str:
    """One row a board, in bytes."""
    return "\n".join((HEAD, *(row for board in boards for row in rows(graph, board))))


def rows(graph: QGraph, board: Board) -> Iterator[str]:
    """The board's row; one that cannot hold the model says so."""
    try:
        cells = " | ".join(_cells(graph, board))
    except DoesNotFit as error:
        cells = f"{error} |" + " |" * 5
    yield f"| `{board.id}` | {cells} |"


def _cells(graph: QGraph, board: Board) -> Iterator[str]:
    limits = board_limits(board)
    memory = measure(graph, plan(graph))
    yield f"{memory.arena_bytes - memory.adapt_state_bytes:,}"
    yield f"{memory.adapt_state_bytes:,}"
    if limits.ram_bytes is None:
        yield from ("", "", "")
    else:
        placement = place(graph, board)
        yield f"{memory.link_bytes(placement.window):,}"
        yield f"{placement.hot_bytes:,}"
        sizes = (free_sram(board), board.memory.psram_bytes)
        yield " + ".join(f"{size:,}" for size in sizes if size)
    yield f"{memory.constants(packed=limits.packed):,}"
    yield "" if limits.flash_bytes is None else f"{limits.flash_bytes:,}"


@click.command(help=__doc__)
@click.argument("model", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the table into this page, between its marks <!-- memory -->.",
)
def main(model: Path, markdown: Path | None) -> None:
    """Print the table, or write it."""
    show(render(quantised(model), list_boards()), markdown, SECTION)


if __name__ == "__main__":
    main()
