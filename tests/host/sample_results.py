"""Small results to judge, print and render in tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from refold.result import (
    SCHEMA,
    BoardRecord,
    DataRecord,
    Memory,
    Model,
    Percentiles,
    Result,
    Run,
    Stream,
)
from refold.score import gains, score_run

IMAGES = 200


def make_stream(corruption: str, accuracy: float, **changes: Any) -> Stream:
    """Return a stream of 200 images; ``changes`` replace fields."""
    correct = round(accuracy * IMAGES / 100)
    fields: dict[str, Any] = {
        "corruption": corruption,
        "severity": 0 if corruption == "clean" else 5,
        "images": IMAGES,
        "correct": correct,
        "accuracy": accuracy,
        "parity_mismatches": 0,
        "frames_resent": 0,
        "latency_us": Percentiles(p50=1000, p95=1500, max=3000),
        "adapt_us": Percentiles(p50=50, p95=60, max=90),
        "forward_passes": IMAGES,
        "adapted_images": 0,
        "gate": None,
        "energy_mj": None,
        "round": 0,
        "repeat": 0,
        "segment": 0,
        "blocks": (correct // 2, correct - correct // 2),
        "block_images": IMAGES // 2,
        "latency_quantiles_us": tuple(range(500, 2600, 100)),
    }
    return Stream(**{**fields, **changes})


def make_run(adapt: str, accuracies: Mapping[str, float], **changes: Any) -> Run:
    """Return a run with one stream a corruption; ``changes`` go to each stream."""
    streams = [make_stream(name, acc, **changes) for name, acc in accuracies.items()]
    return score_run(adapt, streams, seconds=1.5)


def make_result(*runs: Run, **changes: Any) -> Result:
    """Return a result of ``runs``; ``changes`` replace fields."""
    fields: dict[str, Any] = {
        "schema": SCHEMA,
        "tool": {"refold": "0.1.0"},
        "verdict": "pass",
        "complete": True,
        "model": Model(
            name="digits",
            sha256="ab" * 32,
            macs=1000,
            parameters=100,
            sites=2,
            site_channels=24,
        ),
        "memory": Memory(
            arena_bytes=4096,
            weights_bytes=20000,
            adapt_state_bytes=192,
            code_bytes=9000,
        ),
        "board": BoardRecord(id="native", chip="native", build="cd" * 8, port="/dev/x"),
        "data": DataRecord(
            spec="digits", images=IMAGES, severity=5, seed=0, sha256="ef" * 32
        ),
        "runs": runs,
        "gain": gains(runs),
    }
    return Result(**{**fields, **changes})


def two_modes() -> Result:
    """Return off and forge on clean and two corruptions: +30 and -1 points."""
    off = {"clean": 90.0, "gaussian_noise": 40.0, "brightness": 85.0}
    forge = {"clean": 89.5, "gaussian_noise": 70.0, "brightness": 84.0}
    return make_result(make_run("off", off), make_run("forge", forge))
