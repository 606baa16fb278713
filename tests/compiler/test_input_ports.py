"""Inputs that a model leaves open, and what ``--shape`` says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from models import small_classifier

from refoldc.artefact import load_artefact
from refoldc.errors import BadModel, BadOptions, RefoldcError
from refoldc.importer import import_proto
from refoldc.input_ports import FixedShape
from refoldc.inspection import inspect_model
from refoldc.loading import load_onnx
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model


def open_model(path: Path, *dims: Any) -> Path:
    """A classifier whose input has these dimensions."""
    model = small_classifier()
    info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims)
    model.graph.input[0].CopyFrom(info)
    onnx.save(model, path)
    return path


def test_a_shape_makes_an_open_model_compile(tmp_path: Path) -> None:
    """Height and width are then as given, in the artefact and when inspected."""
    path = open_model(tmp_path / "m.onnx", "N", 3, "height", "width")
    with pytest.raises(BadModel, match="--shape x:1x3x224x224"):
        import_proto(load_onnx(path), "net")
    images = np.random.default_rng(0).integers(0, 256, (8, 10, 12, 3), np.uint8)
    options = CompileOptions(shape=("x:1x3x10x12",))
    compile_model(path, images, tmp_path / "out", options=options)
    manifest = load_artefact(tmp_path / "out").manifest
    assert (10, 12, 3) == manifest.input.shape
    assert ("x:1x3x10x12",) == manifest.options.shape
    assert (10, 12, 3) == inspect_model(path, ("1x3x10x12",)).input_shape


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("x:1x3xA", "expected the batch and all sizes"),
        ("x:1x3x0x8", "expected the batch and all sizes"),
        ("y:1x3x8x8", "names 'y', the model's inputs are x"),
        ("x:1x4x8x8", "the model says N x 3 x height x 8"),
        ("x:1x3x8", "the model says N x 3 x height x 8"),
    ],
)
def test_shapes_that_do_not_fit(shape: str, message: str, tmp_path: Path) -> None:
    """Only what the model leaves open can be given, in full."""
    path = open_model(tmp_path / "m.onnx", "N", 3, "height", 8)
    with pytest.raises(BadOptions, match=message):
        load_onnx(path, (shape,))


def test_names_may_hold_colons() -> None:
    """As TensorFlow's do."""
    assert FixedShape("image:0", (1, 8)) == FixedShape.parse("image:0:1x8")


def test_inputs_of_unlike_batches(tmp_path: Path) -> None:
    """One image has one of each."""
    model = small_classifier()
    info = onnx.helper.make_tensor_value_info("v", onnx.TensorProto.FLOAT, [2, 5])
    model.graph.input.append(info)
    with pytest.raises(RefoldcError, match="inputs x, v have batches of 1, 2"):
        import_proto(model, "net")


def test_a_model_without_input() -> None:
    """Constants alone need no device."""
    model = small_classifier()
    del model.graph.input[:]
    with pytest.raises(BadModel, match="has no input"):
        import_proto(model, "net")
