"""The integer graph as ONNX in QDQ form, for any runtime that reads it.

Input and output keep the original's names: float, normalised, channels first.
Every layer's dequantised output bears the name that the manifest gives, so that
it can be fetched; int8 value = round(real / scale) + zero_point.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from refoldc.ir import (
    I8,
    QAdd,
    QConcat,
    QConv,
    QDense,
    QGraph,
    QLayer,
    QMul,
    QPick,
    QPool,
    QStored,
    QTable,
    Shape,
)
from refoldc.onnx_pick import pick_nodes
from refoldc.pooling import beyond_edge
from refoldc.ports import Output

OPSET = 17
IR_VERSION = 8


def qdq_model(graph: QGraph) -> onnx.ModelProto:
    """Export an integer graph with the weights and scales that the device has."""
    writer = _Writer(graph)
    for tensor in graph.inputs:
        writer.snap(tensor.name, writer.values[tensor.name], tensor.name)
    for layer in graph.layers:
        _RULES[type(layer)](writer, layer)
    return writer.finish()


class _Writer:
    """Collects ONNX nodes and constants.

    Attributes:
        values: ONNX name of the float tensor that stands for each tensor.
    """

    def __init__(self, graph: QGraph) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []
        self.values = {layer.output: layer.output for layer in graph.layers}
        self.values.update({t.name: f"{t.name}:int8" for t in graph.inputs})

    def add(
        self, op: str, inputs: Sequence[str], output: str, **attributes: Any
    ) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def constant(self, name: str, array: NDArray[Any]) -> str:
        contiguous = np.asarray(array, order="C")
        self.constants.append(numpy_helper.from_array(contiguous, name))
        return name

    def scalar(self, name: str, value: float) -> str:
        return self.constant(name, np.array(value, np.float32))

    def snap(self, source: str, output: str, tensor: str) -> None:
        """Quantise ``source`` in the scale of ``tensor`` and back, as ``output``."""
        quant = self.graph.quants[tensor]
        parameters = [
            self.scalar(f"{output}:scale", quant.scale),
            self.constant(f"{output}:zero", np.array(quant.zero_point, np.int8)),
        ]
        self.add("QuantizeLinear", [source, *parameters], f"{output}:stored")
        self.add("DequantizeLinear", [f"{output}:stored", *parameters], output)

    def rescaled(self, tensor: str, scale: float, output: str) -> str:
        """A tensor dequantised in a scale that differs from its own in rounding."""
        value = self.values[tensor]
        inputs = [
            f"{value}:stored",
            self.scalar(f"{output}:scale", scale),
            f"{value}:zero",
        ]
        return self.add("DequantizeLinear", inputs, output)

    def vector(self, tensor: str, value: str) -> str:
        """``value``, of the shape of ``tensor``, flattened in (H, W, C) order."""
        if len(self.graph.shapes[tensor]) == 1:
            return value
        moved = f"{value}:nhwc{len(self.nodes)}"
        self.add("Transpose", [value], moved, perm=[0, 2, 3, 1])
        return self.add("Flatten", [moved], f"{moved}:vector")

    def parameter(self, name: str, stored: NDArray[Any], scale: NDArray[Any]) -> str:
        """A stored constant of one scale for each output channel."""
        inputs = [
            self.constant(f"{name}:stored", stored),
            self.constant(f"{name}:scale", scale.astype(np.float32)),
            self.constant(f"{name}:zero", np.zeros(scale.shape, stored.dtype)),
        ]
        return self.add("DequantizeLinear", inputs, name, axis=0)

    def weights_and_bias(self, layer: QConv | QDense, weights: I8) -> list[str]:
        """Both dequantised; the bias is an int32 in accumulator units."""
        units = self.graph.quants[layer.inputs[0]].scale * layer.weight_scale
        bias = np.rint(layer.bias / units)
        return [
            self.parameter(f"{layer.output}:weights", weights, layer.weight_scale),
            self.parameter(f"{layer.output}:bias", bias.astype(np.int32), units),
        ]

    def finish_layer(self, source: str, layer: QLayer, lo: int, hi: int) -> None:
        """Apply the clamp, where it is one, and quantise."""
        quant = self.graph.quants[layer.output]
        low, high = (quant.scale * (q - quant.zero_point) for q in (lo, hi))
        clamped = f"{layer.output}:clamped"
        if (lo, hi) == (quant.zero_point, 127):
            source = self.add("Relu", [source], clamped)
        elif (lo, hi) != (-128, 127):
            limits = [
                self.scalar(f"{layer.output}:low", low),
                self.scalar(f"{layer.output}:high", high),
            ]
            source = self.add("Clip", [source, *limits], clamped)
        self.snap(source, layer.output, layer.output)

    def end(self, output: Output) -> Shape:
        """Make an output of the original; return its shape, channels first."""
        source, shape = output.tensor, channels_first(self.graph.shapes[output.tensor])
        if output.ending:
            axis = 1 + (output.ending_axis + 1) % len(shape)
            self.add(output.ending, [source], output.onnx, axis=axis)
        elif source != output.onnx:  # a Flatten that moves nothing, or a second name
            if len(output.axes) == 1:
                source, shape = self.vector(source, source), (prod(shape),)
            self.add("Identity", [source], output.onnx)
        return shape

    def finish(self) -> onnx.ModelProto:
        graph = self.graph
        inputs = [
            _value_info(t.name, channels_first(graph.shapes[t.name]))
            for t in graph.inputs
        ]
        outputs = [_output_info(output, self.end(output)) for output in graph.outputs]
        body = helper.make_graph(
            self.nodes, graph.name, inputs, outputs, self.constants
        )
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(body, opset_imports=opset, ir_version=IR_VERSION)


def _value_info(name: str, shape: Shape) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *shape])


def _output_info(output: Output, shape: Shape) -> onnx.ValueInfoProto:
    if output.ending != "ArgMax":
        return _value_info(output.onnx, shape)
    kept = list(shape)
    kept[(output.ending_axis + 1) % len(shape)] = 1
    return helper.make_tensor_value_info(output.onnx, TensorProto.INT64, ["N", *kept])


def channels_first(shape: Shape) -> Shape:
    """(H, W, C) to (C, H, W); a vector's shape is itself."""
    return (shape[-1], *shape[:-1])


