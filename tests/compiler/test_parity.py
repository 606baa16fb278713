"""Emitted C equals the NumPy reference, bit for bit and tensor by tensor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from emitted import EmittedModel
from graphs import RELU, GraphBuilder, make_images, quantised, small_cnn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from strategies import onnx_models

from refoldc.adapt import AdaptConfig
from refoldc.calibrate import calibrate, estimate_targets
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.ir import QGraph
from refoldc.measure_gate import measure_gate
from refoldc.options import CompileOptions
from refoldc.quantise import quantise
from refoldc.reference import Reference

MODES = {
    "off": AdaptConfig(method="off"),
    "gated": AdaptConfig(),
    "lagged": AdaptConfig(gate=False),
    "exact": AdaptConfig(gate=False, stats="exact", shrinkage=0.7),
    "published": AdaptConfig.published(),
    "sparse": AdaptConfig(gate=False, interval=3, warm=5, momentum=0.2, sites=(0, 2)),
}


def shifted_images(graph: QGraph, count: int) -> NDArray[Any]:
    """Images darker than those of calibration, so that there is much to adapt."""
    return make_images(graph.shapes[graph.input], count, seed=9) // 3


def assert_same_tensors(
    reference: Reference, device: EmittedModel, images: NDArray[Any]
) -> None:
    """Every layer's output is the same for every image of a stream."""
    for image in images:
        expected, actual = reference.trace(image), device.trace(image)
        assert list(expected) == list(actual)
        for name, values in expected.items():
            np.testing.assert_array_equal(values, actual[name], err_msg=name)


def assert_same_answers(
    reference: Reference, device: EmittedModel, images: NDArray[Any]
) -> None:
    """Logits, score and flag are the same bits for every image of a stream."""
    for image in images:
        expected, actual = reference.infer(image), device.infer(image)
        np.testing.assert_array_equal(expected.logits, actual.logits)
        assert expected.shift_score.tobytes() == actual.shift_score.tobytes()
        assert (expected.adapted, expected.gate) == (actual.adapted, actual.gate)


def assert_parity(
    reference: Reference, device: EmittedModel, images: NDArray[Any], mode: AdaptConfig
) -> None:
    """Tensors, answers and final state agree under ``mode``."""
    for compare in (assert_same_tensors, assert_same_answers):
        reference.configure(mode)
        device.configure(mode)
        compare(reference, device, images)
        if reference.graph.sites:
            assert reference.save_state() == device.save_state()


@pytest.fixture(scope="module")
def small(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Reference, EmittedModel]:
    """The small network as reference and as device."""
    graph = quantised(small_cnn())
    return Reference(graph), EmittedModel(graph, tmp_path_factory.mktemp("small"))


@pytest.mark.parametrize("mode", MODES)
def test_every_operator_in_every_mode(
    mode: str, small: tuple[Reference, EmittedModel]
) -> None:
    """A network of every operator agrees on a stream that adapts."""
    reference, device = small
    images = shifted_images(reference.graph, 6)
    assert_parity(reference, device, images, MODES[mode])


def test_rare_tables_after_the_eager_images(
    small: tuple[Reference, EmittedModel],
) -> None:
    """Past 32 images the interval decides when a table follows."""
    reference, device = small
    mode = AdaptConfig(gate=False, interval=5, momentum=0.1)
    reference.configure(mode)
    device.configure(mode)
    assert_same_answers(reference, device, shifted_images(reference.graph, 48))
    assert reference.save_state() == device.save_state()


def gates_of(
    reference: Reference, device: EmittedModel, images: NDArray[Any]
) -> list[bool | None]:
    """Where the gate stood at each image, once both agree on the whole answer."""
    found = []
    for image in images:
        expected, actual = reference.infer(image), device.infer(image)
        np.testing.assert_array_equal(expected.logits, actual.logits)
        assert expected.gate == actual.gate
        found.append(actual.gate)
    assert reference.save_state() == device.save_state()
    return found


def test_the_gate_and_new_domains(tmp_path: Path) -> None:
    """Both open on a shift, close after it and agree in every bit meanwhile."""
    graph = quantised(small_cnn())
    shape = graph.shapes[graph.input]
    graph = measure_gate(graph, make_images(shape, 64, seed=2))
    reference, device = Reference(graph), EmittedModel(graph, tmp_path)
    clean, dark = make_images(shape, 70, seed=3), shifted_images(graph, 70)
    reference.configure(AdaptConfig())
    device.configure(AdaptConfig())
    assert not any(gates_of(reference, device, clean))
    opened = gates_of(reference, device, dark)
    assert all(opened[32:])
    assert not any(gates_of(reference, device, clean)[32:])
    assert all(gates_of(reference, device, dark)[32:])


