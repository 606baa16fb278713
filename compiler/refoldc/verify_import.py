"""Show that the imported graph computes what the original model computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from refoldc.errors import BadModel
from refoldc.float_export import channels_first, float_model, open_session
from refoldc.ir import Graph

TOLERANCE = 1e-3
"""Largest difference relative to the largest output."""
TRIALS = 3


def verify_import(model: onnx.ModelProto, graph: Graph, *, seed: int = 0) -> float:
    """Compare the graph with the model in ONNX Runtime on random inputs.

    Args:
        model: As ``load_onnx`` returned it.
        graph: Imported from it, folded or not.
        seed: Of the inputs, which are standard normal.

    Returns:
        The largest difference found, relative to the largest output.

    Raises:
        BadModel: ONNX Runtime cannot execute the model, or it overflows.
        RuntimeError: The results differ: a bug in the importer or in ``fold``.
    """
    rng = np.random.default_rng(seed)
    ours, original = open_session(float_model(graph)), open_original(model)
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value or 1
    shape = (batch, *graph.shapes[graph.input])
    worst = 0.0
    for _ in range(TRIALS):
        x = rng.standard_normal(shape, np.float32)
        got = ours.run([graph.output], {graph.input: channels_first(x)})[0]
        got = _softmax(got) if graph.softmax else got
        got = np.moveaxis(got, 1, -1)
        want = from_onnx(_run(original, graph, to_onnx(x, graph.input_axes)), graph)
        worst = max(worst, _difference(got, want, graph.name))
    return worst


def to_onnx(batch: NDArray[Any], axes: tuple[int, ...]) -> NDArray[Any]:
    """A stored batch [N, H, W, C] or [N, F] as the original model takes it."""
    if batch.ndim == 2:
        return batch
    if not axes:
        return channels_first(batch)
    kept = [1 + axis for axis in axes if axis < 3]
    moved = batch.transpose(0, *kept, *(i for i in (1, 2, 3) if i not in kept))
    dims = [1 if axis == 3 else batch.shape[1 + axis] for axis in axes]
    return np.ascontiguousarray(moved).reshape(len(batch), *dims)


def from_onnx(batch: NDArray[Any], graph: Graph) -> NDArray[Any]:
    """An output of the original model in stored order."""
    axes = graph.output_axes or ((2, 0, 1) if batch.ndim == 4 else ())
    if len(axes) != batch.ndim - 1:
        return batch
    return batch.transpose(0, *(1 + i for i in np.argsort(axes, kind="stable")))


def _difference(got: NDArray[Any], want: NDArray[Any], name: str) -> float:
    if got.size == want.size:
        error = np.abs(got - want.reshape(got.shape)).max()
        difference = float(error / max(float(np.abs(want).max()), 1e-6))
        if difference <= TOLERANCE:
            return difference
        found = f"by {difference:.2g} of the largest output, expected {TOLERANCE:g}"
    else:
        found = f"in its output's shape: {list(got.shape)}, not {list(want.shape)}"
    raise RuntimeError(
        f"{name}: the imported graph differs from the original model {found}. This "
        "is a bug of refold: please report it with the model"
    )


def open_original(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """A session of the model as it was loaded.

    Raises:
        BadModel: ONNX Runtime refuses it: contradictory shapes, two nodes of one
            name, or something that it does not implement.
    """
    try:
        return open_session(model)
    except Exception as error:  # its errors share no base class but this
        raise BadModel(
            f"ONNX Runtime does not load the model: {_first_line(error)}; check it "
            "with onnx.checker.check_model(path, full_check=True)"
        ) from error


def _run(
    session: onnxruntime.InferenceSession, graph: Graph, x: NDArray[Any]
) -> NDArray[Any]:
    try:
        results = session.run([graph.onnx_output], {graph.onnx_input: x})
    except Exception as error:  # as above
        raise BadModel(
            f"ONNX Runtime does not execute the model: {_first_line(error)}; check "
            "it with onnx.checker.check_model(path, full_check=True)"
        ) from error
    output = np.asarray(results[0])
    if not np.isfinite(output).all():
        raise BadModel(
            f"{graph.name}: the model itself answers NaN or infinity to normal random "
            "inputs: its weights are too large, or the file is damaged"
        )
    return output


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _softmax(logits: NDArray[Any]) -> NDArray[Any]:
    flat = logits.reshape(len(logits), -1)
    exponentials = np.exp(flat - flat.max(axis=1, keepdims=True))
    result: NDArray[Any] = exponentials / exponentials.sum(axis=1, keepdims=True)
    return result.reshape(logits.shape)