def _conv(writer: _Writer, layer: QConv) -> None:
    result = writer.add(
        "Conv",
        [
            writer.values[layer.inputs[0]],
            *writer.weights_and_bias(layer, layer.weights.transpose(0, 3, 1, 2)),
        ],
        f"{layer.output}:float",
        kernel_shape=layer.weights.shape[1:3],
        strides=layer.stride,
        dilations=layer.dilation,
        pads=layer.pads,
        group=layer.groups,
    )
    writer.finish_layer(result, layer, layer.requant.lo, layer.requant.hi)


def _dense(writer: _Writer, layer: QDense) -> None:
    source = writer.values[layer.inputs[0]]
    shape = writer.graph.shapes[layer.inputs[0]]
    weights = layer.weights
    if len(shape) == 3:
        source = writer.add("Flatten", [source], f"{layer.output}:vector")
        images = weights.reshape(-1, *shape)
        weights = images.transpose(0, 3, 1, 2).reshape(weights.shape)
    inputs = [source, *writer.weights_and_bias(layer, weights)]
    if layer.logits:
        writer.add("Gemm", inputs, layer.output, transB=1)
        return
    result = writer.add("Gemm", inputs, f"{layer.output}:float", transB=1)
    writer.finish_layer(result, layer, layer.requant.lo, layer.requant.hi)


def _add(writer: _Writer, layer: QAdd) -> None:
    """Operands in the scales that the device's multipliers stand for."""
    step = writer.graph.quants[layer.output].scale * 2.0**-layer.shift
    inputs = [
        writer.rescaled(name, m * step, f"{layer.output}:operand{number}")
        for number, (name, m) in enumerate(
            zip(layer.inputs, (layer.m1, layer.m2), strict=True)
        )
    ]
    result = writer.add("Add", inputs, f"{layer.output}:float")
    writer.finish_layer(result, layer, layer.lo, layer.hi)


def _mul(writer: _Writer, layer: QMul) -> None:
    inputs = [writer.values[name] for name in layer.inputs]
    result = writer.add("Mul", inputs, f"{layer.output}:float")
    writer.finish_layer(result, layer, layer.lo, layer.hi)


