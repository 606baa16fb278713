"""The compiler from an ONNX file to an artefact on disk."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from graphs import make_images
from models import ModelBuilder

import refoldc
from refoldc.artefact import load_artefact
from refoldc.errors import BadModel, BadOptions, DoesNotFit, RefoldcError, UnsupportedOp
from refoldc.memory import Limits
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model
from refoldc.reference import Reference
from refoldc.serialise import graph_hash, load_graph, save_graph

FILES = {
    "model.c",
    "model.h",
    "refold.json",
    "model.int8.onnx",
    "golden.npz",
    "reference.npz",
}
IMAGES = make_images((12, 10, 3), 6)


def write_model(folder: Path, *, last: str = "") -> Path:
    """Conv, BatchNorm, ReLU, pool, Gemm; perhaps an operator at the end."""
    b = ModelBuilder((3, 12, 10))
    x = b.op("Relu", b.batch_norm(b.conv("x", 6, pads=[1, 1, 1, 1])))
    x = b.op("Relu", b.batch_norm(b.conv(x, 8, strides=[2, 2])))
    x = b.gemm(b.op("Flatten", b.op("GlobalAveragePool", x)), 4)
    path = folder / "small.onnx"
    onnx.save(b.model(b.op(last, x) if last else x), path)
    return path


def test_an_artefact_is_complete(tmp_path: Path) -> None:
    """Every file, every key, in stages that are announced in order."""
    stages: list[str] = []
    out = tmp_path / "deep/out"
    model = write_model(tmp_path)
    artefact = compile_model(model, IMAGES, out, progress=stages.append)
    assert [
        "import",
        "fold",
        "calibrate",
        "quantise",
        "plan",
        "compare",
        "emit",
    ] == stages
    assert FILES == {path.name for path in out.iterdir()}
    manifest = json.loads((out / "refold.json").read_text())
    assert "refold.manifest/1" == manifest["schema"]
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    assert ("small", digest) == (manifest["model"]["name"], manifest["model"]["sha256"])
    assert ("pixels", [12, 10, 3]) == (
        manifest["input"]["mode"],
        manifest["input"]["shape"],
    )
    assert [0, 1] == [layer["site"] for layer in manifest["layers"][:2]]
    assert 6 == manifest["sites"][0]["channels"] == len(manifest["sites"][0]["beta"])
    memory = {"arena_bytes", "weights_bytes", "adapt_state_bytes", "code_bytes"}
    assert memory | {"adapt_items"} == set(manifest["memory"])
    assert "forge" == manifest["adapt"]
    assert any("No mean and std" in notice for notice in manifest["notices"])
    assert artefact.manifest == load_artefact(out).manifest


def test_golden_is_what_the_reference_gives(tmp_path: Path) -> None:
    """Input as the device receives it, and every layer by name, in NHWC."""
    artefact = compile_model(write_model(tmp_path), IMAGES, tmp_path / "out")
    reference = Reference(load_artefact(artefact.path).qgraph)
    with np.load(artefact.path / "golden.npz") as golden:
        np.testing.assert_array_equal(IMAGES[:4], golden["input"])
        names = [layer.name for layer in artefact.manifest.layers]
        assert {"input", *names} == set(golden.files)
        trace = reference.trace(IMAGES[3])
        for name in names:
            np.testing.assert_array_equal(trace[name], golden[name][3])


def test_tensor_input(tmp_path: Path) -> None:
    """Real calibration data are stored as int8 in the golden input."""
    values = np.random.default_rng(0).normal(0, 1, (5, 12, 10, 3)).astype(np.float32)
    options = CompileOptions(input="tensor")
    artefact = compile_model(
        write_model(tmp_path), values, tmp_path / "out", options=options
    )
    spec = artefact.manifest.input
    with np.load(artefact.path / "golden.npz") as golden:
        real = spec.scale * (golden["input"].astype(float) - spec.zero_point)
    assert np.abs(real - values[:4]).max() <= 0.5001 * spec.scale


def test_compiling_twice_gives_equal_c(tmp_path: Path) -> None:
    """model.c and model.h are byte-identical, and the old artefact is replaced."""
    model, out = write_model(tmp_path), tmp_path / "out"
    compile_model(model, IMAGES, out)
    (out / "build").mkdir()
    before = [(out / name).read_bytes() for name in ("model.c", "model.h")]
    compile_model(model, IMAGES, out)
    assert before == [(out / name).read_bytes() for name in ("model.c", "model.h")]
    assert FILES == {path.name for path in out.iterdir()}
    assert {"small.onnx", "out"} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("existing", [False, True])
def test_failure_leaves_nothing_half_written(existing: bool, tmp_path: Path) -> None:
    """A model that cannot be compiled leaves an old artefact as it was."""
    out = tmp_path / "out"
    if existing:
        compile_model(write_model(tmp_path), IMAGES, out)
    before = sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".onnx")
    with pytest.raises(UnsupportedOp):
        compile_model(write_model(tmp_path, last="Sin"), IMAGES, out)
    assert before == sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".onnx")
    assert existing == out.exists()


def test_a_board_that_is_too_small(tmp_path: Path) -> None:
    """Nothing is written for it."""
    with pytest.raises(DoesNotFit, match="board tiny"):
        compile_model(
            write_model(tmp_path), IMAGES, tmp_path / "out", limits=Limits("tiny", 1000)
        )
    assert not (tmp_path / "out").exists()


def test_other_directories_are_not_overwritten(tmp_path: Path) -> None:
    """A file, or a directory with something else in it, is in the way."""
    model = write_model(tmp_path)
    with pytest.raises(BadOptions, match="not empty and holds no compiled model"):
        compile_model(model, IMAGES, tmp_path)
    with pytest.raises(BadOptions, match="is a file"):
        compile_model(model, IMAGES, model)
    assert model.exists()


@pytest.mark.parametrize("content", [None, '{"schema": "refold.manifest/9"}'])
def test_what_is_no_artefact_says_so(content: str | None, tmp_path: Path) -> None:
    """Missing, or of another version: with the command that makes one."""
    if content is not None:
        (tmp_path / "refold.json").write_text(content)
    with pytest.raises(RefoldcError, match="make it with 'refold compile"):
        load_artefact(tmp_path)


@pytest.mark.parametrize("file", ["refold.json", "reference.npz"])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_artefact_is_damaged(
    file: str, share: float, tmp_path: Path
) -> None:
    """The message names the file and the command."""
    path = compile_model(write_model(tmp_path), IMAGES, tmp_path / "out").path / file
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(RefoldcError, match=rf"damaged: {file}: .*'refold compile"):
        load_artefact(path.parent)


def test_a_flipped_bit_is_damage_or_harmless(tmp_path: Path) -> None:
    """Never another network, never another exception."""
    made = compile_model(write_model(tmp_path), IMAGES, tmp_path / "out")
    path = made.path / "reference.npz"
    content = path.read_bytes()
    refused = 0
    for position in np.random.default_rng(0).integers(len(content), size=200):
        flipped = bytearray(content)
        flipped[position] ^= 1 << position % 8
        path.write_bytes(flipped)
        try:
            loaded = load_artefact(made.path)
        except RefoldcError:
            refused += 1
        else:
            assert graph_hash(made.qgraph) == graph_hash(loaded.qgraph)
    assert refused > 100


@pytest.mark.parametrize(
    "structure", ['{"type": "QGraph", "fields": {"zz": 1}}', '{"type": "Foo"}', "[]"]
)
def test_another_structure_is_damage(structure: str, tmp_path: Path) -> None:
    """Unknown fields and types, and what is no graph."""
    path = compile_model(write_model(tmp_path), IMAGES, tmp_path / "out").path
    text = np.frombuffer(structure.encode(), np.uint8)
    np.savez(path / "reference.npz", graph=text)
    with pytest.raises(RefoldcError, match=r"damaged: reference\.npz"):
        load_artefact(path)


def test_files_of_two_artefacts_are_damage(tmp_path: Path) -> None:
    """The manifest says which network the reference must hold."""
    model = write_model(tmp_path)
    first = compile_model(model, IMAGES, tmp_path / "a").path
    second = compile_model(model, IMAGES // 2, tmp_path / "b").path
    (first / "reference.npz").write_bytes((second / "reference.npz").read_bytes())
    with pytest.raises(RefoldcError, match=r"damaged: .* not the network"):
        load_artefact(first)


def test_what_was_written_is_read_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An artefact that could not be loaded never takes its place."""

    def save_garbage(graph: object, path: Path) -> None:
        path.write_bytes(b"PK")

    monkeypatch.setattr("refoldc.artefact.save_graph", save_garbage)
    with pytest.raises(RuntimeError, match="cannot be read back"):
        compile_model(write_model(tmp_path), IMAGES, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "place", ["small.onnx/out", "a/" + "n" * 250, "n" * 300 + "/a"]
)
def test_a_directory_that_cannot_be_made(place: str, tmp_path: Path) -> None:
    """It is found before anything is computed, and leaves nothing behind."""
    stages: list[str] = []
    model = write_model(tmp_path)
    with pytest.raises(BadOptions, match="cannot be written"):
        compile_model(model, IMAGES, tmp_path / place, progress=stages.append)
    assert [] == stages
    assert [model] == list(tmp_path.iterdir())


