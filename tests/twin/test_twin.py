"""PACE as the C computes it: when it searches, what it keeps, what it refuses."""

from __future__ import annotations

import ctypes
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from small_model import make_images

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact
from refoldc.reference import Outcome, Reference

from refold.errors import InfraError
from refold.twin import Twin

WINDOW, POPULATION = 4, 5
PACE = AdaptConfig(
    method="pace",
    sigma=0.5,
    window=WINDOW,
    population=POPULATION,
    generations=3,
    shift=1000,
)
BOTH = replace(PACE, method="forge+pace", gate=False)
SEARCH = 1 + POPULATION * WINDOW
"""Forward passes of an image that a search went before."""


def dark_images(count: int, seed: int = 5) -> NDArray[np.uint8]:
    """A stream that has shifted."""
    return make_images(count, seed=seed) // 4


def stream(twin: Twin, images: NDArray[Any]) -> list[Outcome]:
    """The answers to ``images``."""
    return [twin.infer(image) for image in images]


def logits(outcomes: list[Outcome]) -> list[list[int]]:
    """Their logits, to be compared."""
    return [outcome.logits.tolist() for outcome in outcomes]


def test_memory_is_what_the_manifest_says(twin: Twin, artefact: Artefact) -> None:
    """The C asks for the manifest's bytes, whose items sum to the adaptation state."""
    memory = artefact.manifest.memory
    assert memory.arena_bytes == twin.arena_bytes
    assert memory.adapt_state_bytes == sum(memory.adapt_items.values())
    assert 16 * 64 == memory.adapt_items["search_window_bytes"]


def test_without_pace_it_is_the_reference(twin: Twin, artefact: Artefact) -> None:
    """Under FORGE answers and state equal those of the NumPy model."""
    reference, config = Reference(artefact.qgraph), AdaptConfig(interval=2)
    reference.configure(config)
    twin.configure(config)
    for image in dark_images(40):
        expected, actual = reference.infer(image), twin.infer(image)
        assert expected.logits.tolist() == actual.logits.tolist()
        assert expected[1:] == actual[1:]
    assert reference.save_state() == twin.save_state()


def test_a_search_follows_each_full_window(twin: Twin) -> None:
    """Until then answers are those of ``off``; its passes are the next image's."""
    images = dark_images(4 * WINDOW + 2)
    twin.configure(AdaptConfig(method="off"))
    off = logits(stream(twin, images))
    twin.configure(PACE)
    found = stream(twin, images)
    rest = [1] * (WINDOW - 1)
    passes = [1, *rest, *3 * [SEARCH, *rest], 1, 1]
    assert passes == [outcome.forward_passes for outcome in found]
    assert off[:WINDOW] == logits(found)[:WINDOW]
    assert off[WINDOW] != logits(found)[WINDOW]
    adapted = [True] * 3 * WINDOW + [False] * (WINDOW + 2)
    assert adapted == [outcome.adapted for outcome in found]


def test_a_searchs_time_is_apart(twin: Twin) -> None:
    """By a clock that ticks when it is read: in adapt_us, not in infer_us."""
    ticks = itertools.count()
    clock = ctypes.CFUNCTYPE(ctypes.c_uint32)(lambda: next(ticks))
    twin.configure(PACE)
    twin._c.refold_set_clock(twin._context, clock)
    reports = []
    for image in dark_images(WINDOW + 2):
        twin.infer(image)
        report = twin._c.refold_last(twin._context).contents
        reports.append((report.infer_us, report.adapt_us, report.search_us))
    twin._c.refold_set_clock(twin._context, None)
    assert [(1, 0, 0)] * WINDOW + [(1, 1, 1), (1, 0, 0)] == reports


@pytest.mark.parametrize("config", [PACE, BOTH], ids=["pace", "forge+pace"])
def test_replies_are_causal(twin: Twin, config: AdaptConfig) -> None:
    """What comes after an image changes nothing in the answer to it."""
    images, other = dark_images(14), dark_images(14, seed=6)
    twin.configure(config)
    expected = logits(stream(twin, images))
    mixed = np.concatenate([images[:9], other[9:]])
    twin.configure(config)
    actual = logits(stream(twin, mixed))
    assert expected[:9] == actual[:9]
    assert expected != actual


