"""Take out of each layer's bias what quantisation added to its mean.

Rounding the weights and the inputs of a layer shifts the mean of every output
channel. The shift is measured on calibration images, in the integer network whose
earlier layers are corrected already, and subtracted from the bias.

Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias
Correction, 2019 (arXiv 1906.04721), section 4.2, in its empirical form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.accumulate import Floats, make_sums
from refoldc.calibrate import device_images, float_feeds
from refoldc.float_export import (
    before_activation,
    float_model,
    open_session,
)
from refoldc.input_spec import read_inputs
from refoldc.ir import F64, Conv, Dense, Graph, QConv, QDense, QGraph, QLayer
from refoldc.operators import SIMPLE
from refoldc.options import CompileOptions
from refoldc.plan import last_reads
from refoldc.requant import apply, channel_requant, requantise

IMAGES = 32
"""More change little: docs/accuracy.md."""
BATCH = 8


def correct_biases(
    graph: Graph, quantised: QGraph, images: NDArray[Any], options: CompileOptions
) -> Graph:
    """The float network whose biases make up for what ``quantised`` shifts.

    Quantising the result with the same calibration gives the corrected network.

    Args:
        graph: What ``quantised`` was made from.
        quantised: Its integer network.
        images: Of calibration; the first ``IMAGES`` are used.
        options: From ``CompileOptions.for_input``.
    """
    images = images[:IMAGES]
    walk = _Walk(quantised, _means(graph, images, options))
    shifts = walk.run(device_images(quantised, images, options))
    nodes = tuple(
        replace(node, bias=(node.bias + shifts[node.name]).astype(np.float32))
        if isinstance(node, (Conv, Dense))
        else node
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)


def _means(
    graph: Graph, images: NDArray[Any], options: CompileOptions
) -> Mapping[str, F64]:
    """Mean of each layer's float output before its activation, [C], by its name."""
    names = [before_activation(node) for node in graph.nodes]
    session = open_session(float_model(graph, names))
    sums = [np.zeros(graph.shapes[node.output][-1]) for node in graph.nodes]
    for start in range(0, len(images), BATCH):
        feeds = float_feeds(graph, images[start : start + BATCH], options)
        results = session.run(names, feeds)
        means = (y.reshape(*y.shape[:2], -1).mean(2, dtype=float) for y in results)
        sums = [total + m.sum(0) for total, m in zip(sums, means, strict=True)]
    layers = zip(graph.nodes, sums, strict=True)
    return {node.name: total / len(images) for node, total in layers}


class _Walk:
    """Runs all images through one layer after the other, correcting as it goes."""

    def __init__(self, graph: QGraph, means: Mapping[str, F64]) -> None:
        self.graph = graph
        self.means = means
        self.shifts: dict[str, F64] = {}
        self.count = 0

    def run(self, received: NDArray[Any]) -> Mapping[str, F64]:
        """What to add to each layer's bias, real, [C], by its name."""
        graph = self.graph
        self.count = len(received)
        given = [read_inputs(graph, image) for image in received]
        tensors = {name: [g[name] for g in given] for name in given[0]}
        last = last_reads(graph)
        for step, layer in enumerate(graph.layers):
            inputs = [tensors[name] for name in layer.inputs]
            tensors[layer.output] = self._layer(layer, inputs)
            tensors = {k: v for k, v in tensors.items() if last[k] > step}
        return self.shifts

    def _layer(
        self, layer: QLayer, inputs: list[list[NDArray[Any]]]
    ) -> list[NDArray[Any]]:
        if isinstance(layer, (QConv, QDense)):
            sums = make_sums(layer, self.graph)
            return self._weighted(layer, [sums(x) for x in inputs[0]])
        rule = SIMPLE[type(layer)]
        if not inputs:
            return [rule(layer, self.graph)] * self.count
        return [rule(layer, self.graph, *given) for given in zip(*inputs, strict=True)]

    def _weighted(
        self, layer: QConv | QDense, accumulators: list[Floats]
    ) -> list[NDArray[Any]]:
        graph = self.graph
        unit = graph.quants[layer.inputs[0]].scale * layer.weight_scale
        rows = (acc.reshape(-1, len(unit)) for acc in accumulators)
        mean = np.mean([r.mean(axis=0, dtype=float) for r in rows], axis=0)
        bias = self.means[layer.name] - mean * unit
        self.shifts[layer.name] = bias - layer.bias
        limits = (layer.requant.lo, layer.requant.hi)
        table = channel_requant(unit, bias, graph.quants[layer.output], limits)
        if isinstance(layer, QDense) and layer.logits:
            return [apply(acc, table) for acc in accumulators]
        shape = graph.shapes[layer.output]
        return [requantise(acc, table).reshape(shape) for acc in accumulators]
