"""What a planned model costs in bytes, and whether a board has them.

The sizes are those of firmware/include/refold/arena.h and link.h; tests compare
them with what the runtime says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from refoldc.errors import DoesNotFit
from refoldc.input_spec import input_slots
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
from refoldc.packing import packed_weights
from refoldc.plan import ALIGNMENT, Plan, aligned
from refoldc.search import (
    SearchPlan,
    search_bytes,
    search_record_bytes,
    spare_bytes,
)
from refoldc.softmax import ENTRIES

CONTEXT_BYTES = 336
TENSOR_SLACK = 64
CONCAT_PART_BYTES = 16
BYTES_A_CHANNEL, BYTES_A_WIDEST_CHANNEL, BYTES_A_SITE = 18, 28, 8
RECORD_BYTES, RECORD_BYTES_A_CHANNEL = 60, 12
LINK_SLOT_BYTES, LINK_RESULT_BYTES = 16, 32


@dataclass(frozen=True)
class Limits:
    """What a board offers to the model, in bytes; None where nothing limits it.

    Attributes:
        board: Its id, for the message.
        ram_bytes: For the arena and what the link holds.
        fast_bytes: The same within the chip, where the board has slower RAM, too.
        flash_bytes: For weights and tables.
        packed: Its builds contain the weights a second time, for SIMD kernels.
        link_images: Images that its link must hold; 0 where nothing limits it.
        others: What else the message may recommend, the smallest first.
    """

    board: str
    ram_bytes: int | None = None
    flash_bytes: int | None = None
    packed: bool = False
    link_images: int = 0
    others: tuple[Limits, ...] = ()
    fast_bytes: int | None = None

    def holds(self, memory: Memory) -> bool:
        """Whether a model fits."""
        return self.lacking_ram(memory) <= 0 and self.lacking_flash(memory) <= 0

    def lacking_ram(self, memory: Memory) -> int:
        """Bytes of RAM that a model needs beyond what there is; negative: spare."""
        needed = memory.arena_bytes + memory.link_bytes(self.link_images)
        return 0 if self.ram_bytes is None else needed - self.ram_bytes

    def lacking_flash(self, memory: Memory) -> int:
        """Bytes of flash that a model needs beyond what there is; negative: spare."""
        constants = memory.constants(packed=self.packed)
        return 0 if self.flash_bytes is None else constants - self.flash_bytes


@dataclass(frozen=True)
class Memory:
    """Bytes of a model.

    Attributes:
        arena_bytes: All of RAM that inference asks for, adaptation state included.
        adapt_state_bytes: Of the arena.
        weights_bytes: Constants of every build.
        packed_bytes: Constants that only builds with SIMD kernels add.
        record_bytes: The adaptation state as it is saved.
        link_image_bytes: What the link holds for each image under way.
        adapt_items: What the adaptation state consists of.
        spare_bytes: Of the arena, what a search saves that keeps less of an image
            and runs more of the network.
    """

    arena_bytes: int
    adapt_state_bytes: int
    weights_bytes: int
    packed_bytes: int = 0
    record_bytes: int = 0
    link_image_bytes: int = 0
    adapt_items: Mapping[str, int] = field(default_factory=dict)
    spare_bytes: int = 0

    def link_bytes(self, images: int) -> int:
        """REFOLD_LINK_BYTES for a window of ``images``; 0 without a link."""
        if images == 0:
            return 0
        return aligned(self.record_bytes) + images * self.link_image_bytes

    def constants(self, *, packed: bool) -> int:
        """Weights and tables of a build, with SIMD kernels or without."""
        return self.weights_bytes + (self.packed_bytes if packed else 0)


def measure(graph: QGraph, plan: Plan, search: SearchPlan | None = None) -> Memory:
    """The bytes of a planned model.

    Args:
        graph: The network.
        plan: Of its activations.
        search: Of PACE, where the firmware contains it.
    """
    items = adapt_items(graph, search)
    state = sum(items.values())
    fixed = CONTEXT_BYTES + aligned(plan.activation_bytes + TENSOR_SLACK)
    return Memory(
        arena_bytes=fixed + aligned(plan.scratch_bytes) + state,
        adapt_state_bytes=state,
        weights_bytes=sum(constant_bytes(graph)) + feature_bytes(search),
        packed_bytes=sum(map(packed_bytes, graph.layers)),
        record_bytes=record_bytes(graph, search),
        link_image_bytes=link_image_bytes(graph),
        adapt_items=items,
        spare_bytes=spare_bytes(graph, search),
    )


def adapt_items(graph: QGraph, search: SearchPlan | None) -> dict[str, int]:
    """Bytes of the adaptation state by what they are for."""
    if not graph.sites:
        return {}
    items = {"statistics_bytes": adapt_bytes(graph)}
    if search:
        items |= search_bytes(graph, search)
        items["search_padding_bytes"] = -sum(items.values()) % ALIGNMENT
    return items


def feature_bytes(search: SearchPlan | None) -> int:
    """Three float constants a feature."""
    return 12 * search.features if search else 0


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


def record_bytes(graph: QGraph, search: SearchPlan | None) -> int:
    """What refold_adapt_save writes; 0 where nothing adapts."""
    channels = sum(len(site.mean) for site in graph.sites)
    if not channels:
        return 0
    record = RECORD_BYTES + RECORD_BYTES_A_CHANNEL * channels
    return record + (search_record_bytes(graph, search) if search else 0)


def link_image_bytes(graph: QGraph) -> int:
    """REFOLD_LINK_IMAGE_BYTES: one image, and two results that are kept."""
    logits = 4 * graph.output_count
    kept = LINK_RESULT_BYTES + aligned(logits)
    return aligned(input_slots(graph)[-1].end) + LINK_SLOT_BYTES + 2 * kept


def packed_bytes(layer: QLayer) -> int:
    """The weights as SIMD kernels load them; 0 where none of those runs."""
    packed = packed_weights(layer)
    return 0 if packed is None else packed.nbytes


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
    """Eight float constants a channel and a bit for whether it is live."""
    return 8 * site.mean.nbytes + (len(site.mean) + 7) // 8


def check_fits(plan: Plan, memory: Memory, limits: Limits) -> None:
    """Refuse a model that a board cannot hold.

    Raises:
        DoesNotFit: With the bytes needed and available, and a remedy.
    """
    lacking = limits.lacking_ram(memory)
    if lacking > 0:
        link = memory.link_bytes(limits.link_images)
        raise DoesNotFit(
            f"the model needs {memory.arena_bytes + link} bytes of RAM on board "
            f"{limits.board}, which has {limits.ram_bytes}: {plan.live_bytes} of them "
            f"are the tensors alive at layer {plan.peak_layer}, "
            f"{memory.adapt_state_bytes} adaptation state{listed(memory)}, {link} the "
            f"link's images and results. {ram_remedy(memory, limits, lacking)}"
        )
    if limits.lacking_flash(memory) > 0:
        raise DoesNotFit(
            f"the model's weights and tables are "
            f"{memory.constants(packed=limits.packed)} bytes, board {limits.board} has "
            f"{limits.flash_bytes} bytes of flash for them: use a narrower model or "
            f"{another_board(memory, limits) or 'a board with more flash'}"
        )


def listed(memory: Memory) -> str:
    """What the adaptation state consists of, where it is more than one thing."""
    if len(memory.adapt_items) < 2:
        return ""
    parts = (
        f"{name.removesuffix('_bytes').replace('_', ' ')} {size}"
        for name, size in memory.adapt_items.items()
    )
    return f" ({', '.join(parts)})"


def ram_remedy(memory: Memory, limits: Limits, lacking: int) -> str:
    """What would save the ``lacking`` bytes."""
    if lacking <= memory.spare_bytes:
        return (
            "It fits where the search keeps less of each image: compile with --board "
            f"{limits.board}"
        )
    if lacking <= memory.adapt_state_bytes:
        return "It fits without adaptation: compile with --adapt none"
    board = another_board(memory, limits) or "a board with more memory"
    return (
        f"It fits with {lacking} bytes less: use a smaller input or fewer channels at "
        f"that layer, or {board}"
    )


def another_board(memory: Memory, limits: Limits) -> str | None:
    """The smallest of the others that holds the model, for a message."""
    fitting = (other for other in limits.others if other.holds(memory))
    return next((f"board {other.board}, which holds it" for other in fitting), None)
