"""A network with two inputs and two outputs, from float values to a scored run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import ModelBuilder
from onnx import TensorProto, helper

from refold.cli import status

IMAGES = 12
MAP, CLASSES = (6, 6, 2), 3


def write_model(path: Path) -> Path:
    """An image and a vector to a map and to classes: the larger half of the vector."""
    b = ModelBuilder((1, 6, 6), opset=13)
    image = b.conv("x", 2, pads=[1, 1, 1, 1])
    identity = b.const(np.eye(CLASSES), np.float32)
    model = b.model(image)
    del model.graph.node[:]
    b.op("Gemm", "v", identity, name="classes")
    model.graph.node.extend(b.nodes)
    vector = helper.make_tensor_value_info("v", TensorProto.FLOAT, ["N", CLASSES])
    classes = helper.make_tensor_value_info("classes", TensorProto.FLOAT, None)
    model.graph.input.append(vector)
    model.graph.output.append(classes)
    onnx.save(model, path)
    return path


def write_values(path: Path) -> str:
    """Values of both inputs in turn; the vector points at the label."""
    rng = np.random.default_rng(0)
    labels = np.arange(IMAGES) % CLASSES
    values = np.hstack([rng.normal(0, 1, (IMAGES, 36)), np.eye(CLASSES)[labels]])
    np.savez(path, labels=labels, clean=values.astype(np.float32))
    return f"npz:{path}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled network, with its data beside it."""
    folder = tmp_path_factory.mktemp("ports")
    model, data = write_model(folder / "m.onnx"), write_values(folder / "d.npz")
    words = ["compile", str(model), "--calib", data, "-o", str(folder / "a")]
    assert 0 == status([*words, "--input", "tensor"])
    return folder


def run(place: Path, *words: str) -> int:
    """Stream the clean values through the native board."""
    data = f"npz:{place / 'd.npz'}"
    fixed = ("--data", data, "--corruptions", "none", "--adapt", "off")
    return status(["run", str(place / "a"), *fixed, *words])


def test_the_first_vector_is_scored(place: Path, tmp_path: Path) -> None:
    """Every reply equals the host model's, and the classes are right."""
    assert 0 == run(place, "--json", str(tmp_path / "r.json"))
    (record,) = json.loads((tmp_path / "r.json").read_text())["runs"]
    (stream,) = record["streams"]
    assert (IMAGES, IMAGES, 0) == (
        stream["images"],
        stream["correct"],
        stream["parity_mismatches"],
    )


def test_the_manifest_lists_both_sides(place: Path) -> None:
    """Inputs with their offsets, outputs with their place in the answer."""
    manifest = json.loads((place / "a/refold.json").read_text())
    inputs = [(t["name"], t["offset"]) for t in manifest["input"]["tensors"]]
    outputs = [(o["name"], o["first"], o["count"]) for o in manifest["outputs"]]
    assert [("x", 0), ("v", 48)] == inputs
    size = int(np.prod(MAP))
    assert [("conv0", 0, size), ("classes", size, CLASSES)] == outputs


def test_a_map_can_be_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has no classes, which is said; another name is refused."""
    assert 0 == run(place, "--output", "conv0")
    assert "output 'conv0' is a map of 6 x 6 x 2" in capsys.readouterr().err
    assert 2 == run(place, "--output", "boxes")
    assert "the model's outputs are conv0, classes" in capsys.readouterr().err


def test_values_cannot_be_corrupted(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fog is for pictures."""
    data = f"npz:{place / 'd.npz'}"
    assert 2 == status(["run", str(place / "a"), "--data", data, "--adapt", "off"])
    assert "only pixels of 1 or 3 channels" in capsys.readouterr().err
