"""The benchmarks' device in process: what it answers is what the host model says."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact
from refoldc.pipeline import compile_model
from refoldc.reference import Reference

from refold.corrupt import corrupt, image_rng
from refold.data import load_data
from refold.resources import bundled_model

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import contenders
from native_model import NativeModel

IMAGES = 60


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """The bundled network."""
    train = load_data("digits", split="train", limit=256)
    place = tmp_path_factory.mktemp("digits") / "artefact"
    return compile_model(bundled_model(), train.images, place)


@pytest.fixture(scope="module")
def images() -> NDArray[np.uint8]:
    """Digits, the second half of them faded."""
    clean = load_data("digits", split="test", limit=IMAGES).images
    rest = [
        corrupt(image, "contrast", 5, image_rng(0, number, "contrast", 5))
        for number, image in enumerate(clean[IMAGES // 2 :])
    ]
    return np.concatenate([clean[: IMAGES // 2], np.stack(rest)])


@pytest.mark.parametrize("gate", [False, True])
def test_logits_and_gate(
    artefact: Artefact, images: NDArray[np.uint8], gate: bool
) -> None:
    """Image by image, with the gate and without."""
    config = AdaptConfig(gate=gate)
    device, reference = NativeModel(artefact), Reference(artefact.qgraph)
    device.configure(config)
    reference.configure(config)
    expected = [reference.infer(image) for image in images]
    answers = device.run(images)
    assert [list(one.logits) for one in expected] == answers.logits.tolist()
    assert [one.gate is not False for one in expected] == answers.is_open.tolist()
    assert (not gate) == bool(answers.is_open.all())


def test_the_timed_firmware_adapts(
    artefact: Artefact, images: NDArray[np.uint8], tmp_path: Path
) -> None:
    """FORGE of native.py is FORGE at every site, ungated."""
    reference = Reference(artefact.qgraph)
    reference.configure(AdaptConfig(gate=False))
    device = NativeModel(artefact)
    timed = contenders.Firmware(device.library, artefact, images, forge=True)
    for number, image in enumerate(images[-10:], start=IMAGES - 10):
        timed(number)
        assert list(reference.infer(image).logits) == timed.logits.tolist()
