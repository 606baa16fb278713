"""Where a model's memory lies on a board: checked before anything is built.

Internal memory is fast and small. The arena is placed there first, then what the
link holds, then the weights that are read most often; what does not fit goes to
PSRAM where the board has it, and weights stay in flash.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from refoldc.cost import layer_macs
from refoldc.ir import QGraph
from refoldc.memory import Limits, Memory, check_fits, measure, packed_bytes
from refoldc.plan import plan
from refoldc.search import SearchPlan

from refold.boards import Board, list_boards

SIMD_CHIPS = ("esp32s3",)
"""Chips whose builds contain the packed weights."""
WINDOWS = (4, 3, 2)
"""Images under way at once, the best first; the link needs the last."""

Place = Literal["sram", "psram"]


@dataclass(frozen=True)
class Placement:
    """A model on a board.

    Attributes:
        memory: The model's bytes.
        window: Images under way at once.
        arena, link: Where they lie.
        hot: Packed arrays of model.c that lie in SRAM, besides flash.
        cold: Those that do not.
        hot_bytes: Of the hot ones.
    """

    memory: Memory
    window: int
    arena: Place
    link: Place
    hot: tuple[str, ...]
    cold: tuple[str, ...]
    hot_bytes: int


def board_limits(board: Board) -> Limits:
    """What a board offers to a model, and what others of its chip would."""
    others = (_limits(b) for b in list_boards() if b.chip == board.chip)
    limited = (o for o in others if o.ram_bytes is not None and o.board != board.id)
    ordered = sorted(limited, key=lambda o: (o.ram_bytes or 0, o.flash_bytes or 0))
    return replace(_limits(board), others=tuple(ordered))


def _limits(board: Board) -> Limits:
    """What one board offers; the arena lies in one memory."""
    memory = board.memory
    flash = memory.flash_bytes
    sizes = [s for s in (free_sram(board), memory.psram_bytes) if s is not None]
    return Limits(
        board=board.id,
        ram_bytes=max(sizes, default=None),
        flash_bytes=None if flash is None else flash - memory.system_flash_bytes,
        packed=board.chip in SIMD_CHIPS,
        link_images=WINDOWS[-1] if sizes else 0,
        fast_bytes=free_sram(board),
    )


def free_sram(board: Board) -> int | None:
    """Bytes of internal memory that the system leaves; None where unlimited."""
    memory = board.memory
    if memory.sram_bytes is None:
        return None
    return memory.sram_bytes - memory.system_sram_bytes


def constants_bytes(graph: QGraph, board: Board, *, search: SearchPlan | None) -> int:
    """Weights and tables in the board's builds."""
    memory = measure(graph, plan(graph), search)
    return memory.constants(packed=board.chip in SIMD_CHIPS)


def place(
    graph: QGraph, board: Board, *, search: SearchPlan | None = None
) -> Placement:
    """Place a model.

    Args:
        graph: The integer network.
        board: To hold it.
        search: Of PACE, where the firmware contains it.

    Raises:
        DoesNotFit: The board cannot hold it; the message has the numbers.
    """
    layout = plan(graph)
    memory = measure(graph, layout, search)
    check_fits(layout, memory, board_limits(board))
    free = free_sram(board) or 0
    window, arena, link = next(_choices(memory, board, free))
    free -= memory.arena_bytes if arena == "sram" else 0
    free -= memory.link_bytes(window) if link == "sram" else 0
    free -= memory.record_bytes  # the state on its way to flash
    hot = _hot(graph, free)
    return Placement(
        memory=memory,
        window=window,
        arena=arena,
        link=link,
        hot=tuple(array.name for array in hot),
        cold=tuple(a.name for a in _packed(graph) if a not in hot),
        hot_bytes=sum(array.size for array in hot),
    )


def describe(placement: Placement, board: Board) -> str:
    """One line for people: what lies where, and what there is for it."""
    memory, limits = placement.memory, board_limits(board)
    names = {"sram": "SRAM", "psram": "PSRAM"}
    link, constants = memory.link_bytes(placement.window), memory.constants
    return (
        f"{board.id}: {memory.arena_bytes:,} bytes of arena in "
        f"{names[placement.arena]}, {placement.window} images under way ({link:,} "
        f"bytes) in {names[placement.link]}, {placement.hot_bytes:,} of "
        f"{memory.packed_bytes:,} bytes of SIMD weights in SRAM, "
        f"{constants(packed=limits.packed):,} of {limits.flash_bytes or 0:,} bytes of "
        "flash"
    )


def _choices(
    memory: Memory, board: Board, free: int
) -> Iterator[tuple[int, Place, Place]]:
    """Ways to hold the arena and the link, the best first."""
    psram = board.memory.psram_bytes or 0
    arena = memory.arena_bytes
    for window in WINDOWS:
        if arena + memory.link_bytes(window) <= free:
            yield window, "sram", "sram"
    for window in WINDOWS:
        if arena <= free and memory.link_bytes(window) <= psram:
            yield window, "sram", "psram"
    for window in WINDOWS:
        if arena + memory.link_bytes(window) <= psram:
            yield window, "psram", "psram"


class _Packed(NamedTuple):
    """A packed array of model.c; ``reads``: how often an image uses each byte."""

    name: str
    size: int
    reads: float


def _packed(graph: QGraph) -> Iterator[_Packed]:
    for index, layer in enumerate(graph.layers):
        size = packed_bytes(layer)
        if size:
            reads = layer_macs(layer, graph) / size
            yield _Packed(f"layer_{index}_packed", size, reads)


def _hot(graph: QGraph, free: int) -> tuple[_Packed, ...]:
    """The packed arrays that are read most often, while they fit."""
    hot = []
    for array in sorted(_packed(graph), key=lambda a: a.reads, reverse=True):
        if array.size <= free:
            hot.append(array)
            free -= array.size
    return tuple(hot)
