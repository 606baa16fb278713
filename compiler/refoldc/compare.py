"""Run the int8 network beside the float one and report where they part."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnxruntime import InferenceSession

from refoldc.accuracy import LOSSY_DB, Accuracy, LayerAccuracy
from refoldc.calibrate import device_images, float_feeds
from refoldc.float_export import channels_first, float_model, open_session
from refoldc.input_spec import read_inputs
from refoldc.ir import F32, F64, Graph, QGraph
from refoldc.options import CompileOptions
from refoldc.plan import logits_tensors
from refoldc.reference import Reference

BATCH = 8
MOST_DB = 99.0
"""Stands for any ratio beyond, and for a layer without noise."""
WORST = 3
DEAD = 1e-6
"""A channel with less of the largest channel's energy is not among the worst."""

Tensors = Mapping[str, F32]


def compare(
    folded: Graph, graph: QGraph, images: NDArray[Any], options: CompileOptions
) -> Accuracy:
    """Run both networks over the same images.

    Args:
        folded: What ``graph`` was quantised from, before any bias correction.
        graph: The integer network.
        images: As for ``calibrate``.
        options: From ``CompileOptions.for_input``.
    """
    comparison = _Comparison(folded, graph, options)
    totals: dict[str, _Totals] = {}
    agreed = 0
    for start in range(0, len(images), BATCH):
        batch = comparison.batch(images[start : start + BATCH])
        agreed += batch.agreed
        for name, found in batch.totals:
            totals[name] = totals[name].joined(found) if name in totals else found
    layers = tuple(total.record(name) for name, total in totals.items())
    lossy = (found.layer for found in layers if found.sqnr_db < LOSSY_DB)
    return Accuracy(
        images=len(images),
        agreement=100 * agreed / len(images),
        first_loss=next(lossy, None),
        culprit=min(layers, key=lambda found: found.own_sqnr_db).layer,
        layers=layers,
    )


def layer_tensors(
    folded: Graph,
    stored: Mapping[str, NDArray[Any]],
    images: NDArray[Any],
    options: CompileOptions,
) -> dict[str, NDArray[Any]]:
    """Every layer's output in int8 and in float, for a dump.

    Args:
        folded: As for :func:`compare`.
        stored: Int8 (or int32) arrays [N, ...] by layer name, of ``images``.
        images: As for ``calibrate``.
        options: From ``CompileOptions.for_input``.

    Returns:
        ``LAYER:int8`` and ``LAYER:float``, channels last.
    """
    outputs = [node.output for node in folded.nodes]
    session = open_session(float_model(folded, outputs))
    found = _run(session, outputs, float_feeds(folded, images, options))
    arrays: dict[str, NDArray[Any]] = {}
    for node in folded.nodes:
        arrays[f"{node.name}:int8"] = stored[node.name]
        real = np.moveaxis(found[node.output], 1, -1)
        arrays[f"{node.name}:float"] = np.broadcast_to(real, stored[node.name].shape)
    return arrays


@dataclass(frozen=True, eq=False)
class _Totals:
    """Energies over images and positions, [C] each, and counts of values."""

    signal: F64
    noise: F64
    own_signal: F64
    own_noise: F64
    beyond: int
    count: int

    def joined(self, other: _Totals) -> _Totals:
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return _Totals(*(mine + more for mine, more in pairs))

    def record(self, name: str) -> LayerAccuracy:
        live = np.flatnonzero(self.own_signal > DEAD * self.own_signal.max())
        shares = self.own_noise[live] / self.own_signal[live]
        worst = live[np.argsort(-shares, kind="stable")][:WORST]
        return LayerAccuracy(
            layer=name,
            sqnr_db=decibel(self.signal.sum(), self.noise.sum()),
            own_sqnr_db=decibel(self.own_signal.sum(), self.own_noise.sum()),
            saturated=100 * self.beyond / self.count,
            worst_channels=tuple(int(c) for c in worst if self.own_noise[c] > 0),
        )


def decibel(signal: float, noise: float) -> float:
    """Ratio of two energies, within +-``MOST_DB``.

    >>> decibel(100.0, 1.0), decibel(1.0, 0.0), decibel(0.0, 1.0)
    (20.0, 99.0, -99.0)
    """
    if noise == 0:
        return MOST_DB
    ratio = 10 * (math.log10(max(signal, 1e-300)) - math.log10(noise))
    return max(-MOST_DB, min(MOST_DB, round(ratio, 2)))


@dataclass(frozen=True, eq=False)
class _Batch:
    agreed: int
    totals: Iterator[tuple[str, _Totals]]


