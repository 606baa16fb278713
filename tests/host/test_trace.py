"""Layer outputs over the link: complete, compared, and a fault named where it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_model import make_images, write_data, write_model

from refoldc.adapt import AdaptConfig
from refoldc.artefact import LAYERS, Artefact
from refoldc.pipeline import compile_model
from refoldc.reference import Reference

from refold import recipe, trace
from refold.errors import InfraError, TensorsDiffer
from refold.job import RunOptions
from refold.protocol import Frame
from refold.resources import firmware_dir
from refold.runner import run

BROKEN = """    if (call->out)
        ((int8_t *)call->out)[37] ^= 4;
"""


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """Compile the small network: Conv, pool, Gemm."""
    folder = tmp_path_factory.mktemp("traced")
    model = write_model(folder / "small.onnx")
    return compile_model(model, make_images(64), folder / "artefact")


def options(tmp_path: Path, images: int) -> RunOptions:
    """Compare so many images, then stream four."""
    data = write_data(tmp_path / "data.npz")
    return RunOptions(data=data, corruptions="none", images=4, dump_layers=images)


def test_every_layer_of_the_native_board_equals_the_host(
    artefact: Artefact, tmp_path: Path
) -> None:
    """With and without adaptation; the arrays are kept, and the run goes on."""
    result = run(artefact.path, options(tmp_path, 3))
    assert "pass" == result.verdict
    names = [layer.name for layer in artefact.qgraph.layers]
    with np.load(artefact.path / "build/native" / LAYERS) as dump:
        assert {f"{mode}:{n}" for mode in ("off", "forge") for n in names} == set(dump)
        images = np.load(tmp_path / "data.npz")["clean"]
        expected = Reference(artefact.qgraph).trace(images[2])
        for name in names:
            np.testing.assert_array_equal(expected[name], dump[f"off:{name}"][2])


def test_a_broken_kernel_is_named(
    artefact: Artefact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One flipped bit behind the convolution: layer, ONNX nodes, place and values."""
    firmware = tmp_path / "firmware"
    shutil.copytree(firmware_dir(), firmware)
    source = firmware / "src/run.c"
    call = "                  call->moments);\n"
    text = source.read_text().replace(call, call + BROKEN, 1)
    source.write_text(text)
    monkeypatch.setattr(recipe, "firmware_dir", lambda: firmware)
    place = tmp_path / "artefact"
    shutil.copytree(artefact.path, place, ignore=shutil.ignore_patterns("build"))
    with pytest.raises(TensorsDiffer) as caught:
        run(place, replace(options(tmp_path, 2), adapt="off"))
    message = str(caught.value)
    expected = Reference(artefact.qgraph).trace(
        np.load(tmp_path / "data.npz")["clean"][0]
    )["conv"]
    value = int(expected[0, 6, 1])  # 6 channels: byte 37 is [0, 6, 1]
    assert message.startswith("image 0 under off: ")
    assert "layer 'conv' (ONNX: conv, bn, act)" in message
    assert f"at [0, 6, 1] of [8, 8, 6] expected {value}, got {value ^ 4}" in message
    assert "1 of 384 values differ" in message
    assert (place / "build/native" / LAYERS).is_file()


Loss = Callable[[list[Frame]], list[Frame]]


@pytest.mark.parametrize(
    "lose",
    [
        lambda frames: frames[1:],
        lambda frames: frames[:-1],
        lambda frames: [frames[0], *frames],
        lambda frames: [f._replace(values=(0, 0, 99, 0)) for f in frames],
    ],
    ids=["first", "last", "twice", "unknown"],
)
def test_incomplete_outputs_are_noticed(artefact: Artefact, lose: Loss) -> None:
    """A frame that is missing, repeated or of no layer is not made up for."""
    graph = artefact.qgraph
    expected = Reference(graph).trace(make_images(1)[0])
    frames = [
        Frame("tensor", 0, (1, 0, number, 0), values.tobytes())
        for number, values in enumerate(expected.values())
    ]
    found = trace.assemble(graph, frames)
    assert found is not None
    assert trace.first_difference(graph, expected, found) is None
    assert trace.assemble(graph, lose(frames)) is None


class LossyDevice:
    """Loses every layer's output; remembers what it was asked."""

    port = "fake"

    def __init__(self) -> None:
        self.begun = 0
        self.written: list[bytes] = []

    def begin(self, *_: object, keep_state: bool = False) -> None:
        self.begun += 1

    def read_state(self) -> bytes:
        return b""

    def write_state(self, state: bytes) -> None:
        self.written.append(state)

    def trace(self, _image: bytes) -> list[Frame]:
        return []


def test_a_line_that_always_loses_is_given_up(artefact: Artefact) -> None:
    """Each try sets the state back; the last failure is the line's, not the model's."""
    device = LossyDevice()
    pairs = trace.trace(
        device,  # type: ignore[arg-type]  # what trace needs of a Device
        artefact.qgraph,
        AdaptConfig(method="off"),
        make_images(1),
    )
    with pytest.raises(InfraError, match="lost on the line"):
        next(pairs)
    assert trace.TRIES == len(device.written)
    assert 1 + trace.TRIES == device.begun
