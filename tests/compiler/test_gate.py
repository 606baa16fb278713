"""The gate's state machine, and what clean images set its threshold to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import make_images, quantised, small_cnn

from refoldc.facts import (
    GATE_FIRST,
    GATE_OPEN_WINDOW,
    GATE_RECHECK,
    GATE_SETTLED,
    GATE_WINDOW,
    Phase,
)
from refoldc.gate import GateState
from refoldc.ir import QConv
from refoldc.measure_gate import (
    LEAST_MARGIN,
    chances,
    find_margin,
    image_means,
    measure_gate,
)
from refoldc.reference import Reference

MARGIN, DOUBT = 2.0, 0.25
FAR = 1e3


def step(
    gate: GateState, distance: float, *, absorbed: int = 99
) -> tuple[GateState, str]:
    """One image whose window is at ``distance`` wherever that is asked."""
    return gate.decide(
        gate.look(absorbed - 1),
        np.float32(distance),
        absorbed=absorbed,
        margin=MARGIN,
        doubt=DOUBT,
    )


def test_a_closed_gate_does_not_decide_on_few_images() -> None:
    """However large the shift, the first images say nothing."""
    for n in range(GATE_FIRST - 1):
        gate, verdict = step(GateState(images=n), FAR)
        assert (GateState(images=n + 1), "none") == (gate, verdict)


@pytest.mark.parametrize("n", [GATE_FIRST, 16, GATE_WINDOW])
def test_a_closed_gate_opens_beyond_chance(n: int) -> None:
    """Chance is 1 / n for the window and the doubt about clean."""
    gate = GateState(images=n - 1)
    most = MARGIN * (1 / n + DOUBT)
    assert (GateState(Phase.OPEN), "open") == step(gate, most * 1.001)
    assert (GateState(images=n), "none") == step(gate, most * 0.999)


def test_a_closed_gate_goes_on_looking() -> None:
    """A full window stays full, and opens the gate whenever it has drifted."""
    full = GateState(images=GATE_WINDOW)
    assert (full, "none") == step(full, 0)
    assert (GateState(Phase.OPEN), "open") == step(full, FAR)


@pytest.mark.parametrize("n", [1, 9, GATE_OPEN_WINDOW])
def test_an_open_gate_sees_a_new_domain(n: int) -> None:
    """A window that is not of the running statistics begins the stream again."""
    gate = GateState(Phase.OPEN, n - 1)
    most = MARGIN * (1 / n + DOUBT)
    assert "stream" == gate.look(GATE_SETTLED)
    assert (GateState(), "forget") == step(gate, most * 1.001)
    assert (GateState(Phase.OPEN, n), "none") == step(gate, most * 0.999)


def test_unsettled_statistics_tell_no_domain() -> None:
    """Right after a reset the running statistics are no measure of a window."""
    gate = GateState(Phase.OPEN, 8)
    assert "not" == gate.look(GATE_SETTLED - 1)
    assert (GateState(Phase.OPEN, 9), "none") == step(gate, FAR, absorbed=GATE_SETTLED)


def test_an_open_gate_is_rechecked() -> None:
    """Now and then the static network runs, until the shift is seen once more."""
    gate, verdict = step(GateState(Phase.OPEN, 16), 0, absorbed=2 * GATE_RECHECK)
    assert (GateState(Phase.RECHECK), "switch") == (gate, verdict)
    for n in range(1, GATE_FIRST):
        gate, verdict = step(gate, FAR)
        assert (GateState(Phase.RECHECK, n), "none") == (gate, verdict)
    assert (GateState(Phase.OPEN), "switch") == step(gate, FAR)


def test_a_recheck_without_a_shift_closes_the_gate() -> None:
    """After a window of images that look clean."""
    gate = GateState(Phase.RECHECK, GATE_WINDOW - 2)
    gate, verdict = step(gate, 0)
    assert (GateState(Phase.RECHECK, GATE_WINDOW - 1), "none") == (gate, verdict)
    assert (GateState(), "forget") == step(gate, 0)


def test_clean_images_are_measured() -> None:
    """Their mean, its scatter and their number, against NumPy in float64."""
    graph = quantised(small_cnn())
    images = make_images(graph.shapes[graph.input], 32)
    means = image_means(Reference(graph), images).astype(float)
    measured = measure_gate(graph, images)
    clean = np.concatenate([site.clean for site in measured.sites])
    precision = np.concatenate([site.precision for site in measured.sites])
    least = np.concatenate([site.variance for site in graph.sites]) / 256
    np.testing.assert_allclose(means.mean(axis=0), clean, rtol=1e-5, atol=1e-5)
    expected = 1 / np.maximum(means.var(axis=0), least)
    np.testing.assert_allclose(expected, precision, rtol=1e-4)
    assert 1 / 32 == measured.gate_doubt


def test_sites_that_do_not_adapt_by_default_are_measured() -> None:
    """A mode may name them, so the choice of --sites changes nothing here."""
    graph = quantised(small_cnn())
    layers = tuple(
        replace(layer, site=replace(layer.site, default_on=False))
        if isinstance(layer, QConv) and layer.site is not None
        else layer
        for layer in graph.layers
    )
    images = make_images(graph.shapes[graph.input], 16)
    expected = measure_gate(graph, images)
    found = measure_gate(replace(graph, layers=layers), images)
    assert expected.gate_margin == found.gate_margin
    for one, other in zip(expected.sites, found.sites, strict=True):
        assert one.clean.tolist() == other.clean.tolist()
        assert one.precision.tolist() == other.precision.tolist()


def test_the_margin_keeps_the_gate_closed_on_clean_images() -> None:
    """A network whose clean windows stray gets a wider margin than the least."""
    graph = quantised(small_cnn())
    images = make_images(graph.shapes[graph.input], 32)
    means = image_means(Reference(graph), images)
    measured = measure_gate(graph, images)
    assert measured.gate_margin >= max(LEAST_MARGIN, chances(measured, means).max())
    assert LEAST_MARGIN == find_margin(measured, means.mean(axis=0)[None].repeat(9, 0))
    assert find_margin(measured, 9 * means) > LEAST_MARGIN


def test_a_network_without_sites_has_nothing_to_measure() -> None:
    """Nothing is run for it."""
    graph = quantised(small_cnn())
    bare = replace(graph, layers=())
    assert bare is measure_gate(bare, np.zeros(0))
