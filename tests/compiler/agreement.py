"""One model through the whole compiler, compared with itself at every stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import onnx
from emitted import EmittedModel
from numpy.typing import NDArray
from onnxruntime import InferenceSession

from refoldc.calibrate import calibrate, estimate_targets
from refoldc.float_export import channels_first, open_session
from refoldc.fold import fold
from refoldc.importer import import_proto
from refoldc.input_spec import encode_samples, input_slots
from refoldc.ir import F32, Graph, QGraph
from refoldc.options import CompileOptions
from refoldc.ports import apply_ending
from refoldc.qdq_export import qdq_model
from refoldc.quantise import quantise
from refoldc.reference import Reference
from refoldc.verify_import import run_original, verify_import

IMAGES = 16
COMPARED = 3


@dataclass(frozen=True)
class Agreement:
    """A compiled model, and its largest errors as shares of the largest output.

    Attributes:
        folded: The float graph.
        graph: The integer graph.
        int8: Of the integer network against ONNX Runtime on the original.
        exported: Of its QDQ export against the integer network.
    """

    folded: Graph
    graph: QGraph
    int8: float
    exported: float


def check(model: onnx.ModelProto, folder: Path, images: F32 | None = None) -> Agreement:
    """Compile ``model``; the C must equal the reference bit for bit.

    Args:
        model: With float inputs.
        folder: For the emitted sources.
        images: Calibration and test values, channel-last; else standard normal.
    """
    folded = fold(import_proto(model, "net"))
    verify_import(model, folded)
    if images is None:
        rng = np.random.default_rng(0)
        images = rng.standard_normal((IMAGES, *folded.sample_shape), np.float32)
    options = CompileOptions(input="tensor")
    calibration = calibrate(folded, images, options)
    graph = quantise(estimate_targets(folded, calibration), calibration, options)
    errors = list(_compare(model, folded, graph, images[:COMPARED], folder))
    return Agreement(folded, graph, *map(max, zip(*errors, strict=True)))


def _compare(
    model: onnx.ModelProto, folded: Graph, graph: QGraph, images: F32, folder: Path
) -> Iterator[tuple[float, float]]:
    reference, device = Reference(graph), EmittedModel(graph, Path(mkdtemp(dir=folder)))
    original, exported = open_session(model), open_session(qdq_model(graph))
    for image in images:
        received = encode_samples(image[np.newaxis], input_slots(graph))[0]
        assert_same(reference.trace(received), device.trace(received))
        answer = reference.infer(received).logits
        np.testing.assert_array_equal(answer, device.infer(received).logits)
        tensors = graph.split(image[np.newaxis])
        feed = {name: channels_first(values) for name, values in tensors.items()}
        repeats = batch_size(original)
        filled = {name: np.repeat(x, repeats, axis=0) for name, x in tensors.items()}
        wanted = [y[:1] for y in run_original(original, folded, filled)]
        got = exported.run([output.onnx for output in graph.outputs], feed)
        for real, want, qdq in zip(
            real_outputs(answer, graph), wanted, got, strict=True
        ):
            yield _errors(real, want, channels_last(qdq))


def real_outputs(answer: NDArray[Any], graph: QGraph) -> Iterator[NDArray[Any]]:
    """What an answer of the device means, output by output, [1, ...]."""
    first = 0
    for output in graph.outputs:
        shape, quant = graph.shapes[output.tensor], graph.quants[output.tensor]
        values = answer[first : first + prod(shape)]
        yield apply_ending((values * quant.scale).reshape(1, *shape), output)
        first += values.size


def _errors(
    real: NDArray[Any], want: NDArray[Any], got: NDArray[Any]
) -> tuple[float, float]:
    largest = max(float(np.abs(want).max()), 1e-6)
    return (
        float(np.abs(real.reshape(-1) - want.reshape(-1)).max()) / largest,
        float(np.abs(real.reshape(-1) - got.reshape(-1)).max()) / largest,
    )


def batch_size(session: InferenceSession) -> int:
    """How many images a model takes at once; 1 where it is free."""
    first = session.get_inputs()[0].shape[0]
    return first if isinstance(first, int) else 1


def assert_same(
    expected: Mapping[str, NDArray[Any]], actual: Mapping[str, NDArray[Any]]
) -> None:
    """Every layer's output is equal."""
    assert list(expected) == list(actual)
    for name, values in expected.items():
        np.testing.assert_array_equal(values, actual[name], err_msg=name)


def channels_last(batch: NDArray[Any]) -> NDArray[Any]:
    """[N, C, ...] to [N, ..., C]."""
    return np.moveaxis(batch, 1, -1)
