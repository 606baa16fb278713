"""The demonstration: the whole product on bundled data, under its own bounds."""

from __future__ import annotations

import json
import os
from types import SimpleNamespace

import pytest

from refold.cli import status
from refold.data import load_data
from refold.result import load_result
from refold.score import clean_loss, gain

LIMIT_CPU_S = 60.0
"""A minute on two cores, with room: processor time, because tests share them."""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Run ``refold demo`` once."""
    folder = tmp_path_factory.mktemp("demo") / "out"
    before = cpu_seconds()
    code = status(["demo", "-o", str(folder)])
    return SimpleNamespace(folder=folder, code=code, cpu_s=cpu_seconds() - before)


def cpu_seconds() -> float:
    """Return what this process and its ended children have used."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def test_the_demo_passes(shown: SimpleNamespace) -> None:
    """It ends with 0, complete, and no reply differs from the host model."""
    result = load_result(shown.folder / "result.json")
    assert (0, "pass", True) == (shown.code, result.verdict, result.complete)
    streams = [s for run in result.runs for s in run.streams]
    assert {0} == {s.parity_mismatches for s in streams}
    assert 2 * 16 == len(streams)
    assert all(s.images >= 300 for s in streams)


def test_adaptation_is_worth_it(shown: SimpleNamespace) -> None:
    """FORGE gains 8 points on corrupted images and loses at most 1.5 on clean."""
    off, forge = load_result(shown.folder / "result.json").runs
    assert off.clean_accuracy is not None
    assert off.clean_accuracy >= 97
    assert (gain(forge, off) or 0) >= 8
    assert (clean_loss(forge, off) or 0) <= 1.5


def test_the_demo_leaves_its_files(shown: SimpleNamespace) -> None:
    """Result, report and artefact lie where the design says, and nothing else."""
    names = sorted(path.name for path in shown.folder.iterdir())
    assert ["artefact", "report.html", "result.json"] == names
    page = (shown.folder / "report.html").read_text(encoding="utf-8")
    assert 4 == page.count("<figure>")
    manifest = json.loads((shown.folder / "artefact" / "refold.json").read_text())
    assert "refold.manifest/1" == manifest["schema"]


def test_the_demo_is_quick(shown: SimpleNamespace) -> None:
    """It takes less than a minute of processor time, compiler included."""
    assert shown.cpu_s < LIMIT_CPU_S


def test_the_demo_scores_images_it_was_not_calibrated_with() -> None:
    """Training and test split share no image."""
    train = load_data("digits", split="train").images
    test = load_data("digits", split="test").images
    seen = {image.tobytes() for image in train}
    assert not any(image.tobytes() in seen for image in test)
