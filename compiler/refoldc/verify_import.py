"""Show that the imported graph computes what the original model computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray

from refoldc.errors import BadModel
from refoldc.float_export import channels_first, float_model, open_session
from refoldc.given_scales import without_pairs
from refoldc.ir import Graph
from refoldc.ports import Output, Ports, apply_ending

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
    ours = open_session(float_model(graph))
    original = open_original(without_pairs(model))
    batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value or 1
    worst = 0.0
    for _ in range(TRIALS):
        x = rng.standard_normal((batch, *graph.sample_shape), np.float32)
        tensors = graph.split(x)
        feeds = {name: channels_first(values) for name, values in tensors.items()}
        answers = ours.run([o.tensor for o in graph.outputs], feeds)
        wanted = run_original(original, graph, tensors)
        for output, got, want in zip(graph.outputs, answers, wanted, strict=True):
            stored = np.moveaxis(got, 1, -1)
            worst = max(worst, _difference(stored, want, output, graph.name))
    return worst


def run_original(
    session: onnxruntime.InferenceSession,
    graph: Ports,
    tensors: Mapping[str, NDArray[Any]],
) -> list[NDArray[Any]]:
    """What the original answers, output by output.

    Args:
        session: From :func:`open_original`.
        graph: Imported from the model.
        tensors: Stored inputs [N, ...], by name.

    Raises:
        BadModel: It fails, or overflows.
    """
    feeds = {t.name: to_onnx(tensors[t.name], t.axes) for t in graph.inputs}
    try:
        results = session.run([o.onnx for o in graph.outputs], feeds)
    except Exception as error:  # its errors share no base class but this
        raise BadModel(
            f"ONNX Runtime does not execute the model: {_first_line(error)}; check "
            "it with onnx.checker.check_model(path, full_check=True)"
        ) from error
    answers = [np.asarray(result) for result in results]
    if not all(np.isfinite(answer).all() for answer in answers):
        raise BadModel(
            "the model itself answers NaN or infinity to normal random inputs: its "
            "weights are too large, or the file is damaged"
        )
    return [from_onnx(a, o) for a, o in zip(answers, graph.outputs, strict=True)]


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


def from_onnx(batch: NDArray[Any], output: Output) -> NDArray[Any]:
    """An output of the original model in stored order."""
    axes = output.axes or ((2, 0, 1) if batch.ndim == 4 else ())
    if len(axes) != batch.ndim - 1:
        return batch
    return batch.transpose(0, *(1 + i for i in np.argsort(axes, kind="stable")))


def _difference(
    got: NDArray[Any], want: NDArray[Any], output: Output, name: str
) -> float:
    if output.ending == "ArgMax":
        got, want = _by_score(got, want, output)
    else:
        got = apply_ending(got, output)
    if got.size == want.size:
        error = np.abs(got - want.reshape(got.shape)).max()
        difference = float(error / max(float(np.abs(want).max()), 1e-6))
        if difference <= TOLERANCE:
            return difference
        found = f"by {difference:.2g} of the largest output, expected {TOLERANCE:g}"
    else:
        found = f"in its output's shape: {list(got.shape)}, not {list(want.shape)}"
    raise RuntimeError(
        f"{name}: output '{output.onnx}' of the imported graph differs from the "
        f"original model {found}. This is a bug of refold: please report it with the "
        "model"
    )


def _by_score(
    got: NDArray[Any], want: NDArray[Any], output: Output
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two choices by what they score: of nearly equal scores either may win."""
    axis = output.ending_axis if output.ending_axis < 0 else output.ending_axis + 1
    best = got.max(axis=axis, keepdims=True)
    if want.size != best.size:
        return best, want
    chosen = want.reshape(best.shape)
    return best, np.take_along_axis(got, chosen, axis)


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


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
