"""ONNX Runtime agrees with the integer network, layer by layer and in its answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from graphs import make_images, quantised, small_cnn
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from refoldc.calibrate import calibrate, real_input
from refoldc.float_export import channels_first, open_session
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.input_spec import read_inputs
from refoldc.ir import QAdd, QConv, QDense, QGraph, QLayer, QPool, Quant
from refoldc.options import CompileOptions
from refoldc.qdq_export import qdq_model
from refoldc.quantise import quantise
from refoldc.reference import Reference

CIFAR = CompileOptions(mean=(0.4914, 0.4822, 0.4465), std=(0.247, 0.2435, 0.2616))
NETWORKS = ("resnet20", "mobilenetv2x05")


class ExplicitLayers:
    """Each layer as explicit integer nodes of ONNX Runtime, with inputs of its own."""

    def __init__(self, graph: QGraph) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[str] = []
        rules: dict[type[QLayer], Callable[[Any], None]] = {
            QConv: self._conv,
            QDense: self._dense,
            QAdd: self._add,
            QPool: self._pool,
        }
        for layer in graph.layers:
            if type(layer) in rules:
                rules[type(layer)](layer)

    def _constant(self, array: Any, dtype: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, dtype), name))
        return name

    def _quant(self, quant: Quant) -> list[str]:
        scale = self._constant(quant.scale, np.float32)
        return [scale, self._constant(quant.zero_point, np.int8)]

    def _operand(self, layer: QLayer, number: int) -> list[str]:
        """An input of a layer, with its scale and zero point."""
        name, tensor = f"{layer.name}:{number}", layer.inputs[number]
        high, wide, depth = self._image(tensor)
        shape = [1, depth, high, wide]
        kind = TensorProto.INT8
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return [name, *self._quant(self.graph.quants[tensor])]

    def _image(self, tensor: str) -> tuple[int, ...]:
        shape = self.graph.shapes[tensor]
        return shape if len(shape) == 3 else (1, 1, *shape)

    def _emit(
        self, op: str, layer: QLayer, inputs: list[str], **attributes: Any
    ) -> None:
        domain = "" if op in ("QLinearConv", "MaxPool") else "com.microsoft"
        self.outputs.append(layer.name)
        self.nodes.append(
            helper.make_node(op, inputs, [layer.name], domain=domain, **attributes)
        )

    def _weighted(self, layer: QConv | QDense, weights: NDArray[np.int8]) -> list[str]:
        return [
            self._constant(weights, np.int8),
            self._constant(layer.weight_scale, np.float32),
            self._constant(np.zeros(len(weights)), np.int8),
        ]

    def _bias(self, layer: QConv | QDense) -> str:
        units = self.graph.quants[layer.inputs[0]].scale * layer.weight_scale
        limit = 2**31 - 1
        return self._constant(
            np.clip(np.rint(layer.bias / units), -limit, limit), np.int32
        )

    def _conv(self, layer: QConv) -> None:
        weights = layer.weights.transpose(0, 3, 1, 2)
        inputs = [
            *self._operand(layer, 0),
            *self._weighted(layer, weights),
            *self._quant(self.graph.quants[layer.output]),
            self._bias(layer),
        ]
        self._emit(
            "QLinearConv",
            layer,
            inputs,
            kernel_shape=weights.shape[2:],
            strides=layer.stride,
            dilations=layer.dilation,
            pads=layer.pads,
            group=layer.groups,
        )

    def _dense(self, layer: QDense) -> None:
        """As a convolution whose window is the whole image."""
        high, wide, depth = self._image(layer.inputs[0])
        weights = layer.weights.reshape(-1, high, wide, depth).transpose(0, 3, 1, 2)
        inputs = [*self._operand(layer, 0), *self._weighted(layer, weights)]
        if layer.logits:  # no int32 output exists: float, from dequantised operands
            x = f"{layer.name}:x"
            w = f"{layer.name}:w"
            self.nodes += [
                helper.make_node("DequantizeLinear", inputs[:3], [x]),
                helper.make_node("DequantizeLinear", inputs[3:], [w], axis=0),
                helper.make_node(
                    "Conv",
                    [x, w, self._constant(layer.bias, np.float32)],
                    [layer.name],
                ),
            ]
            self.outputs.append(layer.name)
            return
        inputs += [*self._quant(self.graph.quants[layer.output]), self._bias(layer)]
        self._emit("QLinearConv", layer, inputs)

    def _add(self, layer: QAdd) -> None:
        inputs = [*self._operand(layer, 0), *self._operand(layer, 1)]
        out = self._quant(self.graph.quants[layer.output])
        self._emit("QLinearAdd", layer, [*inputs, *out])

    def _pool(self, layer: QPool) -> None:
        inputs = self._operand(layer, 0)
        window: dict[str, Any] = {
            "kernel_shape": layer.kernel,
            "strides": layer.stride,
            "pads": layer.pads,
        }
        if layer.kind == "max":
            self._emit("MaxPool", layer, inputs[:1], **window)
            return
        out = self._quant(self.graph.quants[layer.output])
        counted = int(layer.include_pad)
        self._emit(
            "QLinearAveragePool",
            layer,
            [*inputs, *out],
            count_include_pad=counted,
            **window,
        )

    def session(self) -> onnxruntime.InferenceSession:
        """All layers as one model."""
        outputs = [
            helper.make_tensor_value_info(
                name,
                TensorProto.FLOAT if self._is_logits(name) else TensorProto.INT8,
                None,
            )
            for name in self.outputs
        ]
        body = helper.make_graph(
            self.nodes, "layers", self.inputs, outputs, self.constants
        )
        opset = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return open_session(helper.make_model(body, opset_imports=opset, ir_version=8))

    def _is_logits(self, name: str) -> bool:
        layers = {layer.name: layer for layer in self.graph.layers}
        return isinstance(layers[name], QDense) and layers[name].logits

    def feeds(self, tensors: dict[str, NDArray[np.int8]]) -> dict[str, NDArray[Any]]:
        """Every layer's operands from the reference's tensors."""
        fed = {}
        for layer in self.graph.layers:
            for number, tensor in enumerate(layer.inputs):
                image = tensors[tensor].reshape(1, *self._image(tensor))
                fed[f"{layer.name}:{number}"] = channels_first(image)
        return {i.name: fed[i.name] for i in self.inputs}


def largest_differences(graph: QGraph, image: NDArray[Any]) -> dict[str, int]:
    """In LSB, per layer, fed with equal inputs."""
    layers = ExplicitLayers(graph)
    trace = Reference(graph).trace(image)
    tensors = {layer.output: trace[layer.name] for layer in graph.layers}
    tensors.update(read_inputs(graph, image))
    results = layers.session().run(layers.outputs, layers.feeds(tensors))
    found = {}
    by_name = {layer.name: layer for layer in graph.layers}
    for name, result in zip(layers.outputs, results, strict=True):
        layer = by_name[name]
        expected = trace[name].astype(np.int64)
        actual = np.moveaxis(result[0], 0, -1).reshape(expected.shape)
        if result.dtype == np.float32:
            actual = np.rint(actual / graph.quants[layer.output].scale)
        else:
            lo, hi = limits(layer)
            actual = np.clip(actual, lo, hi)
        found[name] = int(np.abs(actual.astype(np.int64) - expected).max())
    return found


def limits(layer: QLayer) -> tuple[int, int]:
    """The activation, which explicit nodes leave out."""
    if isinstance(layer, QAdd):
        return layer.lo, layer.hi
    assert isinstance(layer, (QConv, QDense, QPool))
    return layer.requant.lo, layer.requant.hi


def cifar_network(shared: Path, name: str) -> tuple[QGraph, dict[str, NDArray[Any]]]:
    """A shared network calibrated on 64 clean images, and some images."""
    with np.load(shared / "data/cifar10c_sev5_1000.npz") as data:
        images = {key: data[key] for key in ("clean", "contrast_5")}
    folded = fold(import_model(shared / f"models/{name}_cifar10_forge.onnx"))
    calibration = calibrate(folded, images["clean"][:64], CIFAR)
    return quantise(folded, calibration, CIFAR), images


def test_layers_of_the_small_network() -> None:
    """Every operator is within 1 LSB of ONNX Runtime's integer kernels."""
    graph = quantised(small_cnn())
    image = make_images(graph.shapes["t0"], 1, seed=3)[0]
    differences = largest_differences(graph, image)
    assert len(differences) == sum(type(n).__name__ != "QTable" for n in graph.layers)
    assert max(differences.values()) <= 1, differences


