"""Bounds: what they mean, what they refuse, when they are missed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from sample_results import make_result, make_run, two_modes

from refold.bounds import METRICS, check_bounds, measure, missed, parse_bound
from refold.errors import UserError
from refold.result import Percentiles


@pytest.mark.parametrize(
    ("text", "mode", "metric", "op", "value"),
    [
        ("forge.gain>=20", "forge", "gain", ">=", 20.0),
        ("forge.worst >= -2", "forge", "worst", ">=", -2.0),
        ("parity==0", None, "parity", "==", 0.0),
        ("latency_p95_us<=3e4", None, "latency_p95_us", "<=", 30000.0),
        (
            "forge:a=0.5;stats=exact.gain>20.5",
            "forge:a=0.5;stats=exact",
            "gain",
            ">",
            20.5,
        ),
        ("energy_mj<1", None, "energy_mj", "<", 1.0),
    ],
)
def test_expressions_are_taken_apart(
    text: str, mode: str | None, metric: str, op: str, value: float
) -> None:
    """A mode may itself hold dots and equals signs."""
    bound = parse_bound(text)
    assert (mode, metric, op, value) == (
        bound.mode,
        bound.metric,
        bound.op,
        bound.value,
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("forge.gain", "is no bound"),
        ("forge.gain=20", "is no bound"),
        (">=20", "is no bound"),
        ("gain>=abc", "is no bound"),
        ("forge.gian>=2", "did you mean 'gain'"),
        ("forge.gane>=2", "did you mean 'gain' or 'gate'"),
    ],
)
def test_malformed_bounds_are_refused(text: str, words: str) -> None:
    """What is no bound is a user error that shows one."""
    with pytest.raises(UserError, match=words):
        parse_bound(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("forge.gain>=0", [14.5]),  # (30 - 1) / 2
        ("forge.worst>=0", [-1.0]),
        ("forge.clean_loss<=0", [0.5]),
        ("gain>=0", [14.5]),
        ("accuracy>=0", [90.0, 40.0, 85.0, 89.5, 70.0, 84.0]),
        ("forge.mean_accuracy>=0", [77.0]),
        ("clean_accuracy>=0", [90.0, 89.5]),
        ("off.latency_max_us<=0", [3000.0] * 3),
        ("arena_bytes<=0", [4096.0]),
        ("energy_mj<=0", []),
    ],
)
def test_metrics_are_found(text: str, expected: list[float]) -> None:
    """A bound without a mode speaks of all runs, one on streams of all streams."""
    found = [number for _, number in measure(parse_bound(text), two_modes())]
    assert pytest.approx(expected) == found


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("forge.gain>=14.5", True),
        ("forge.gain>=14.6", False),
        ("forge.worst>=-1", True),
        ("forge.worst>=0", False),
        ("parity==0", True),
        ("accuracy>=40", True),
        ("accuracy>40", False),
        ("latency_p50_us<=1000", True),
        ("latency_p50_us<1000", False),
        ("energy_mj<=10", False),
    ],
)
def test_every_number_must_keep_its_bound(text: str, kept: bool) -> None:
    """The worst number decides; one that was not measured misses."""
    assert kept is not bool(missed([parse_bound(text)], two_modes()))


def test_a_missed_bound_says_what_was_found() -> None:
    """The sentence names the bound and the number farthest from it."""
    (sentence,) = missed([parse_bound("accuracy>=86")], two_modes())
    assert "bound accuracy>=86 is missed: found 40 (off, gaussian_noise)" == sentence


def test_every_numeric_key_of_a_result_can_be_bounded() -> None:
    """No number of result.json is out of reach of --fail-under."""
    slow = Percentiles(p50=1, p95=2, max=3)
    result = make_result(make_run("off", {"fog": 1.0}, latency_us=slow))
    run = msgspec.to_builtins(result.runs[0])
    keys = set(_numeric(run)) | set(_numeric(run["streams"][0]))
    keys |= set(_numeric(msgspec.to_builtins(result.memory)))
    keys |= set(_numeric(msgspec.to_builtins(result.model)))
    for span in ("latency", "adapt"):
        keys |= {f"{span}_{rank}_us" for rank in ("p50", "p95", "max")}
    places = {"severity", "round", "repeat", "segment", "block_images"}
    assert set() == keys - places - set(METRICS)


def _numeric(fields: dict[str, Any]) -> list[str]:
    return [key for key, value in fields.items() if isinstance(value, int | float)]


ANSWERABLE = {
    "modes": ["off", "forge"],
    "clean": True,
    "corrupted": True,
    "checked": True,
}


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        ("pace.gain>=1", {}, "no mode 'pace'"),
        ("forge.gain>=1", {"modes": ["forge"]}, "add off"),
        ("gain>=1", {"modes": ["off"]}, "name a mode that adapts"),
        ("off.gain>=1", {}, "name a mode that adapts"),
        ("clean_loss<=1", {"clean": False}, "no clean images"),
        ("worst>=1", {"corrupted": False}, "no corrupted stream"),
        ("parity==0", {"checked": False}, "--no-check"),
        ("forge.arena_bytes<=1", {}, "leave the mode out"),
    ],
)
def test_unanswerable_bounds_are_refused_before_the_run(
    text: str, changes: dict[str, Any], words: str
) -> None:
    """A bound on what will not be there is found before anything streams."""
    with pytest.raises(UserError, match=words):
        check_bounds([parse_bound(text)], **{**ANSWERABLE, **changes})


def test_answerable_bounds_pass() -> None:
    """Nothing is refused that a run can answer."""
    texts = ["forge.gain>=1", "parity==0", "clean_loss<=1", "arena_bytes<=1"]
    check_bounds([parse_bound(text) for text in texts], **ANSWERABLE)  # type: ignore[arg-type]
