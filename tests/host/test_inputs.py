"""Pixels on their way to the float model and the device, and their agreement."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from models import ModelBuilder
from numpy.typing import NDArray
from small_model import make_images, write_model

from refoldc.artefact import GOLDEN, Artefact
from refoldc.options import CompileOptions, InputMode
from refoldc.pipeline import compile_model

from refold.inputs import device_input

MEAN, STD = 0.5, 0.25


def compiled(model: Path, mode: InputMode, images: NDArray[np.uint8]) -> Artefact:
    """Compile a model of one channel with mean and std."""
    options = CompileOptions(input=mode, mean=(MEAN,), std=(STD,))
    return compile_model(model, images, model.with_suffix(f".{mode}"), options=options)


def test_a_tensor_is_normalised_like_pixels(tmp_path: Path) -> None:
    """int8 times scale is (pixel / 255 - mean) / std, to half a step."""
    images = make_images(64)
    artefact = compiled(write_model(tmp_path / "m.onnx"), "tensor", images)
    spec = artefact.manifest.input
    sent = device_input(spec, images)
    assert np.int8 == sent.dtype
    real = (sent.astype(float) - spec.zero_point) * spec.scale
    expected = (images / 255 - MEAN) / STD
    np.testing.assert_allclose(real, expected, atol=0.501 * spec.scale)
    with np.load(artefact.path / GOLDEN) as golden:
        np.testing.assert_array_equal(sent[:4], golden["input"])


def test_both_inputs_keep_the_targets_of_batchnorm(tmp_path: Path) -> None:
    """Calibration sees the same network, so the sites' targets are the same."""
    model = write_model(tmp_path / "m.onnx")
    tensor, pixels = (compiled(model, m, make_images(64)) for m in ("tensor", "pixels"))
    assert tensor.manifest.sites[0].beta == pixels.manifest.sites[0].beta
    assert pytest.approx(pixels.manifest.input.scale, 0.02) == (
        tensor.manifest.input.scale
    )


def test_pixels_without_mean_are_remarked_for_tensors_too(tmp_path: Path) -> None:
    """The note belongs to pixels, whatever the device takes; floats need none."""
    model, images = write_model(tmp_path / "m.onnx"), make_images(64)
    options = CompileOptions(input="tensor")
    for values, noted in ((images, True), ((images / 255).astype("f4"), False)):
        made = compile_model(model, values, tmp_path / "out", options=options)
        notices = made.manifest.notices
        assert noted is any("No mean and std" in notice for notice in notices)


@pytest.mark.parametrize("mode", ["pixels", "tensor"])
def test_agreement_follows_the_normalisation(mode: InputMode, tmp_path: Path) -> None:
    """Float model and host model see the same images."""
    model, images = write_model(tmp_path / "m.onnx"), make_images(64)
    assert 95 <= compiled(model, mode, images).manifest.accuracy.agreement


@pytest.mark.parametrize("images", [3, 5, 12])
def test_a_fixed_batch_is_filled(images: int, tmp_path: Path) -> None:
    """A model for 5 images answers to fewer, as many and more of them."""
    chosen = np.zeros((images, 5, 1, 1), np.uint8)
    chosen[np.arange(images), np.arange(images) % 5] = 255
    pixels = chosen.transpose(0, 2, 3, 1)
    b = ModelBuilder((5, 1, 1), batch=5)
    identity = b.const(np.eye(5).reshape(5, 5, 1, 1), np.float32)
    onnx.save(b.model(b.op("Conv", "x", identity)), tmp_path / "fixed.onnx")
    options = CompileOptions(input="tensor")
    out = tmp_path / "out"
    artefact = compile_model(tmp_path / "fixed.onnx", pixels, out, options=options)
    assert 100 == artefact.manifest.accuracy.agreement


def test_maps_are_compared_in_one_order(tmp_path: Path) -> None:
    """The largest value of a map is found at one place, in one channel."""
    b = ModelBuilder((1, 6, 6))
    weights = b.const(np.array([0.25, 1.0, 0.5]).reshape(3, 1, 1, 1), np.float32)
    onnx.save(b.model(b.op("Conv", "x", weights)), tmp_path / "map.onnx")
    images = np.zeros((36, 6, 6, 1), np.uint8)
    images.reshape(36, 36)[np.arange(36), np.arange(36)] = 255
    artefact = compile_model(tmp_path / "map.onnx", images, tmp_path / "out")
    assert (6, 6, 3) == artefact.manifest.output.shape
    assert 100 == artefact.manifest.accuracy.agreement
