"""One model through the whole compiler, compared with itself at every stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
from refoldc.input_spec import encode_tensor
from refoldc.ir import F32, Graph, QGraph
from refoldc.options import CompileOptions
from refoldc.qdq_export import qdq_model
from refoldc.quantise import quantise
from refoldc.reference import Reference
from refoldc.verify_import import from_onnx, to_onnx, verify_import

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
    shape = folded.shapes[folded.input]
    if images is None:
        rng = np.random.default_rng(0)
        images = rng.standard_normal((IMAGES, *shape), np.float32)
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
    name, scale = graph.onnx_input, graph.quants[graph.output].scale
    for image in images:
        received = encode_tensor(image, graph.quants[graph.input])
        assert_same(reference.trace(received), device.trace(received))
        real = _softmax(reference.infer(received).logits * scale, graph)
        batch = image[np.newaxis]
        repeated = np.repeat(batch, batch_size(original), axis=0)
        feed = {name: to_onnx(repeated, folded.input_axes)}
        wanted = from_onnx(original.run([graph.onnx_output], feed)[0], folded)[:1]
        feed = {name: channels_first(batch)}
        got = channels_last(exported.run([graph.onnx_output], feed)[0])
        wanted, got = wanted.reshape(-1), got.reshape(-1)
        largest = max(float(np.abs(wanted).max()), 1e-6)
        yield (
            float(np.abs(real - wanted).max()) / largest,
            float(np.abs(real - got).max()) / largest,
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


def _softmax(real: NDArray[Any], graph: QGraph) -> NDArray[Any]:
    if not graph.softmax:
        return real
    exponentials = np.exp(real - real.max())
    return np.asarray(exponentials / exponentials.sum())
