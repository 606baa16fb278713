"""A small network and images for tests of the host tool."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

CLASSES = 4
SIDE = 8


def write_model(path: Path, *, op: str = "Relu", height: int | str = SIDE) -> Path:
    """Write Conv, BatchNorm, ``op``, global average pool, Gemm over 8 x 8 x 1."""
    rng = np.random.default_rng(3)
    arrays = {
        "w": rng.normal(0, 0.5, (6, 1, 3, 3)),
        "gamma": rng.uniform(0.5, 1.5, 6),
        "beta": rng.normal(0, 0.3, 6),
        "mean": rng.normal(0, 0.1, 6),
        "var": rng.uniform(0.1, 0.4, 6),
        "fc": rng.normal(0, 1.0, (CLASSES, 6)),
        "bias": rng.normal(0, 0.1, CLASSES),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node(
            "BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["b"], "bn"
        ),
        helper.make_node(op, ["b"], ["r"], "act"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], "pool"),
        helper.make_node("Flatten", ["p"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "fc", "bias"], ["y"], "fc", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, height, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, CLASSES])],
        [numpy_helper.from_array(a.astype("f4"), name) for name, a in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.save(model, path)
    return path


def make_images(count: int, *, seed: int = 0) -> NDArray[np.uint8]:
    """Return random pixels [count, 8, 8, 1]."""
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, SIDE, SIDE, 1), dtype=np.uint8)


def write_data(path: Path, count: int = 24, side: int = SIDE) -> str:
    """Write an npz of random clean and foggy images; return its data spec."""
    rng = np.random.default_rng(1)
    shape = (count, side, side, 1)
    np.savez(
        path,
        labels=np.arange(count) % CLASSES,
        clean=rng.integers(0, 256, shape, dtype=np.uint8),
        fog_5=rng.integers(100, 256, shape, dtype=np.uint8),
    )
    return f"npz:{path}"
