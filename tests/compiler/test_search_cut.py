"""Candidates that share the beginning of the network find what whole ones find."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cbuild import compile_shared
from emitted import STAMP, runtime, write_sources
from graphs import RELU, GraphBuilder, make_images, quantised

from refoldc.adapt import AdaptConfig
from refoldc.emit import emit_model
from refoldc.errors import DoesNotFit
from refoldc.fit_search import fit_search
from refoldc.ir import QGraph
from refoldc.memory import Limits, check_fits, measure
from refoldc.plan import plan
from refoldc.search import SearchPlan, measure_features, plan_search, search_cuts

from refold.twin import Twin

SHAPE = (8, 8, 3)
WINDOW = 4
PACE = AdaptConfig(
    method="pace",
    sigma=0.5,
    window=WINDOW,
    population=5,
    generations=3,
    shift=0.2,
)
LATE = (3, 4)
"""The sites of the second block."""


def residual() -> QGraph:
    """A stem, two blocks of two convolutions and a sum, a pool, 4 classes."""
    b = GraphBuilder(SHAPE)
    b.conv("t0", 4, bounds=RELU)
    for _ in range(2):
        start = b.last
        b.add(b.conv(b.conv(start, 4, bounds=RELU), 4), start, bounds=RELU)
    b.global_pool(b.last)
    b.dense(b.last, 4)
    return replace(quantised(b.graph()), gate_margin=1.0, gate_doubt=0.05)


GRAPH = residual()
LAYOUT = plan(GRAPH)


def searches() -> list[SearchPlan]:
    """That move the late sites, from all points where candidates may begin."""
    search = plan_search(GRAPH, "forge+pace", "3+4")
    assert search is not None
    return [replace(search, cut=cut) for cut in search_cuts(GRAPH, search.sites)]


def library(search: SearchPlan, folder: Path) -> Path:
    """The model with a search, as a shared library."""
    folder.mkdir()
    memory = measure(GRAPH, LAYOUT, search)
    features = measure_features(GRAPH, search, make_images(SHAPE, 8))
    sources = emit_model(GRAPH, LAYOUT, memory, search, features, stamp=STAMP)
    made = compile_shared(
        [write_sources(sources, folder), Path(runtime()._name)],
        include=[folder],
        out_dir=folder,
    )
    return Path(made._name)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One for each point, the latest first; the last keeps the image."""
    folder = tmp_path_factory.mktemp("cuts")
    return [library(s, folder / str(i)) for i, s in enumerate(searches())]