@pytest.mark.parametrize("name", NETWORKS)
def test_layers_of_real_networks(name: str, shared: Path) -> None:
    """Real networks too, on a clean and a corrupted image."""
    graph, images = cifar_network(shared, name)
    for image in (images["clean"][70], images["contrast_5"][71]):
        differences = largest_differences(graph, image)
        assert max(differences.values()) <= 1, differences


def test_exported_names_and_versions() -> None:
    """Input, output and every layer keep their names; IR and opset are old enough."""
    graph = quantised(small_cnn())
    model = qdq_model(graph)
    onnx.checker.check_model(model, full_check=True)
    assert ["t0"] == [i.name for i in model.graph.input]
    assert [graph.output] == [o.name for o in model.graph.output]
    produced = {name for node in model.graph.node for name in node.output}
    assert {layer.output for layer in graph.layers} <= produced
    assert model.ir_version <= 10
    assert [17] == [o.version for o in model.opset_import]


def test_fetched_layers_are_near_the_reference() -> None:
    """Running the export alone, int8 tensors follow within the drift of 1 LSB each."""
    graph = quantised(small_cnn())
    model = qdq_model(graph)
    first = graph.layers[0]
    info = helper.make_tensor_value_info(first.output, TensorProto.FLOAT, None)
    model.graph.output.append(info)
    pixels = make_images(graph.shapes["t0"], 1, seed=5)
    options = CompileOptions().for_input(graph.shapes["t0"])
    feed = {graph.input: channels_first(real_input(pixels, options))}
    real = open_session(model).run([first.output], feed)[0][0]
    quant = graph.quants[first.output]
    stored = np.rint(np.moveaxis(real, 0, -1) / quant.scale) + quant.zero_point
    expected = Reference(graph).trace(pixels[0])[first.name]
    assert np.abs(stored - expected).max() <= 1


def test_equal_answers(shared: Path) -> None:
    """Top-1 of reference and QDQ export is equal on 99.8 % of 1,000 images."""
    graph, images = cifar_network(shared, "resnet20")
    reference = Reference(graph)
    pixels = images["clean"]
    ours = np.array([reference.infer(image).logits.argmax() for image in pixels])
    feed = channels_first(real_input(pixels, CIFAR))
    logits = open_session(qdq_model(graph)).run(None, {graph.input: feed})[0]
    assert np.mean(ours == logits.argmax(axis=1)) >= 0.998
