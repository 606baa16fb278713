"""The gate on streams of images: the bundled network, and ResNet-20 where it lies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from emitted import EmittedModel
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.facts import GATE_WINDOW
from refoldc.pipeline import compile_model

from refold.corrupt import corrupt, image_rng
from refold.data import load_data
from refold.resources import bundled_model

IMAGES = 80
U8 = NDArray[np.uint8]


@pytest.fixture(scope="module")
def images() -> U8:
    """Digits that the network was neither trained nor calibrated on."""
    return load_data("digits", split="test", limit=IMAGES).images


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> EmittedModel:
    """The bundled network as C."""
    folder = tmp_path_factory.mktemp("digits")
    train = load_data("digits", split="train", limit=256)
    artefact = compile_model(bundled_model(), train.images, folder / "artefact")
    return EmittedModel(artefact.qgraph, folder)


def faded(images: U8) -> U8:
    """The images under a shift that the network's sites see."""
    changed = [
        corrupt(image, "contrast", 5, image_rng(0, i, "contrast", 5))
        for i, image in enumerate(images)
    ]
    return np.stack(changed)


def run(
    device: EmittedModel, config: AdaptConfig, images: U8
) -> tuple[list[list[int]], list[bool | None]]:
    """Logits, and whether the gate was open, of a stream from the clean state."""
    device.configure(config)
    outcomes = [device.infer(image) for image in images]
    return [o.logits.tolist() for o in outcomes], [o.gate for o in outcomes]


def test_a_clean_stream_runs_the_static_network(
    device: EmittedModel, images: U8
) -> None:
    """The gate stays closed, and no bit of an answer differs from off."""
    static, _ = run(device, AdaptConfig(method="off"), images)
    gated, gates = run(device, AdaptConfig(), images)
    assert [False] * IMAGES == gates
    assert static == gated


def test_a_shifted_stream_opens_the_gate(device: EmittedModel, images: U8) -> None:
    """Within a window, and for good."""
    _, gates = run(device, AdaptConfig(), faded(images))
    assert [True] * (IMAGES - GATE_WINDOW) == gates[GATE_WINDOW:]


def test_a_clean_stream_after_a_shifted_one(device: EmittedModel, images: U8) -> None:
    """The gate closes within 20 images of the change, and stays closed."""
    stream = np.concatenate([faded(images), images])
    _, gates = run(device, AdaptConfig(), stream)
    assert [False] * (IMAGES - 20) == gates[IMAGES + 20 :]


@pytest.mark.slow
def test_resnet20_keeps_the_bounds_of_the_page(
    repo_root: Path, shared: Path, tmp_path: Path
) -> None:
    """All but those that docs/gate.md says are missed."""
    page = Path(shutil.copy(repo_root / "docs/gate.md", tmp_path))
    result = subprocess.run(
        [
            *(sys.executable, repo_root / "benchmarks/gate.py"),
            *("--model", shared / "models/resnet20_cifar10_forge.onnx"),
            *("--calib", f"cifar10:{shared / 'data/cifar10'}"),
            *("--data", f"npz:{shared / 'data/cifar10c_sev5_1000.npz'}"),
            *("--output", page),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert result.returncode in (0, 1), result.stderr
    section = page.read_text().partition("<!-- /resnet20_cifar10_forge -->")[0]
    bounds = [line for line in section.splitlines() if line.startswith("- ")]
    assert 6 == len(bounds)
    assert [] == [line for line in bounds[:4] if line.endswith("**missed**")]
