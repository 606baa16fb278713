"""Where candidates begin: what one tensor separates from the rest of the network."""

from __future__ import annotations

from dataclasses import replace

import pytest
from graphs import GraphBuilder, quantised, small_cnn

from refoldc.cut import Cut, find_cuts
from refoldc.errors import BadOptions
from refoldc.ir import QGraph
from refoldc.options import CompileOptions
from refoldc.ports import Input, Output
from refoldc.search import choose_moved, plan_search, search_cuts

IMAGE = 8 * 8 * 3


def residual() -> QGraph:
    """Pixels, a stem, two blocks of two convolutions and a sum, a pool, 4 classes."""
    b = GraphBuilder((8, 8, 3))
    stem = b.conv("t0", 4)
    middle = b.add(b.conv(b.conv(stem, 4), 4), stem)
    b.add(b.conv(b.conv(middle, 4), 4), middle)
    b.global_pool(b.last)
    b.dense(b.last, 4)
    return quantised(b.graph())


def searched(graph: QGraph, moved: str) -> Cut:
    """Where the candidates begin that move these sites."""
    plan = plan_search(graph, "pace", moved)
    assert plan is not None
    return plan.cut


def reads_from(graph: QGraph, first: int) -> set[str]:
    """What the layers from ``first`` on read, or give, and do not write."""
    layers = graph.layers[first:]
    reads = {name for layer in layers for name in layer.inputs}
    return (reads | set(graph.output_tensors)) - {layer.output for layer in layers}


@pytest.mark.parametrize("graph", [residual(), quantised(small_cnn())], ids=str)
def test_cuts_are_all_points_that_one_tensor_crosses(graph: QGraph) -> None:
    """By definition: what later layers read and do not write is that tensor alone."""
    last = len(graph.layers) - 1
    expected = {
        first: name
        for first in range(1, last + 1)
        for name in reads_from(graph, first)
        if len(reads_from(graph, first)) == 1
    }
    cuts = find_cuts(graph, before=last)
    found = {cut.first: cut.tensor for cut in cuts if cut.tensor is not None}
    assert expected == found
    assert [None] == [cut.tensor for cut in cuts if cut.first == 0]


@pytest.mark.parametrize(
    ("moved", "first", "tensor", "size"),
    [
        ("0", 0, None, IMAGE),
        ("1", 1, "t1", 8 * 8 * 4),
        ("2", 1, "t1", 8 * 8 * 4),
        ("3", 4, "t4", 8 * 8 * 4),
        ("4", 4, "t4", 8 * 8 * 4),
        ("4+1", 1, "t1", 8 * 8 * 4),
    ],
)
def test_inside_a_block_its_input_is_kept(
    moved: str, first: int, tensor: str | None, size: int
) -> None:
    """Two tensors are alive within a block, and the earliest moved site decides."""
    cut = searched(residual(), moved)
    assert (first, tensor, size) == (cut.first, cut.tensor, cut.kept_bytes)


def test_macs_are_those_of_the_layers_that_run() -> None:
    """Of two convolutions of 4 channels and the dense layer."""
    macs = 2 * 8 * 8 * 4 * 3 * 3 * 4 + 4 * 4
    assert macs == searched(residual(), "3").macs


def test_branches_meet_in_a_concatenation() -> None:
    """Between its branches nothing can be cut, behind it the joined tensor can."""
    b = GraphBuilder((8, 8, 3))
    left, right = b.conv("t0", 4), b.conv("t0", 2)
    joined = b.concat(left, right)
    b.conv(joined, 4)
    b.dense(b.last, 4)
    graph = quantised(b.graph())
    assert (0, None) == (searched(graph, "1").first, searched(graph, "1").tensor)
    assert (3, joined) == (searched(graph, "2").first, searched(graph, "2").tensor)


def test_among_equal_work_least_is_kept() -> None:
    """Behind a pool there is less to keep than before it, and no more to run."""
    b = GraphBuilder((8, 8, 3))
    b.pool(b.conv("t0", 4), "max", kernel=(2, 2), stride=(2, 2))
    b.conv(b.last, 4)
    b.dense(b.last, 4)
    graph = quantised(b.graph())
    keeps = [(cut.first, cut.kept_bytes) for cut in search_cuts(graph, (1,))]
    assert [(2, 64), (1, 256), (0, IMAGE)] == keeps


def test_layers_without_work_save_nothing() -> None:
    """Before the first convolution the image itself is kept."""
    b = GraphBuilder((8, 8, 3))
    b.pool("t0", "average", kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1))
    b.conv(b.last, 4)
    b.dense(b.last, 4)
    assert 0 == searched(quantised(b.graph()), "0").first


def test_several_inputs_and_outputs() -> None:
    """Inputs are kept together; an output that has been made must be kept, too."""
    b = GraphBuilder((8, 8, 3))
    b.shapes["other"] = (8, 8, 4)
    joined = b.add(b.conv("t0", 4), "other")
    b.conv(joined, 4)
    b.dense(b.last, 4)
    graph = replace(b.graph(), inputs=(Input("t0"), Input("other")))
    options = CompileOptions(input="tensor")
    sizes = [(c.first, c.kept_bytes) for c in find_cuts(quantised(graph, options), 2)]
    assert [(2, 256), (0, IMAGE + 256)] == sizes
    outputs = (Output("t4", "t4"), Output("t1", "t1"))
    both = quantised(replace(graph, outputs=outputs), options)
    assert [0] == [cut.first for cut in find_cuts(both, 2)]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("first", (0, 1)), ("last", (3,)), ("2", (2,)), ("3+0+3", (0, 3))],
)
def test_which_sites_move(choice: str, expected: tuple[int, ...]) -> None:
    """From either end as many as have 32 channels, one at least; or those named."""
    b = GraphBuilder((8, 8, 3))
    for channels in (16, 16, 8, 40):
        b.conv(b.last, channels)
    b.dense(b.last, 4)
    assert expected == choose_moved(quantised(b.graph()), choice)


def test_sites_that_do_not_exist() -> None:
    """Are refused by number."""
    with pytest.raises(BadOptions, match="moved_sites is '5': site 5 does not exist"):
        plan_search(residual(), "forge+pace", "5")