def answers(twin: Twin, config: AdaptConfig, count: int = 60) -> list[object]:
    """All that the twin says of a stream whose brightness changes, and its state."""
    images = make_images(SHAPE, count)
    images[count // 3 :] //= 3
    images[2 * count // 3 :] = 255 - images[2 * count // 3 :]
    twin.configure(config)
    said = []
    for image in images:
        logits, *rest = twin.infer(image)
        said.append((logits.tolist(), *rest))
    return [*said, twin.save_state()]


@pytest.mark.parametrize(
    "config",
    [
        PACE,
        replace(PACE, method="forge+pace", gate=False, sites=LATE),
        replace(PACE, method="forge+pace", sites=LATE),
        replace(PACE, method="forge+pace", gate=False, sites=LATE, stats="exact"),
    ],
    ids=["pace", "both", "gated", "exact"],
)
def test_equal_beginnings_give_equal_bits(
    libraries: list[Path], config: AdaptConfig
) -> None:
    """Where the layers before the cut stay as they are, every answer is the same."""
    whole, *parts = (answers(Twin(made, GRAPH), config) for made in libraries[::-1])
    assert len(parts) > 1
    assert max(said[-1] for said in whole[:-1]) > 1  # type: ignore[index, type-var]
    for part in parts:
        assert whole == part


def test_a_beginning_that_adapts_is_kept_as_it_was(libraries: list[Path]) -> None:
    """Whole candidates see its tables of later images; the first search is then other.

    Nothing differs before it, so only the image's own past is in what is kept.
    """
    config = replace(PACE, method="forge+pace", gate=False, sites=(0, 1, 2))
    part, whole = (
        answers(Twin(libraries[at], GRAPH), config) for at in (0, len(libraries) - 1)
    )
    assert whole[:WINDOW] == part[:WINDOW]
    assert whole[WINDOW] != part[WINDOW]


@pytest.mark.parametrize("search", searches(), ids=lambda s: str(s.cut.first))
def test_memory_is_what_the_firmware_asks_for(
    search: SearchPlan, tmp_path: Path
) -> None:
    """The arena, and in it as many tensors as the window has images."""
    memory = measure(GRAPH, LAYOUT, search)
    twin = Twin(library(search, tmp_path / "made"), GRAPH)
    assert twin.arena_bytes == memory.arena_bytes
    kept = memory.adapt_items["search_window_bytes"]
    assert search.window * search.cut.kept_bytes == kept


def test_a_window_that_is_emptied_keeps_the_image_under_way(
    libraries: list[Path],
) -> None:
    """It becomes the first, wherever it was put when it began to run."""
    lib = ctypes.CDLL(str(libraries[0]))
    lib.refold_pace_bytes.restype = ctypes.c_size_t
    lib.refold_pace_init.restype = ctypes.c_void_p
    model = ctypes.byref(ctypes.c_void_p.in_dll(lib, "refold_model_data"))
    size = searches()[0].cut.kept_bytes
    memory = np.zeros(lib.refold_pace_bytes(model) // 8, np.int64)
    pace = ctypes.c_void_p(
        lib.refold_pace_init(model, ctypes.c_void_p(memory.ctypes.data))
    )
    first, second = (bytes([value]) * size for value in (11, 22))
    lib.refold_pace_take(pace, first)
    lib.refold_pace_keep(pace, bytes(16))
    at = memory.tobytes().index(first)
    lib.refold_pace_take(pace, second)
    lib.refold_pace_empty(pace)
    lib.refold_pace_keep(pace, bytes(16))
    assert second == memory.tobytes()[at : at + size]


def test_a_board_decides_what_is_kept() -> None:
    """The latest point that its fast memory holds, or else all of it, if it has one."""
    ways = searches()
    needs = [measure(GRAPH, LAYOUT, way).arena_bytes for way in ways]
    assert min(needs) == needs[-1] < needs[0] == needs[1]
    for limits, way in (
        (None, ways[0]),
        (Limits("b", needs[0]), ways[0]),
        (Limits("b", needs[0] - 1), ways[-1]),
        (Limits("b", needs[0], fast_bytes=needs[-1]), ways[-1]),
        (Limits("b", needs[0], fast_bytes=needs[-1] - 1), ways[0]),
    ):
        assert way == fit_search(GRAPH, LAYOUT, ways[0], limits)


def test_a_board_that_holds_no_search_is_told_the_least() -> None:
    """The message is about the smallest window."""
    limits = Limits("b", 1000)
    found = fit_search(GRAPH, LAYOUT, searches()[0], limits)
    memory = measure(GRAPH, LAYOUT, found)
    with pytest.raises(DoesNotFit, match=f"needs {memory.arena_bytes} bytes .*search"):
        check_fits(LAYOUT, memory, limits)
    assert 0 == memory.spare_bytes


def test_an_artefact_made_for_no_board_is_told_to_name_one() -> None:
    """Where a search that keeps less would fit."""
    memory = measure(GRAPH, LAYOUT, searches()[0])
    assert memory.spare_bytes > 0
    limits = Limits("b", memory.arena_bytes - 1)
    with pytest.raises(DoesNotFit, match=r"keeps less of each image: .*--board b"):
        check_fits(LAYOUT, memory, limits)
