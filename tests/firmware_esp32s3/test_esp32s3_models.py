"""Emitted models on the SIMD kernels equal the NumPy reference, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest
from emitted import EmittedModel
from graphs import quantised, small_cnn
from test_parity import MODES, assert_parity, shifted_images

from refoldc.calibrate import calibrate
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.options import CompileOptions
from refoldc.quantise import quantise
from refoldc.reference import Reference

SIMD: Final = "-DREFOLD_ESP32S3"


@pytest.fixture(scope="module")
def small(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Reference, EmittedModel]:
    """The small network as reference and on the SIMD kernels."""
    graph = quantised(small_cnn())
    folder = tmp_path_factory.mktemp("small")
    return Reference(graph), EmittedModel(graph, folder, SIMD)


@pytest.mark.parametrize("mode", MODES)
def test_every_operator_in_every_mode(
    mode: str, small: tuple[Reference, EmittedModel]
) -> None:
    """A network of every operator agrees on a stream that adapts."""
    reference, device = small
    images = shifted_images(reference.graph, 4)
    assert_parity(reference, device, images, MODES[mode])


@pytest.mark.parametrize(
    "name", ["resnet20", pytest.param("mobilenetv2x05", marks=pytest.mark.slow)]
)
def test_cifar_networks(name: str, shared: Path, tmp_path: Path) -> None:
    """Real networks agree in every layer, and in their state, on corrupted images."""
    with np.load(shared / "data/cifar10c_sev5_1000.npz") as data:
        clean, noisy = data["clean"][:8], data["gaussian_noise_5"][:2]
    options = CompileOptions(mean=(0.4914, 0.4822, 0.4465), std=(0.247, 0.2435, 0.2616))
    folded = fold(import_model(shared / f"models/{name}_cifar10_forge.onnx"))
    graph = quantise(folded, calibrate(folded, clean, options), options)
    reference, device = Reference(graph), EmittedModel(graph, tmp_path, SIMD)
    for mode in ("lagged", "exact"):
        assert_parity(reference, device, noisy, MODES[mode])