class _Comparison:
    """Both networks, ready to run side by side."""

    def __init__(self, folded: Graph, graph: QGraph, options: CompileOptions) -> None:
        self.graph = graph
        self.options = options
        self.folded = folded
        self.logits = logits_tensors(graph)
        self.reference = Reference(graph)
        self.outputs = [layer.output for layer in graph.layers]
        self.whole = open_session(float_model(folded, self.outputs))
        self.alone = _single_layers(folded)

    def batch(self, images: NDArray[Any]) -> _Batch:
        """Compare every tensor of some images."""
        stored = self._integers(images)
        real = {name: self._dequantised(name, q) for name, q in stored.items()}
        feed = float_feeds(self.folded, images, self.options)
        wanted = self._run(self.whole, feed, real)
        feed = {f"{name}:given": values for name, values in real.items()}
        own = self._run(self.alone, feed, real)
        last = self.graph.output
        agreed = np.equal(_choices(wanted[last]), _choices(real[last])).sum()
        totals = (
            (layer.name, self._totals(layer.output, wanted, own, real))
            for layer in self.graph.layers
        )
        return _Batch(int(agreed), totals)

    def _run(self, session: InferenceSession, feed: Tensors, like: Tensors) -> Tensors:
        """Every output; constants, which have no batch, as often as the images."""
        found = _run(session, self.outputs, feed)
        return {k: np.broadcast_to(v, like[k].shape) for k, v in found.items()}

    def _integers(self, images: NDArray[Any]) -> dict[str, NDArray[Any]]:
        received = device_images(self.graph, images, self.options)
        traces = [self.reference.trace(image) for image in received]
        stored = {
            layer.output: np.stack([trace[layer.name] for trace in traces])
            for layer in self.graph.layers
        }
        given = [read_inputs(self.graph, image) for image in received]
        inputs = {name: np.stack([g[name] for g in given]) for name in given[0]}
        return {**inputs, **stored}

    def _dequantised(self, name: str, stored: NDArray[Any]) -> F32:
        quant = self.graph.quants[name]
        real = (stored.astype(np.float64) - quant.zero_point) * quant.scale
        return np.asarray(channels_first(real), np.float32)

    def _totals(
        self, name: str, wanted: Tensors, own: Tensors, real: Tensors
    ) -> _Totals:
        quant = self.graph.quants[name]
        low, high = (quant.scale * (q - quant.zero_point) for q in (-128.5, 127.5))
        beyond = (wanted[name] < low) | (wanted[name] > high)
        return _Totals(
            signal=_energy(wanted[name]),
            noise=_energy(real[name] - wanted[name]),
            own_signal=_energy(own[name]),
            own_noise=_energy(real[name] - own[name]),
            beyond=0 if name in self.logits else int(beyond.sum()),
            count=wanted[name].size,
        )


def _run(session: InferenceSession, outputs: Sequence[str], feed: Tensors) -> Tensors:
    read = {source.name for source in session.get_inputs()}
    found = session.run(outputs, {k: v for k, v in feed.items() if k in read})
    return dict(zip(outputs, found, strict=True))


def _single_layers(folded: Graph) -> InferenceSession:
    """Every layer of a network, each reading inputs of the model, ``T:given``."""
    given = {name: f"{name}:given" for name in folded.shapes}
    nodes = tuple(
        replace(node, inputs=tuple(given[name] for name in node.inputs))
        for node in folded.nodes
    )
    shapes = {**folded.shapes, **{given[k]: v for k, v in folded.shapes.items()}}
    inputs = tuple(replace(t, name=given[t.name]) for t in folded.inputs)
    alone = replace(folded, inputs=inputs, nodes=nodes, shapes=shapes)
    model = float_model(alone, [node.output for node in nodes])
    read = dict.fromkeys(name for node in folded.nodes for name in node.inputs)
    known = {tensor.name for tensor in folded.inputs}
    for name in read:
        if name not in known:
            shape = folded.shapes[name]
            dims: list[str | int | None] = ["N", shape[-1], *shape[:-1]]
            source = helper.make_tensor_value_info(given[name], TensorProto.FLOAT, dims)
            model.graph.input.append(source)
    return open_session(model)


def _energy(values: F32) -> F64:
    """Sum of squares per channel, [C]; values [N, C, ...]."""
    rows = values.reshape(*values.shape[:2], -1).astype(np.float64)
    return np.asarray(np.einsum("ncp,ncp->c", rows, rows))


def _choices(answers: F32) -> NDArray[np.intp]:
    """Place of the largest value, ties to the lowest in the device's order."""
    last = np.moveaxis(answers, 1, -1)
    return np.asarray(last.reshape(len(last), -1).argmax(axis=1))
