"""The sites that adapt by default where ``--sites auto:K`` leaves it to us."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from refoldc.errors import BadOptions
from refoldc.ir import Graph, QConv, QGraph
from refoldc.options import CompileOptions
from refoldc.rank_sites import rank_sites
from refoldc.ranking import Ranking, auto_count


def choose_sites(
    graph: Graph,
    quantised: QGraph,
    images: NDArray[Any],
    corrupted: Mapping[str, NDArray[Any]] | None,
    options: CompileOptions,
    *,
    progress: Callable[[str], None],
) -> tuple[QGraph, Ranking | None]:
    """Let the first K sites of a ranking adapt where the options say ``auto:K``.

    Raises:
        BadOptions: There are fewer sites, or nothing to rank them with.
    """
    count = auto_count(options.sites)
    if count is None:
        return quantised, None
    sites = sum(site.default_on for site in quantised.sites)
    _check_rankable(options.sites, sites, graph)
    if not corrupted:
        raise BadOptions(
            f"sites is '{options.sites}': sites are ranked on corrupted calibration "
            "images, and there are none: give some (corrupted=...), or name the sites"
        )
    progress("rank sites")
    ranking = rank_sites(
        *(graph, quantised, images, corrupted, options), progress=progress
    )
    return with_default_sites(quantised, ranking, count), ranking


def with_default_sites(graph: QGraph, ranking: Ranking, count: int) -> QGraph:
    """The network in which the ``count`` most useful sites adapt by default."""
    chosen, shrinkage = ranking.first(count)
    names = {graph.sites[number].layer for number in chosen}
    layers = tuple(
        replace(layer, site=replace(layer.site, default_on=layer.name in names))
        if isinstance(layer, QConv) and layer.site is not None
        else layer
        for layer in graph.layers
    )
    return replace(graph, layers=layers, shrinkage=shrinkage)


def _check_rankable(choice: str, sites: int, graph: Graph) -> None:
    """Refuse ``auto:K`` with fewer sites than K, or without one output of classes."""
    count = auto_count(choice) or 0
    if count > sites:
        raise BadOptions(
            f"sites is '{choice}': the sites of the model that can be ranked are "
            f"{sites}; give a smaller K, or 'all'"
        )
    classes = [graph.shapes[output.tensor][-1] for output in graph.outputs]
    if len(classes) > 1 or classes[0] < 2:
        raise BadOptions(
            f"sites is '{choice}': sites are ranked by how they keep the classes of "
            f"corrupted images, which needs one output of at least two channels, and "
            f"the model's outputs have {', '.join(map(str, classes))}; give 'all' or "
            "site numbers (refold inspect lists them)"
        )