def _pool(writer: _Writer, layer: QPool) -> None:
    source = writer.values[layer.inputs[0]]
    spatial = writer.graph.shapes[layer.inputs[0]][:2]
    output = f"{layer.output}:float"
    window: dict[str, Any] = {
        "kernel_shape": layer.kernel,
        "strides": layer.stride,
        "pads": layer.pads,
    }
    if layer.kind == "max":
        writer.add("MaxPool", [source], output, **window)
    elif layer.kernel == spatial and not any(layer.pads):
        writer.add("GlobalAveragePool", [source], output)
    else:
        counted = int(layer.include_pad)
        beyond = beyond_edge(
            (*spatial, 1),
            writer.graph.shapes[layer.output],
            kernel=layer.kernel,
            stride=layer.stride,
            pads=layer.pads,
        )
        if counted and any(beyond):
            # ONNX Runtime's integer pool would count what lies beyond the padding.
            source, counted = _padded(writer, layer, source), 0
            window["pads"] = (0, 0, *beyond)
        writer.add("AveragePool", [source], output, count_include_pad=counted, **window)
    writer.finish_layer(output, layer, layer.requant.lo, layer.requant.hi)


def _padded(writer: _Writer, layer: QPool, source: str) -> str:
    top, left, bottom, right = layer.pads
    sides = np.array([0, 0, top, left, 0, 0, bottom, right])
    pads = writer.constant(f"{layer.output}:pads", sides)
    return writer.add("Pad", [source, pads], f"{layer.output}:padded")


def _concat(writer: _Writer, layer: QConcat) -> None:
    """Operands in the scales that the device's multipliers stand for."""
    rank, scale = len(writer.graph.shapes[layer.output]), _scale_of(writer, layer)
    inputs = []
    for number, (name, part) in enumerate(zip(layer.inputs, layer.parts, strict=True)):
        unit = part.m * scale * 2.0**-part.shift
        operand = writer.rescaled(name, unit, f"{layer.output}:operand{number}")
        inputs.append(writer.vector(name, operand) if rank == 1 else operand)
    axis = 1 + (layer.axis + 1) % rank
    result = writer.add("Concat", inputs, f"{layer.output}:float", axis=axis)
    writer.finish_layer(result, layer, -128, 127)


def _scale_of(writer: _Writer, layer: QLayer) -> float:
    return writer.graph.quants[layer.output].scale


def _pick(writer: _Writer, layer: QPick) -> None:
    name, source = layer.inputs[0], writer.values[layer.inputs[0]]
    sizes, quant = writer.graph.shapes[name], writer.graph.quants[layer.output]
    if len(layer.index) == 1 or layer.view:
        source, sizes = writer.vector(name, source), (prod(sizes),)
    result = f"{layer.output}:float"
    fill = quant.scale * (layer.fill - quant.zero_point)
    nodes, constants = pick_nodes(source, result, layer.index, sizes, fill)
    writer.nodes += nodes
    writer.constants += constants
    writer.snap(result, layer.output, layer.output)


def _stored(writer: _Writer, layer: QStored) -> None:
    """Dequantised from the stored values, which any batch shares."""
    name, quant = layer.output, writer.graph.quants[layer.output]
    values = layer.values[np.newaxis]
    values = np.moveaxis(values, -1, 1) if values.ndim == 4 else values
    inputs = [
        writer.constant(f"{name}:stored", values),
        writer.scalar(f"{name}:scale", quant.scale),
        writer.constant(f"{name}:zero", np.array(quant.zero_point, np.int8)),
    ]
    writer.add("DequantizeLinear", inputs, name)


def _table(writer: _Writer, layer: QTable) -> None:
    """A lookup in the very table, one entry an int8 value and channel."""
    name, quant = layer.output, writer.graph.quants[layer.output]
    source, axes = writer.values[layer.inputs[0]], len(writer.graph.shapes[name]) - 1
    first = 256 * np.arange(len(layer.table)) + 128
    offset = first.astype(np.int32).reshape(-1, *(1,) * axes)
    entries = quant.scale * (layer.table.astype(np.float32) - quant.zero_point)
    wide = writer.add(
        "Cast", [f"{source}:stored"], f"{name}:wide", to=TensorProto.INT32
    )
    index = [wide, writer.constant(f"{name}:first", offset)]
    writer.add("Add", index, f"{name}:index")
    values = writer.constant(f"{name}:table", entries.astype(np.float32).reshape(-1))
    writer.add("Gather", [values, f"{name}:index"], f"{name}:float")
    writer.snap(f"{name}:float", name, name)


_RULES: Mapping[type[QLayer], Callable[[_Writer, Any], None]] = {
    QConv: _conv,
    QDense: _dense,
    QAdd: _add,
    QMul: _mul,
    QPool: _pool,
    QConcat: _concat,
    QPick: _pick,
    QTable: _table,
    QStored: _stored,
}
