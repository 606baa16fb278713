"""The float graph back to ONNX, channels first, for ONNX Runtime to execute."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from refoldc.formula import OPSET, to_onnx
from refoldc.ir import (
    Add,
    BatchNorm,
    Bounds,
    Clamp,
    Concat,
    Conv,
    Dense,
    Final,
    Flatten,
    Graph,
    Mul,
    Node,
    Pick,
    Pointwise,
    Pool,
    Shape,
    Stored,
)
from refoldc.onnx_pick import pick_nodes
from refoldc.pooling import beyond_edge

IR_VERSION = 9


def float_model(graph: Graph, extra_outputs: Sequence[str] = ()) -> onnx.ModelProto:
    """Export a float graph, before or after ``fold``.

    Args:
        graph: Any float graph.
        extra_outputs: Tensors to return too, by their names in ``graph`` or
            from :func:`before_activation`.

    Returns:
        A model with float32 inputs [N, C, H, W] (or [N, F]) and, as outputs, the
        tensors of ``graph.outputs`` (before what ``fold`` took off) and
        ``extra_outputs``. Vectors keep the graph's element order.
    """
    writer = _Writer(graph)
    for node in graph.nodes:
        _RULES[type(node)](writer, node)
    tensors = (output.tensor for output in graph.outputs)
    return writer.model(list(dict.fromkeys((*tensors, *extra_outputs))))


def before_activation(node: Node) -> str:
    """Name of a node's result before its fused activation."""
    bounds = getattr(node, "bounds", Bounds())
    fused = bounds != Bounds() and not isinstance(node, Clamp)
    return f"{node.output}:linear" if fused else node.output


def open_session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """A CPU session that prints nothing: errors come as exceptions.

    Its threads do not spin while they wait, which takes half of the processor time of
    calibrating ResNet-20 and gains nothing.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def channels_first(batch: NDArray[Any]) -> NDArray[Any]:
    """[N, H, W, C] to [N, C, H, W]; vectors [N, F] as they are."""
    return np.ascontiguousarray(np.moveaxis(batch, -1, 1)) if batch.ndim == 4 else batch


class _Writer:
    """Collects ONNX nodes and weights."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []

    def add(
        self, op: str, inputs: Sequence[str], output: str, **attributes: Any
    ) -> None:
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))

    def weight(self, name: str, array: NDArray[Any]) -> str:
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def scalar(self, name: str, number: float) -> str:
        return self.weight(name, np.array(number, np.float32))

    def shape(self, tensor: str) -> Shape:
        return self.graph.shapes[tensor]

    def vector(self, tensor: str, output: str) -> str:
        """Flatten an image in (H, W, C) order; a vector is itself."""
        shape = self.shape(tensor)
        if len(shape) == 1:
            return tensor
        if shape[0] * shape[1] > 1:
            self.add("Transpose", [tensor], f"{output}:nhwc", perm=[0, 2, 3, 1])
            tensor = f"{output}:nhwc"
        self.add("Flatten", [tensor], output)
        return output

    def activate(self, node: Node, bounds: Bounds) -> None:
        """Clamp ``before_activation(node)`` into ``node.output``."""
        source = node.inputs[0] if isinstance(node, Clamp) else before_activation(node)
        if bounds == Bounds():
            return
        if bounds == Bounds(0.0, np.inf):
            self.add("Relu", [source], node.output)
            return
        low = self.scalar(f"{node.output}:low", bounds.low)
        high = self.scalar(f"{node.output}:high", bounds.high)
        self.add("Clip", [source, low, high], node.output)

    def model(self, outputs: Sequence[str]) -> onnx.ModelProto:
        kind = TensorProto.FLOAT
        inputs = []
        for tensor in self.graph.inputs:
            shape = self.shape(tensor.name)
            dims: list[str | int | None] = ["N", shape[-1], *shape[:-1]]
            inputs.append(helper.make_tensor_value_info(tensor.name, kind, dims))
        graph = helper.make_graph(
            self.nodes,
            self.graph.name,
            inputs,
            [helper.make_tensor_value_info(name, kind, None) for name in outputs],
            self.weights,
        )
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)


