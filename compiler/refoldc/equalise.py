"""Cross-layer equalisation: move scale between channels of neighbouring layers.

A convolution, a ReLU or nothing, and the layer that alone reads it compute the
same function when a channel between them is divided by s and the weights that read
it are multiplied by s. Here s makes the channels of the tensor between and the
weights that read them equally well quantised: ``s = sqrt(r1 / r2)``, with r1 the
channel's range and r2 its largest share of a row of weights. A depthwise reader
has a weight scale a channel, so that r2 is 1 and s levels the ranges alone.

ReLU6 is left alone: it clips at 6 in one scale only, which the paper disregards.

Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias
Correction, 2019 (arXiv 1906.04721), equation 11. There r1 is the range of the first
layer's weights, which here have a scale a channel and lose nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from refoldc.calibrate import Calibration
from refoldc.ir import F64, BnShape, Bounds, Conv, Graph, Node

MOST = 8.0
"""Largest factor either way, for the sake of channels that hardly vary."""
DEAD = 1e-3
"""A channel with less than this share of its tensor's range stays as it is."""


def equalise(graph: Graph, calibration: Calibration) -> tuple[Graph, Calibration]:
    """Level every chain of convolutions.

    Args:
        graph: Folded. The targets of its sites move with their channels.
        calibration: Of ``graph``, with min-max ranges.

    Returns:
        A graph of the same function, and what calibrating it would give.
    """
    nodes: dict[str, Node] = {node.name: node for node in graph.nodes}
    factors: dict[str, F64] = {}
    for first, second in _pairs(graph):
        writer, reader = nodes[first], nodes[second]
        if isinstance(writer, Conv) and isinstance(reader, Conv):
            s = _factors(_range(writer, calibration), reader)
            factors[first] = s
            nodes[first], nodes[second] = _divided(writer, s), _multiplied(reader, s)
    levelled = replace(graph, nodes=tuple(nodes.values()))
    return levelled, _moved(calibration, levelled, factors)


def _pairs(graph: Graph) -> Iterator[tuple[str, str]]:
    """Names of convolutions and of the one convolution that reads each."""
    for node in graph.nodes:
        readers = [other for other in graph.nodes if node.output in other.inputs]
        if (
            isinstance(node, Conv)
            and node.bounds in (Bounds(), Bounds(0.0))
            and node.output not in graph.output_tensors
            and len(readers) == 1
            and isinstance(readers[0], Conv)
            and (readers[0].groups == 1 or readers[0].depthwise)
        ):
            yield node.name, readers[0].name


def _range(conv: Conv, calibration: Calibration) -> F64:
    """Largest magnitude of each channel behind the activation, [C]."""
    low, high = calibration.spans[conv.name]
    return np.maximum(high, 0.0 if conv.bounds == Bounds(0.0) else -low)


def _factors(first: F64, reader: Conv) -> F64:
    """s of each channel between, [C], about 1 on the geometric mean."""
    second = np.ones_like(first) if reader.depthwise else _shares(reader)
    live = (first > DEAD * first.max()) & (second > DEAD)
    logs = np.zeros_like(first)
    exponent = 1.0 if reader.depthwise else 0.5
    logs[live] = exponent * np.log(first[live] / second[live])
    logs[live] -= logs[live].mean() if live.any() else 0.0
    return np.exp(np.clip(logs, -np.log(MOST), np.log(MOST)))


def _shares(conv: Conv) -> F64:
    """Largest weight that reads each input channel, of 1 a row, [C_IN]."""
    weights = np.abs(conv.weights.astype(np.float64))
    rows = weights.reshape(len(weights), -1).max(axis=1)
    rows = np.where(rows == 0, 1, rows)
    return np.asarray((weights.max(axis=(1, 2)) / rows[:, None]).max(axis=0))


def _divided(conv: Conv, s: F64) -> Conv:
    bn = conv.bn and BnShape(conv.bn.beta / s, conv.bn.sigma / s, conv.bn.origin)
    return replace(
        conv,
        weights=(conv.weights / s[:, None, None, None]).astype(np.float32),
        bias=(conv.bias / s).astype(np.float32),
        bn=bn,
    )


def _multiplied(conv: Conv, s: F64) -> Conv:
    along = s[:, None, None, None] if conv.depthwise else s
    return replace(conv, weights=(conv.weights * along).astype(np.float32))


def _moved(
    calibration: Calibration, graph: Graph, factors: Mapping[str, F64]
) -> Calibration:
    """Moments, peaks and ranges of the channels that were divided."""
    moments, peak = dict(calibration.moments), dict(calibration.peak)
    spans, ranges = dict(calibration.spans), dict(calibration.ranges)
    for node in graph.nodes:
        if not isinstance(node, Conv) or node.name not in factors:
            continue
        s = factors[node.name]
        mean, deviation = moments[node.name]
        moments[node.name] = mean / s, deviation / s
        peak[node.name] = peak[node.name] / s
        low, high = (edge / s for edge in spans[node.name])
        spans[node.name] = low, high
        least = max(float(low.min()), node.bounds.low)
        ranges[node.output] = least, max(float(high.max()), node.bounds.low)
    return replace(calibration, moments=moments, peak=peak, spans=spans, ranges=ranges)
