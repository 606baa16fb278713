"""Where the candidates of a search begin on a board: by the memory that it has."""

from __future__ import annotations

from dataclasses import replace

from refoldc.ir import QGraph
from refoldc.memory import Limits, measure
from refoldc.plan import Plan
from refoldc.search import SearchPlan, search_cuts


def fit_search(
    graph: QGraph, plan: Plan, search: SearchPlan | None, limits: Limits | None
) -> SearchPlan | None:
    """The search whose candidates have least to run of those that a board holds.

    Of those within the chip's own memory, if there are any: every image would pay for
    an arena in slower memory. Where the board holds none, the one that needs least,
    for the message.

    Args:
        graph: The network.
        plan: Of its activations.
        search: Of PACE, if the firmware contains it.
        limits: Of the board, if one was named.
    """
    if search is None or limits is None:
        return search
    ways = [replace(search, cut=cut) for cut in search_cuts(graph, search.sites)]
    within = replace(limits, ram_bytes=limits.fast_bytes or limits.ram_bytes)
    fitting = (
        way
        for bounds in (within, limits)
        for way in ways
        if bounds.holds(measure(graph, plan, way))
    )
    return next(fitting, min(ways, key=lambda way: way.cut.kept_bytes))
