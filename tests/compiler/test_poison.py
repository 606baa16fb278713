"""No kernel reads memory whose tensor is dead: it is overwritten as soon as it dies.

What lives is worked out from the graph alone, not from the planner's lifetimes.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx
import pytest
from agreement import assert_same
from emitted import EmittedModel
from graphs import make_images, quantised, small_cnn
from hypothesis import HealthCheck, given, settings
from numpy.typing import NDArray
from strategies import onnx_models

from refoldc.adapt import AdaptConfig
from refoldc.calibrate import calibrate, estimate_targets
from refoldc.fold import fold
from refoldc.importer import import_model, import_proto
from refoldc.ir import QGraph
from refoldc.options import CompileOptions
from refoldc.plan import plan, tensor_bytes
from refoldc.quantise import quantise
from refoldc.reference import Reference

POISON = 0x5A


def readers(graph: QGraph, tensor: str) -> list[int]:
    """Numbers of the layers that read a tensor; the answer is read at the end."""
    numbers = [i for i, layer in enumerate(graph.layers) if tensor in layer.inputs]
    return numbers + [len(graph.layers)] * (tensor in graph.output_tensors)


def dead_bytes(graph: QGraph) -> list[NDArray[np.bool_]]:
    """Which bytes of the arena hold nothing that is read after each layer."""
    layout = plan(graph)
    written = {tensor.name: -1 for tensor in graph.inputs}
    written |= {layer.output: i for i, layer in enumerate(graph.layers)}
    masks = []
    for step in range(len(graph.layers)):
        dead = np.ones(layout.activation_bytes, np.bool_)
        for name, birth in written.items():
            if birth <= step and any(step < reader for reader in readers(graph, name)):
                start = layout.offsets[name]
                dead[start : start + tensor_bytes(graph, name)] = False
        masks.append(dead)
    return masks


def assert_poison_is_harmless(
    graph: QGraph, images: NDArray[Any], folder: Path, mode: AdaptConfig | None = None
) -> None:
    """Every layer's output is the reference's although all that is dead is overwritten.

    Args:
        graph: The network.
        images: As the device receives them.
        folder: For the sources.
        mode: Of adaptation; None is off.
    """
    reference, device = Reference(graph), EmittedModel(graph, folder)
    if mode is not None:
        reference.configure(mode)
        device.configure(mode)
    masks = dead_bytes(graph)
    arena = device.activations

    def poison(step: int) -> None:
        arena[: len(masks[step])][masks[step]] = POISON
        arena[len(masks[step]) :] = POISON

    for image in images:
        assert_same(reference.trace(image), device.trace(image, poison))


def test_every_operator(tmp_path: Path) -> None:
    """The small network, with its sums in place, off and adapting."""
    graph = quantised(small_cnn())
    images = make_images(graph.shapes[graph.input], 3)
    assert_poison_is_harmless(graph, images, tmp_path, AdaptConfig(stats="exact"))


def test_poison_is_noticed(tmp_path: Path) -> None:
    """Overwriting one live byte behind the first layer shows: the check can fail."""
    graph = quantised(small_cnn())
    device = EmittedModel(graph, tmp_path)
    [image] = make_images(graph.shapes[graph.input], 1)
    [live, *_] = np.flatnonzero(~dead_bytes(graph)[0])

    def harm(step: int) -> None:
        if step == 0:
            device.activations[live] ^= 0x40

    with pytest.raises(AssertionError):
        assert_same(Reference(graph).trace(image), device.trace(image, harm))


@pytest.mark.parametrize("name", ["resnet20", "mobilenetv2x05"])
def test_cifar_networks(name: str, shared: Path, tmp_path: Path) -> None:
    """Residual networks, whose sums take the place of an operand."""
    with np.load(shared / "data/cifar10c_sev5_1000.npz") as data:
        images = data["clean"][:2]
    folded = fold(import_model(shared / f"models/{name}_cifar10_forge.onnx"))
    options = CompileOptions()
    graph = quantise(folded, calibrate(folded, images, options), options)
    assert_poison_is_harmless(graph, images, tmp_path, AdaptConfig())


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(onnx_models())
def test_random_networks(model: onnx.ModelProto) -> None:
    """Whatever the graph, dead memory does not matter."""
    options = CompileOptions(input="tensor")
    folded = fold(import_proto(model, "random"))
    rng = np.random.default_rng(0)
    values = rng.normal(0, 1, (4, *folded.shapes[folded.input])).astype(np.float32)
    calibration = calibrate(folded, values, options)
    graph = quantise(estimate_targets(folded, calibration), calibration, options)
    images = rng.integers(-128, 128, values.shape, dtype=np.int8)[:2]
    with TemporaryDirectory() as folder:
        assert_poison_is_harmless(graph, images, Path(folder))