def test_a_stream_repeats_and_a_seed_changes_it(twin: Twin) -> None:
    """Equal configurations give equal bits; another seed searches elsewhere."""
    images, found = dark_images(12), []
    for config in (BOTH, BOTH, replace(BOTH, seed=2)):
        twin.configure(config)
        found.append((logits(stream(twin, images)), twin.save_state()))
    assert found[0] == found[1]
    assert found[0][0] != found[2][0]


def test_two_strange_windows_are_a_new_domain(twin: Twin) -> None:
    """At threshold 0 every second window is one: the first is not searched, and at the
    second the search so far is stored, and zero and the bank are asked first."""
    twin.configure(replace(PACE, shift=0))
    found = stream(twin, dark_images(6 * WINDOW))
    starts = [found[i * WINDOW].forward_passes for i in range(1, 6)]
    expected = [SEARCH, 1, SEARCH + 2 * WINDOW, 1, SEARCH + 3 * WINDOW]
    assert expected == starts


def test_one_strange_window_is_chance(twin: Twin) -> None:
    """It is passed over, and the search goes on as if it had not been."""
    images = dark_images(4 * WINDOW)
    twin.configure(replace(PACE, shift=1.5, weight=0))
    stream(twin, images[: 2 * WINDOW])
    before = twin.save_state()
    stream(twin, 255 - images[:WINDOW])
    assert before != twin.save_state()  # it is remembered, and what classes to expect
    found = stream(twin, images[2 * WINDOW :])
    passes = [outcome.forward_passes for outcome in found]
    assert [1] * WINDOW + [SEARCH] + [1] * (WINDOW - 1) == passes


def test_nothing_is_searched_behind_a_closed_gate(
    twin: Twin, artefact: Artefact
) -> None:
    """Clean images keep the gate closed, the network static and the cost at one."""
    twin.configure(replace(BOTH, gate=True))
    images = make_images(3 * WINDOW)
    found = stream(twin, images)
    twin.configure(AdaptConfig(method="off"))
    assert logits(stream(twin, images)) == logits(found)
    assert {(False, 1)} == {(o.gate, o.forward_passes) for o in found}


@pytest.mark.parametrize("config", [PACE, BOTH], ids=["pace", "forge+pace"])
def test_state_goes_on_elsewhere(
    library: Path, artefact: Artefact, config: AdaptConfig
) -> None:
    """A record saved between windows resumes search and bank bit for bit."""
    first, second = (Twin(library, artefact.qgraph) for _ in range(2))
    images, config = dark_images(6 * WINDOW), replace(config, shift=0.2)
    first.configure(config)
    stream(first, images[: 2 * WINDOW])
    second.configure(config)
    second.load_state(first.save_state())
    assert first.save_state() == second.save_state()
    rest = images[2 * WINDOW :]
    assert logits(stream(first, rest)) == logits(stream(second, rest))
    assert first.save_state() == second.save_state()


def test_damaged_and_foreign_state_is_refused(twin: Twin) -> None:
    """A flipped bit, or another seed's record, is refused and leaves a clean state."""
    twin.configure(BOTH)
    clean = twin.save_state()
    stream(twin, dark_images(2 * WINDOW))
    record = twin.save_state()
    for at in (0, 60, len(clean) // 2, len(record) - 300, len(record) - 1):
        damaged = bytearray(record)
        damaged[at] ^= 4
        with pytest.raises(InfraError, match="damaged or belongs to another model"):
            twin.load_state(bytes(damaged))
        assert clean == twin.save_state()
    twin.configure(replace(BOTH, seed=9))
    with pytest.raises(InfraError, match="damaged or belongs to another model"):
        twin.load_state(record)


@pytest.mark.parametrize(
    "field", [{"dimension": 13}, {"window": 17}], ids=["dimension", "window"]
)
def test_more_than_the_memory_is_refused(twin: Twin, field: dict[str, Any]) -> None:
    """d and window are bounded by what the model was compiled with."""
    with pytest.raises(InfraError, match="parameter is out of its range"):
        twin.configure(replace(PACE, **field))