@pytest.mark.parametrize("out", [".", "..", "../work"])
def test_the_working_directory_is_not_replaced(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell in it would be left in a directory that is gone."""
    model, work = write_model(tmp_path), tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    with pytest.raises(BadOptions, match="is or holds the working directory"):
        compile_model(model, IMAGES, Path(out))


def test_an_integer_graph_survives_the_disk(tmp_path: Path) -> None:
    """Hash and answers are the same, and so are the files' bytes."""
    graph = compile_model(write_model(tmp_path), IMAGES, tmp_path / "out").qgraph
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    save_graph(graph, first)
    loaded = load_graph(first)
    save_graph(loaded, second)
    assert first.read_bytes() == second.read_bytes()
    assert graph_hash(graph) == graph_hash(loaded)
    np.testing.assert_array_equal(
        Reference(graph).infer(IMAGES[5]).logits,
        Reference(loaded).infer(IMAGES[5]).logits,
    )


def test_the_hash_depends_on_calibration(tmp_path: Path) -> None:
    """Other ranges make another network, whose saved state is another's."""
    model = write_model(tmp_path)
    first = compile_model(model, IMAGES, tmp_path / "a").manifest.model
    second = compile_model(model, IMAGES // 2, tmp_path / "b").manifest.model
    assert first.sha256 == second.sha256
    assert first.network_sha256 != second.network_sha256


def test_a_layer_called_input_is_refused(tmp_path: Path) -> None:
    """Its golden array would hide the network's input."""
    path = write_model(tmp_path)
    model = onnx.load(path)
    model.graph.node[0].name = "input"
    onnx.save(model, path)
    with pytest.raises(BadModel, match="a node is called 'input'"):
        compile_model(path, IMAGES, tmp_path / "out")


def test_sizes_beyond_the_firmware_are_refused(tmp_path: Path) -> None:
    """65,536 inputs of a dense layer do not fit its 16-bit count."""
    b = ModelBuilder((65536,))
    path = tmp_path / "wide.onnx"
    onnx.save(b.model(b.gemm("x", 2)), path)
    values = np.random.default_rng(0).normal(0, 1, (2, 65536)).astype(np.float32)
    with pytest.raises(UnsupportedOp, match="65536 exceeds 65535"):
        compile_model(path, values, tmp_path / "out")


def test_the_package_offers_the_compiler() -> None:
    """refoldc.compile_model is that of the pipeline; other names do not exist."""
    assert compile_model is refoldc.compile_model
    assert not hasattr(refoldc, "compile")