def _conv(writer: _Writer, node: Conv) -> None:
    weights = node.weights.transpose(0, 3, 1, 2)
    writer.add(
        "Conv",
        [
            node.inputs[0],
            writer.weight(f"{node.output}:weights", weights),
            writer.weight(f"{node.output}:bias", node.bias),
        ],
        before_activation(node),
        kernel_shape=weights.shape[2:],
        strides=node.stride,
        dilations=node.dilation,
        pads=node.pads,
        group=node.groups,
    )
    writer.activate(node, node.bounds)


def _dense(writer: _Writer, node: Dense) -> None:
    writer.add(
        "Gemm",
        [
            writer.vector(node.inputs[0], f"{node.output}:input"),
            writer.weight(f"{node.output}:weights", node.weights),
            writer.weight(f"{node.output}:bias", node.bias),
        ],
        before_activation(node),
        transB=1,
    )
    writer.activate(node, node.bounds)


def _add(writer: _Writer, node: Add) -> None:
    writer.add("Add", node.inputs, before_activation(node))
    writer.activate(node, node.bounds)


def _mul(writer: _Writer, node: Mul) -> None:
    writer.add("Mul", node.inputs, before_activation(node))
    writer.activate(node, node.bounds)


def _concat(writer: _Writer, node: Concat) -> None:
    rank = len(writer.shape(node.output))
    inputs = list(node.inputs)
    if rank == 1:
        inputs = [
            writer.vector(name, f"{node.output}:operand{number}")
            for number, name in enumerate(inputs)
        ]
    writer.add("Concat", inputs, node.output, axis=1 + (node.axis + 1) % rank)


def _pick(writer: _Writer, node: Pick) -> None:
    source, sizes = node.inputs[0], writer.shape(node.inputs[0])
    if len(node.index) == 1 or node.view:
        source = writer.vector(source, f"{node.output}:input")
        sizes = (math.prod(sizes),)
    nodes, constants = pick_nodes(source, node.output, node.index, sizes, node.fill)
    writer.nodes += nodes
    writer.weights += constants


def _stored(writer: _Writer, node: Stored) -> None:
    values = channels_first(node.values[np.newaxis])
    writer.add(
        "Identity", [writer.weight(f"{node.output}:values", values)], node.output
    )


def _pointwise(writer: _Writer, node: Pointwise) -> None:
    axes = len(writer.shape(node.output)) - 1
    made = to_onnx(node.formula, node.inputs[0], node.output, axes)
    writer.nodes += made.nodes
    writer.weights += made.constants


def _pool(writer: _Writer, node: Pool) -> None:
    counted = {"count_include_pad": int(node.include_pad)}
    beyond = beyond_edge(
        writer.shape(node.inputs[0]),
        writer.shape(node.output),
        kernel=node.kernel,
        stride=node.stride,
        pads=node.pads,
    )
    writer.add(
        "MaxPool" if node.kind == "max" else "AveragePool",
        node.inputs,
        before_activation(node),
        kernel_shape=node.kernel,
        strides=node.stride,
        pads=node.pads,
        ceil_mode=int(any(beyond)),
        **(counted if node.kind == "average" else {}),
    )
    writer.activate(node, node.bounds)


def _clamp(writer: _Writer, node: Clamp) -> None:
    writer.activate(node, node.bounds)


def _batch_norm(writer: _Writer, node: BatchNorm) -> None:
    statistics = {
        "gamma": node.gamma,
        "beta": node.beta,
        "mean": node.mean,
        "variance": node.variance,
    }
    names = [
        writer.weight(f"{node.output}:{what}", array.astype(np.float32))
        for what, array in statistics.items()
    ]
    inputs = [node.inputs[0], *names]
    writer.add("BatchNormalization", inputs, node.output, epsilon=node.epsilon)


def _flatten(writer: _Writer, node: Flatten) -> None:
    writer.vector(node.inputs[0], node.output)


def _final(writer: _Writer, node: Final) -> None:
    axes = len(writer.shape(node.output))
    writer.add(node.kind, node.inputs, node.output, axis=1 + (node.axis + 1) % axes)


_RULES: dict[type[Node], Callable[[_Writer, Any], None]] = {
    Conv: _conv,
    Dense: _dense,
    Add: _add,
    Mul: _mul,
    Pool: _pool,
    Concat: _concat,
    Pick: _pick,
    Clamp: _clamp,
    Pointwise: _pointwise,
    Stored: _stored,
    BatchNorm: _batch_norm,
    Flatten: _flatten,
    Final: _final,
}
