"""What PACE may move in a network, and the memory that its search takes.

The sizes are those of firmware/src/pace.c; a test compares them with what
the runtime says.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.cut import Cut, find_cuts
from refoldc.errors import BadOptions
from refoldc.ir import F32, QDense, QGraph
from refoldc.plan import aligned
from refoldc.reference import Reference
from refoldc.sites import parse_sites

MOVED_CHANNELS = 32
"""Sites move from the first on, or from the last back, until they have so many
channels: early ones repair a shifted input; docs/pace.md says what else was tried."""
DIMENSION, WINDOW, BANK = 32, 16, 8
FULL_DIMENSION = 64
"""Up to so many dimensions CMA-ES keeps a full covariance."""
MAX_FEATURES = 2048
HEAD_BYTES, RECORD_HEADER_BYTES, CRC_BYTES = 800, 88, 4


@dataclass(frozen=True, eq=False)
class Features:
    """The input of the last layer on clean images, [F], in LSB.

    Attributes:
        mean, variance: Over images.
        weight: The real value of an LSB.
    """

    mean: F32
    variance: F32
    weight: F32


@dataclass(frozen=True)
class SearchPlan:
    """``refold_pace_plan`` but for :class:`Features`; the manifest has it, too.

    Attributes:
        sites: Numbers of the sites that move.
        channels: Of those sites.
        dimension: Most dimensions of a search.
        window: Most images that judge a candidate.
        bank: Domain vectors stored.
        beside_forge: The firmware contains FORGE, too.
        features: Values that the last layer reads; 0 where it is no dense one, or
            too wide.
        cut: Where its candidates begin.
    """

    sites: tuple[int, ...]
    channels: int
    dimension: int
    window: int
    bank: int
    beside_forge: bool
    features: int
    cut: Cut


def plan_search(
    graph: QGraph, adapt: str, moved_sites: str = "first"
) -> SearchPlan | None:
    """Choose what moves; None where the firmware contains no PACE.

    Candidates begin where that leaves least to run, whatever memory it takes:
    ``fit_search`` chooses another point where there is not enough.

    Args:
        graph: The integer network.
        adapt: The compile option.
        moved_sites: The compile option.

    Raises:
        BadOptions: The network's output is no vector of classes, or it has no such
            site.
    """
    if "pace" not in adapt or not graph.sites:
        return None
    shape = graph.shapes[graph.output]
    if len(graph.outputs) > 1 or prod(shape) != shape[-1] or prod(shape) < 2:
        raise BadOptions(
            f"adapt is '{adapt}', and the model's output is "
            f"{' x '.join(map(str, shape))}: PACE judges by the entropy of classes; "
            "compile with adapt 'forge'"
        )
    sites = choose_moved(graph, moved_sites)
    channels = sum(len(graph.sites[number].mean) for number in sites)
    return SearchPlan(
        sites=sites,
        channels=channels,
        dimension=min(DIMENSION, 2 * channels),
        window=WINDOW,
        bank=BANK,
        beside_forge="forge" in adapt,
        features=count_features(graph),
        cut=search_cuts(graph, sites)[0],
    )


def choose_moved(graph: QGraph, moved_sites: str) -> tuple[int, ...]:
    """Numbers of the sites that ``first``, ``last`` or a list such as 3+4 names.

    Raises:
        BadOptions: A site does not exist.
    """
    count = len(graph.sites)
    if moved_sites not in ("first", "last"):
        return tuple(sorted(parse_sites(moved_sites, count, option="moved_sites")))
    order = range(count) if moved_sites == "first" else range(count)[::-1]
    totals = accumulate(len(graph.sites[number].mean) for number in order)
    fitting = sum(total <= MOVED_CHANNELS for total in totals)
    return tuple(sorted(order[: max(fitting, 1)]))


def search_cuts(graph: QGraph, sites: tuple[int, ...]) -> tuple[Cut, ...]:
    """Where the candidates that move ``sites`` may begin, the best first."""
    numbers = {layer.name: number for number, layer in enumerate(graph.layers)}
    return find_cuts(graph, before=numbers[graph.sites[sites[0]].layer])


def count_features(graph: QGraph) -> int:
    """How many values the last layer reads, where PACE can compare them."""
    last = graph.layers[-1]
    count = prod(graph.shapes[last.inputs[0]]) if isinstance(last, QDense) else 0
    return count if count <= MAX_FEATURES else 0


def measure_features(
    graph: QGraph, search: SearchPlan | None, images: NDArray[Any]
) -> Features | None:
    """What the last layer reads of clean images, as the device receives them."""
    if search is None or search.features == 0:
        return None
    source = graph.layers[-1].inputs[0]
    reference = Reference(graph)
    read = np.stack([reference.tensors(image)[source].reshape(-1) for image in images])
    weight = np.full(read.shape[1], graph.quants[source].scale, np.float32)
    return Features(
        mean=read.mean(axis=0).astype(np.float32),
        variance=read.var(axis=0).astype(np.float32),
        weight=weight,
    )


def search_bytes(graph: QGraph, plan: SearchPlan) -> dict[str, int]:
    """RAM of the search by what it is for."""
    d, outputs = plan.dimension, graph.output_count
    factor = factor_floats(d)
    watched = len(graph.sites[plan.sites[0]].mean)
    theta = 1 << (2 * plan.channels - 1).bit_length()
    return {
        "search_window_bytes": plan.window * plan.cut.kept_bytes,
        "search_distribution_bytes": 4 * (9 * d + 2 * factor),
        "search_bank_bytes": 4 * plan.bank * d,
        "search_other_bytes": HEAD_BYTES
        + 4 * (2 * d + theta + 2 * plan.channels + 2 * plan.window)
        + 28 * watched
        + 20 * plan.features
        + 14 * outputs,
    }


def spare_bytes(graph: QGraph, search: SearchPlan | None) -> int:
    """What the window of a search takes beyond the least that it may keep."""
    if search is None:
        return 0
    least = min(cut.kept_bytes for cut in search_cuts(graph, search.sites))
    kept, fewest = search.window * search.cut.kept_bytes, search.window * least
    return aligned(kept) - aligned(fewest)


def search_record_bytes(graph: QGraph, plan: SearchPlan) -> int:
    """What a search adds to the saved state: ``refold_pace_record_bytes``."""
    d, outputs = plan.dimension, graph.output_count
    watched = len(graph.sites[plan.sites[0]].mean)
    floats = 3 + 4 * d + factor_floats(d) + plan.bank * d + 2 * watched + outputs
    floats += plan.features
    return RECORD_HEADER_BYTES + 4 * floats + CRC_BYTES


def factor_floats(d: int) -> int:
    """REFOLD_FACTOR_FLOATS: CMA-ES's factor of a covariance."""
    return d * (d + 1) // 2 if d <= FULL_DIMENSION else d