def test_a_closed_gate_changes_no_bit(tmp_path: Path) -> None:
    """While it is closed, every layer gives what the static network gives."""
    graph = quantised(small_cnn())
    shape = graph.shapes[graph.input]
    graph = measure_gate(graph, make_images(shape, 64, seed=2))
    off, gated = Reference(graph), Reference(graph)
    gated.configure(AdaptConfig(stats="exact"))
    for image in make_images(shape, 70, seed=3):
        expected, actual = off.trace(image), gated.trace(image)
        for name, values in expected.items():
            np.testing.assert_array_equal(values, actual[name], err_msg=name)


def test_saved_state_moves_between_device_and_reference(
    small: tuple[Reference, EmittedModel],
) -> None:
    """Either continues from the record of the other."""
    reference, device = small
    images = shifted_images(reference.graph, 8)
    reference.configure(AdaptConfig())
    device.configure(AdaptConfig())
    for image in images[:4]:
        device.infer(image)
    record = device.save_state()
    assert 0 == device.load_state(record)
    reference.load_state(record)
    assert_same_answers(reference, device, images[4:])


def test_switching_modes_keeps_the_statistics(
    small: tuple[Reference, EmittedModel],
) -> None:
    """With keep_state, statistics survive off and other sites, not another rule."""
    reference, device = small
    images = shifted_images(reference.graph, 3)
    reference.configure(AdaptConfig())
    device.configure(AdaptConfig())
    for mode in (
        AdaptConfig(),
        AdaptConfig(method="off"),
        AdaptConfig(sites=(1,)),
        AdaptConfig(shrinkage=0.9),
        AdaptConfig.published(),
    ):
        reference.configure(mode, keep_state=True)
        device.configure(mode, keep_state=True)
        assert_same_answers(reference, device, images)
        assert reference.save_state() == device.save_state()


def test_tensor_input(tmp_path: Path) -> None:
    """A model on vectors takes int8 in its own scale and has no site."""
    b = GraphBuilder((6,))
    b.dense("t0", 9, bounds=RELU)
    b.dense(b.last, 4)
    graph = quantised(b.graph())
    images = np.random.default_rng(0).integers(-128, 128, (5, 6), dtype=np.int8)
    device = EmittedModel(graph, tmp_path)
    assert_parity(Reference(graph), device, images, MODES["off"])


def test_int8_output(tmp_path: Path) -> None:
    """An output that no dense layer makes is widened as q - z."""
    b = GraphBuilder((5, 5, 2))
    b.conv("t0", 3)
    b.pool(
        b.last,
        "average",
        kernel=(3, 3),
        stride=(1, 1),
        pads=(1, 1, 1, 1),
        include_pad=True,
    )
    graph = quantised(b.graph(), CompileOptions(input="tensor"))
    images = np.random.default_rng(0).integers(-128, 128, (5, 5, 5, 2), dtype=np.int8)
    device = EmittedModel(graph, tmp_path)
    assert_parity(Reference(graph), device, images, MODES["off"])


@pytest.mark.parametrize("name", ["resnet20", "mobilenetv2x05"])
def test_cifar_networks(name: str, shared: Path, tmp_path: Path) -> None:
    """Real networks agree in every layer and mode on corrupted images."""
    with np.load(shared / "data/cifar10c_sev5_1000.npz") as data:
        clean, noisy = data["clean"][:32], data["gaussian_noise_5"][:3]
    options = CompileOptions(mean=(0.4914, 0.4822, 0.4465), std=(0.247, 0.2435, 0.2616))
    folded = fold(import_model(shared / f"models/{name}_cifar10_forge.onnx"))
    graph = quantise(folded, calibrate(folded, clean, options), options)
    reference, device = Reference(graph), EmittedModel(graph, tmp_path)
    for mode in ("off", "lagged", "exact", "published"):
        assert_parity(reference, device, noisy, MODES[mode])


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    model=onnx_models(),
    seed=st.integers(0, 2**16),
    mode=st.sampled_from(list(MODES)),
)
def test_random_networks(model: onnx.ModelProto, seed: int, mode: str) -> None:
    """Shapes, strides, pads, dilations, groups and extremes of any kind agree."""
    rng = np.random.default_rng(seed)
    options = CompileOptions(input="tensor")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "random.onnx"
        onnx.save(model, path)
        folded = fold(import_model(path))
        values = rng.normal(0, 1, (4, *folded.shapes[folded.input])).astype(np.float32)
        calibration = calibrate(folded, values, options)
        graph = quantise(estimate_targets(folded, calibration), calibration, options)
        config = replace(MODES[mode if graph.sites else "off"], sites=None)
        images = rng.choice([-128, -127, -1, 0, 1, 127], values.shape).astype(np.int8)
        device = EmittedModel(graph, Path(folder))
        assert_parity(Reference(graph), device, images, config)
