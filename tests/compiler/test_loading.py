"""Reading model files: every kind of wrong file is called what it is."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from models import ModelBuilder, small_classifier
from onnx import helper

from refoldc.errors import BadModel
from refoldc.importer import import_model
from refoldc.loading import load_onnx, opset_version
from refoldc.verify_import import TOLERANCE, verify_import

GOOD = small_classifier().SerializeToString()

WRONG_FILES = {
    "empty": (b"", "is empty"),
    "truncated": (GOOD[: len(GOOD) // 2], "truncated or damaged ONNX"),
    "html": (b"<!DOCTYPE html>\n<html><body>404</body></html>", "an HTML page"),
    "html without doctype": (b"\n <HTML><body>404</body>", "an HTML page"),
    "lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n",
        "a git-lfs pointer",
    ),
    "zip": (b"PK\x03\x04" + bytes(60), "a zip archive"),
    "keras": (b"\x89HDF\r\n\x1a\n" + bytes(60), "an HDF5 file"),
    "pickle": (b"\x80\x02}q\x00.", "a Python pickle"),
    "text": (b"hello, this is text\n" * 9, "is not an ONNX file"),
    "binary": (bytes(range(256)), "is not an ONNX file"),
    "name that is no text": (GOOD.replace(b"/conv0", b"/con\xff0"), "no UTF-8 text"),
    "header alone": (b"\x08\x08", "the graph has no output"),
}


@pytest.mark.parametrize("kind", WRONG_FILES)
def test_wrong_file_is_named(kind: str, tmp_path: Path) -> None:
    """The message says which file it is and what kind of wrong."""
    content, message = WRONG_FILES[kind]
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(BadModel, match=message) as caught:
        load_onnx(path)
    assert str(caught.value).startswith(str(path))


def test_every_truncation_is_a_bad_model(tmp_path: Path) -> None:
    """Wherever the file was cut, nothing but BadModel is raised."""
    path = tmp_path / "model.onnx"
    for length in range(1, len(GOOD) - 1, 97):
        path.write_bytes(GOOD[:length])
        with pytest.raises(BadModel):
            import_model(path)


def test_missing_file(tmp_path: Path) -> None:
    """A path that does not exist is said not to exist."""
    with pytest.raises(BadModel, match="does not exist"):
        load_onnx(tmp_path / "model.onnx")


def test_directory(tmp_path: Path) -> None:
    """A directory is said to be one."""
    with pytest.raises(BadModel, match="is a directory"):
        load_onnx(tmp_path)


@pytest.fixture
def external(tmp_path: Path) -> Path:
    """Return the small classifier with its weights in a file beside it."""
    path = tmp_path / "model.onnx"
    onnx.save_model(
        small_classifier(),
        path,
        save_as_external_data=True,
        location="model.onnx.data",
        size_threshold=0,
    )
    return path


def test_external_data_is_read(external: Path) -> None:
    """Weights beside the file give the same network as weights inside."""
    assert verify_import(small_classifier(), import_model(external)) <= TOLERANCE


def test_missing_external_data(external: Path) -> None:
    """The message names the file that should lie beside the model."""
    (external.parent / "model.onnx.data").unlink()
    with pytest.raises(BadModel, match=r"model\.onnx\.data"):
        load_onnx(external)


def test_truncated_external_data(external: Path) -> None:
    """A data file that ends early is refused, not padded."""
    data = external.parent / "model.onnx.data"
    data.write_bytes(data.read_bytes()[:100])
    with pytest.raises(BadModel):
        import_model(external)


@pytest.mark.parametrize("opset", [6, 24])
def test_opset_out_of_range(opset: int, tmp_path: Path) -> None:
    """The message gives the opset found and those that are read."""
    b = ModelBuilder((1, 4, 4), opset=opset)
    path = tmp_path / "model.onnx"
    onnx.save(b.model(b.op("Relu", "x")), path)
    with pytest.raises(BadModel, match=f"opset {opset}, refold reads 7 to 23"):
        load_onnx(path)


def test_ir_version_out_of_range(tmp_path: Path) -> None:
    """A file from the future is refused with both versions."""
    model = small_classifier()
    model.ir_version = 14
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    with pytest.raises(BadModel, match="IR version 14, refold reads up to 13"):
        load_onnx(path)


@pytest.mark.parametrize("ir_version", [3, 13])
def test_ir_versions(ir_version: int, tmp_path: Path) -> None:
    """Weights listed as inputs, as old versions demand, are no inputs."""
    model = small_classifier()
    model.ir_version = ir_version
    for tensor in model.graph.initializer:
        info = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        model.graph.input.append(info)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert ["x"] == [i.name for i in load_onnx(path).graph.input]


def test_domain_spelled_out(tmp_path: Path) -> None:
    """'ai.onnx' is the default domain."""
    model = small_classifier()
    model.opset_import[0].domain = "ai.onnx"
    for node in model.graph.node:
        node.domain = "ai.onnx"
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    loaded = load_onnx(path)
    assert opset_version(loaded) == 17
    assert verify_import(loaded, import_model(path)) <= TOLERANCE


def with_function(body: onnx.NodeProto, folder: Path, *, opset: int = 17) -> Path:
    """A model of opset 17 that calls a local function of one node."""
    b = ModelBuilder((1, 4, 4))
    model = b.model(b.op("Halve", "x", domain="local"))
    local = helper.make_opsetid("local", 1)
    uses = [helper.make_opsetid("", opset), local]
    function = helper.make_function("local", "Halve", ["a"], ["b"], [body], uses)
    model.functions.append(function)
    model.opset_import.append(local)
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("opset", [13, 17])
def test_local_functions_are_inlined(opset: int, tmp_path: Path) -> None:
    """A function of the model is replaced by its body, brought to its opset."""
    path = with_function(helper.make_node("Relu", ["a"], ["b"]), tmp_path, opset=opset)
    assert ["Relu"] == [node.op_type for node in load_onnx(path).graph.node]


def test_a_function_that_calls_itself(tmp_path: Path) -> None:
    """It cannot be inlined, and the message says why."""
    body = helper.make_node("Halve", ["a"], ["b"], domain="local")
    with pytest.raises(BadModel, match="cannot be inlined: Cycle"):
        load_onnx(with_function(body, tmp_path))
