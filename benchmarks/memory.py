"""What a compiled model takes of every board's memory.

python benchmarks/memory.py ARTEFACT
python benchmarks/memory.py ARTEFACT --markdown docs/boards.md
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from refoldc.artefact import load_artefact
from refoldc.errors import DoesNotFit
from refoldc.ir import QGraph
from refoldc.memory import measure
from refoldc.plan import plan

from refold.boards import Board, list_boards
from refold.placement import board_limits, free_sram, place

MARKER: Final = "<!-- memory -->\n\n"
"""In a document, what the table follows."""
HEAD: Final = (
    "| board | tensors and scratch | adaptation state | link | hot weights | of RAM "
    "| constants | of flash |\n"
    "|---|--:|--:|--:|--:|--:|--:|--:|"
)


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
@click.argument("artefact", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Replace what this file holds below its line <!-- memory -->.",
)
def main(artefact: Path, markdown: Path | None) -> None:
    """Print the table, or write it."""
    text = render(load_artefact(artefact).qgraph, list_boards()) + "\n"
    if markdown is None:
        click.echo(text, nl=False)
        return
    head, marker, _ = markdown.read_text(encoding="utf-8").partition(MARKER)
    markdown.write_text(f"{head}{marker}{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
