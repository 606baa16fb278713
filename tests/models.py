"""Small ONNX models for tests, as an exporter would write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from refoldc.float_export import open_session

ATTRIBUTE_CLIP = 11
"""Opset from which Clip takes its limits as inputs."""


class ModelBuilder:
    """Appends ONNX nodes with random weights; each call returns its output's name.

    Args:
        shape: Of one input without the batch, (C, H, W) or (F,).
        opset: Of the default domain.
        batch: Fixed, or the name of a symbolic one.
        seed: Of the weights.
    """

    def __init__(
        self,
        shape: Sequence[int],
        *,
        opset: int = 17,
        batch: int | str = "N",
        seed: int = 0,
    ) -> None:
        self.shape = tuple(shape)
        self.opset = opset
        self.batch = batch
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def op(self, kind: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        """Any operator with one output."""
        output = name or f"{kind.lower()}{len(self.nodes)}"
        node = helper.make_node(kind, inputs, [output], name=f"/{output}", **attributes)
        self.nodes.append(node)
        return output

    def const(self, array: NDArray[Any] | Sequence[Any], dtype: Any = None) -> str:
        """An initializer."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def random(self, *shape: int) -> str:
        """An initializer, scaled so that activations stay of order one."""
        fan_in = max(int(np.prod(shape[1:])), 1)
        values = self.rng.standard_normal(shape) / np.sqrt(fan_in)
        return self.const(values.astype(np.float32))

    def dims(self, tensor: str) -> tuple[int, ...]:
        """Shape of a tensor without the batch, as ONNX Runtime computes it."""
        if tensor == "x":
            return self.shape
        session = open_session(self.model(tensor))
        batch = self.batch if isinstance(self.batch, int) else 1
        x = np.zeros((batch, *self.shape), np.float32)
        return tuple(session.run(None, {"x": x})[0].shape[1:])

    def conv(
        self,
        x: str,
        channels: int,
        kernel: int | tuple[int, int] = 3,
        *,
        groups: int = 1,
        bias: bool = True,
        **attributes: Any,
    ) -> str:
        """Conv with random weights."""
        height, width = (kernel, kernel) if isinstance(kernel, int) else kernel
        inputs = [x, self.random(channels, self.dims(x)[0] // groups, height, width)]
        if bias:
            inputs.append(self.random(channels))
        return self.op("Conv", *inputs, group=groups, **attributes)

    def batch_norm(self, x: str, **attributes: Any) -> str:
        """BatchNormalization with random statistics."""
        channels = self.dims(x)[0]
        return self.op(
            "BatchNormalization",
            x,
            self.const(self.rng.uniform(-1.5, 1.5, channels), np.float32),
            self.const(self.rng.normal(size=channels), np.float32),
            self.const(self.rng.normal(size=channels), np.float32),
            self.const(self.rng.uniform(0.2, 2, channels), np.float32),
            **attributes,
        )

    def clip(self, x: str, low: float, high: float) -> str:
        """Clip as the opset spells it."""
        if self.opset < ATTRIBUTE_CLIP:
            return self.op("Clip", x, min=low, max=high)
        return self.op(
            "Clip", x, self.const(low, np.float32), self.const(high, np.float32)
        )

    def gemm(self, x: str, outputs: int, **attributes: Any) -> str:
        """Gemm with transB=1, as PyTorch exports Linear."""
        weights = self.random(outputs, self.dims(x)[0])
        return self.op("Gemm", x, weights, self.random(outputs), transB=1, **attributes)

    def model(self, output: str) -> onnx.ModelProto:
        """The model that ends at a tensor."""
        kind = TensorProto.FLOAT
        source = helper.make_tensor_value_info("x", kind, [self.batch, *self.shape])
        result = helper.make_tensor_value_info(output, kind, None)
        graph = helper.make_graph(self.nodes, "net", [source], [result], self.weights)
        opset = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opset, ir_version=8)


def small_classifier(*, batch_norm: bool = True, opset: int = 17) -> onnx.ModelProto:
    """Two convolutions, a residual sum, a global pool and ten classes."""
    b = ModelBuilder((3, 8, 8), opset=opset)

    def layer(x: str) -> str:
        y = b.conv(x, 8, pads=[1, 1, 1, 1], bias=not batch_norm)
        return b.batch_norm(y) if batch_norm else y

    first = b.op("Relu", layer("x"))
    total = b.op("Relu", b.op("Add", layer(first), first))
    pooled = b.op("Flatten", b.op("GlobalAveragePool", total))
    return b.model(b.gemm(pooled, 10))
