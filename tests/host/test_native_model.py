"""The benchmarks' device in process: what it answers is what the host model says."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model
from refoldc.reference import Reference

from refold.corrupt import corrupt, image_rng
from refold.data import load_data
from refold.errors import UserError
from refold.resources import bundled_model

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import contenders
from held_out import HELD_OUT
from native_model import NativeModel, SearchSize
from pace_sweep import MODES, SECTION, plain_key, settings, write_tables

IMAGES = 60


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """The bundled network."""
    train = load_data("digits", split="train", limit=256)
    place = tmp_path_factory.mktemp("digits") / "artefact"
    options = CompileOptions(adapt="forge+pace")
    return compile_model(bundled_model(), train.images, place, options=options)


@pytest.fixture(scope="module")
def images() -> NDArray[np.uint8]:
    """Digits, the second half of them faded."""
    clean = load_data("digits", split="test", limit=IMAGES).images
    rest = [
        corrupt(image, "contrast", 5, image_rng(0, number, "contrast", 5))
        for number, image in enumerate(clean[IMAGES // 2 :])
    ]
    return np.concatenate([clean[: IMAGES // 2], np.stack(rest)])


@pytest.fixture(scope="module")
def device(artefact: Artefact) -> NativeModel:
    """It as it was compiled."""
    return NativeModel(artefact)


@pytest.mark.parametrize("gate", [False, True])
def test_logits_and_gate(
    artefact: Artefact, device: NativeModel, images: NDArray[np.uint8], gate: bool
) -> None:
    """Image by image, with the gate and without."""
    config = AdaptConfig(gate=gate)
    reference = Reference(artefact.qgraph)
    device.configure(config)
    reference.configure(config)
    expected = [reference.infer(image) for image in images]
    answers = device.run(images)
    assert [list(one.logits) for one in expected] == answers.logits.tolist()
    assert [one.gate is not False for one in expected] == answers.is_open.tolist()
    assert (not gate) == bool(answers.is_open.all())


def test_the_timed_firmware_adapts(
    artefact: Artefact, device: NativeModel, images: NDArray[np.uint8]
) -> None:
    """FORGE of native.py is FORGE at every site, ungated."""
    reference = Reference(artefact.qgraph)
    reference.configure(AdaptConfig(gate=False))
    timed = contenders.Firmware(device.library, artefact, images, forge=True)
    for number, image in enumerate(images[-10:], start=IMAGES - 10):
        timed(number)
        assert list(reference.infer(image).logits) == timed.logits.tolist()


SEARCH = AdaptConfig(
    "forge+pace", gate=False, population=4, window=4, generations=2, sigma=0.3
)


def test_another_search_is_built(
    artefact: Artefact, device: NativeModel, images: NDArray[np.uint8]
) -> None:
    """Other sites give other answers once a search is over, and memory is as told."""
    other = NativeModel(artefact, search=SearchSize(moved=(1,), dimension=8, window=4))
    found = []
    for one in (device, other):
        one.configure(SEARCH)
        found.append(one.run(images[:12]).logits.tolist())
    assert found[0][:4] == found[1][:4]
    assert found[0][4:] != found[1][4:]
    device.configure(replace(SEARCH, window=5))
    with pytest.raises(UserError, match="out of its range"):
        other.configure(replace(SEARCH, window=5))


def test_the_sweep_writes_what_is_known(tmp_path: Path) -> None:
    """Gains with their deviation over orders, the worst, and what is not measured."""
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n<!-- {SECTION} -->\nold\n<!-- /{SECTION} -->\nafter\n")
    _, against = MODES["forge+pace"]
    gains = {name: [60.0 + i, 62.0 + i] for i, name in enumerate(HELD_OUT)}
    rest = {"clean": [80.0], "harmless: JPEG quality 75": [79.0]}
    key = next(settings()).key("forge+pace")
    known = {
        plain_key(against): {name: [60.0, 60.0] for name in HELD_OUT} | rest,
        key: gains | {name: [value[0] - 1] for name, value in rest.items()},
    }
    write_tables(known, page)
    lines = page.read_text().splitlines()
    assert ["before", "after"] == [lines[0], lines[-1]]
    row = "| defaults | +2.50 ± 1.41 | +1.00 | -1.00 | -1.00 | ? | ? | ? | ? |"
    assert row in lines
    assert "old" not in lines
