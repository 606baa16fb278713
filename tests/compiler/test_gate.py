"""The gate's state machine, and what clean images set its thresholds to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import make_images, quantised, small_cnn

from refoldc.facts import (
    CHANGE_MARGIN,
    CHANGE_SETTLED,
    CHANGE_WINDOW,
    GATE_FIRST,
    GATE_MARGIN,
    GATE_WINDOW,
    TRIAL_MARGIN,
    Phase,
)
from refoldc.gate import GateState
from refoldc.measure_gate import measure_gate

LEVEL, NOISE = 1.0, 8.0


def step(gate: GateState, score: float, *, absorbed: int = 99) -> tuple[GateState, str]:
    """One image whose window scores ``score`` wherever that is asked."""
    look = gate.look(absorbed)
    return gate.decide(look, np.float32(score), level=LEVEL, noise=NOISE)


def test_a_closed_gate_does_not_decide_on_few_images() -> None:
    """However large the shift, the first images say nothing."""
    for n in range(GATE_FIRST - 1):
        gate, verdict = step(GateState(images=n), 1e3)
        assert (GateState(images=n + 1), "none") == (gate, verdict)


@pytest.mark.parametrize("n", [GATE_FIRST, 16, GATE_WINDOW])
def test_a_closed_gate_opens_beyond_level_and_noise(n: int) -> None:
    """Beyond the level by more than the margin times noise / n."""
    gate = GateState(images=n - 1)
    most = LEVEL + GATE_MARGIN * NOISE / n
    assert (GateState(Phase.OPEN), "open") == step(gate, most * 1.001)
    assert Phase.CLOSED == step(gate, most)[0].phase


def test_a_closed_gate_starts_afresh() -> None:
    """A full window without a shift is forgotten, statistics included."""
    assert (GateState(), "forget") == step(GateState(images=GATE_WINDOW - 1), 0)


@pytest.mark.parametrize("n", [GATE_FIRST, CHANGE_WINDOW])
def test_an_open_gate_sees_a_new_domain(n: int) -> None:
    """A window that is not of the running statistics puts the gate on trial."""
    gate = GateState(Phase.OPEN, n - 1)
    assert "stream" == gate.look(CHANGE_SETTLED)
    assert (GateState(Phase.TRIAL), "forget") == step(
        gate, CHANGE_MARGIN * NOISE / n * 1.001
    )
    assert Phase.OPEN == step(gate, CHANGE_MARGIN * NOISE / n)[0].phase


def test_unsettled_statistics_tell_no_domain() -> None:
    """Right after a reset the running statistics are no measure of a window."""
    gate = GateState(Phase.OPEN, CHANGE_WINDOW - 1)
    assert "not" == gate.look(CHANGE_SETTLED - 1)
    expected = GateState(Phase.OPEN), "window"
    assert expected == step(gate, 1e3, absorbed=CHANGE_SETTLED - 1)


def test_a_trial_ends_either_way() -> None:
    """At a smaller margin: a shifted stream stays open, a clean one closes the gate."""
    gate = GateState(Phase.TRIAL, CHANGE_WINDOW - 1)
    most = LEVEL + TRIAL_MARGIN * NOISE / CHANGE_WINDOW
    assert (GateState(Phase.OPEN), "window") == step(gate, most * 1.001)
    assert (GateState(), "forget") == step(gate, most)


def test_thresholds_come_from_clean_images() -> None:
    """Scattered images make noise; images without sites or scatter make none."""
    graph = quantised(small_cnn())
    images = make_images(graph.shapes[graph.input], 32)
    measured = measure_gate(graph, images)
    assert measured.gate_level > 0
    assert measured.gate_noise > 0
    same = measure_gate(graph, np.repeat(images[:1], 32, axis=0))
    assert same.gate_noise < 1e-3 * measured.gate_noise


def test_a_network_without_sites_has_no_thresholds() -> None:
    """Nothing is run for them."""
    graph = quantised(small_cnn())
    bare = replace(graph, layers=())
    assert bare is measure_gate(bare, np.zeros(0))
