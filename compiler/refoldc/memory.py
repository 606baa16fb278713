"""What a planned model costs in bytes, and whether a board has them.

The sizes are those of firmware/include/refold/arena.h; a test compares them with
what the runtime says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from refoldc.errors import DoesNotFit
from refoldc.ir import (
    QConcat,
    QConv,
    QDense,
    QGraph,
    QLayer,
    QPick,
    QPool,
    QStored,
    QTable,
    Site,
)
from refoldc.plan import Plan, aligned
from refoldc.softmax import ENTRIES

CONTEXT_BYTES = 256
TENSOR_SLACK = 64
CONCAT_PART_BYTES = 16
BYTES_A_CHANNEL, BYTES_A_WIDEST_CHANNEL, BYTES_A_SITE = 26, 24, 8


@dataclass(frozen=True)
class Limits:
    """What a board offers to the model, in bytes; None where nothing limits it.

    Attributes:
        board: Its id, for the message.
        ram_bytes: For the arena.
        flash_bytes: For weights and tables.
    """

    board: str
    ram_bytes: int | None = None
    flash_bytes: int | None = None


@dataclass(frozen=True)
class Memory:
    """Bytes of a model: all of RAM that it asks for, and its constants."""

    arena_bytes: int
    adapt_state_bytes: int
    weights_bytes: int


def measure(graph: QGraph, plan: Plan) -> Memory:
    """The bytes of a planned model."""
    state = adapt_bytes(graph)
    fixed = CONTEXT_BYTES + aligned(plan.activation_bytes + TENSOR_SLACK)
    return Memory(
        arena_bytes=fixed + aligned(plan.scratch_bytes) + state,
        adapt_state_bytes=state,
        weights_bytes=sum(constant_bytes(graph)),
    )


def adapt_bytes(graph: QGraph) -> int:
    """RAM that FORGE keeps: REFOLD_ADAPT_BYTES."""
    widths = [len(site.mean) for site in graph.sites]
    if not widths:
        return 0
    return aligned(
        BYTES_A_CHANNEL * sum(widths)
        + BYTES_A_WIDEST_CHANNEL * max(widths)
        + BYTES_A_SITE * len(widths)
    )


def constant_bytes(graph: QGraph) -> Iterator[int]:
    """Bytes of the arrays that model.c holds, layer by layer."""
    if graph.input_spec.table is not None:
        yield graph.input_spec.table.nbytes
    yield 2 * ENTRIES
    for layer in graph.layers:
        yield layer_bytes(layer)
    for site in graph.sites:
        yield site_bytes(site)


def layer_bytes(layer: QLayer) -> int:
    """Weights and tables of one layer."""
    if isinstance(layer, (QConv, QDense)):
        requant = layer.requant.m.nbytes + layer.requant.b.nbytes
        return layer.weights.nbytes + layer.offset.nbytes + requant
    if isinstance(layer, QPool):
        return layer.requant.m.nbytes + layer.requant.b.nbytes + 4 * len(layer.counts)
    if isinstance(layer, QConcat):
        return CONCAT_PART_BYTES * len(layer.parts)
    if isinstance(layer, QPick):
        return 2 * sum(map(len, layer.index))
    if isinstance(layer, QStored):
        return layer.values.nbytes
    return layer.table.nbytes if isinstance(layer, QTable) else 0


def site_bytes(site: Site) -> int:
    """Five float constants a channel and a bit for whether it is live."""
    return 5 * site.mean.nbytes + (len(site.mean) + 7) // 8


def check_fits(plan: Plan, memory: Memory, limits: Limits) -> None:
    """Refuse a model that a board cannot hold.

    Raises:
        DoesNotFit: With the bytes needed and available, and a remedy.
    """
    ram, flash = limits.ram_bytes, limits.flash_bytes
    if ram is not None and memory.arena_bytes > ram:
        raise DoesNotFit(
            f"the model needs {memory.arena_bytes} bytes of RAM on board "
            f"{limits.board}, which has {ram}: {plan.live_bytes} of them are the "
            f"tensors alive at layer {plan.peak_layer}, {memory.adapt_state_bytes} "
            f"adaptation state. {ram_remedy(memory, ram)}"
        )
    if flash is not None and memory.weights_bytes > flash:
        raise DoesNotFit(
            f"the model's weights and tables are {memory.weights_bytes} bytes, board "
            f"{limits.board} has {flash} bytes of flash: use a narrower model or a "
            "board with more flash"
        )


def ram_remedy(memory: Memory, ram: int) -> str:
    """What would bring the arena under ``ram`` bytes."""
    if memory.arena_bytes - memory.adapt_state_bytes <= ram:
        return "It fits without adaptation: compile with --adapt none"
    missing = memory.arena_bytes - ram
    return (
        f"It fits with {missing} bytes less: use a smaller input or fewer channels at "
        "that layer, or a board with more memory"
    )
