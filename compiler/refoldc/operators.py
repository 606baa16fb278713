"""The layers without weights, in integers; the formulas are docs/numerics.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from refoldc.ir import (
    I8,
    I64,
    Pads,
    QAdd,
    QConcat,
    QGraph,
    QLayer,
    QMul,
    QPick,
    QPool,
    QStored,
    QTable,
    Shape,
)
from refoldc.pooling import pad_image, window_counts


def add(layer: QAdd, _graph: QGraph, a: I8, b: I8) -> I8:
    """q = clamp((a*m1 + b*m2 + bias) >> shift, lo, hi), in int32."""
    total = a.astype(np.int32) * layer.m1 + b.astype(np.int32) * layer.m2 + layer.bias
    return np.asarray(np.clip(total >> layer.shift, layer.lo, layer.hi), np.int8)


def multiply(layer: QMul, graph: QGraph, a: I8, b: I8) -> I8:
    """q = clamp(((a - z_a) * (b - z_b) * m + bias) >> shift, lo, hi), in int64."""
    za, zb = (graph.quants[name].zero_point for name in layer.inputs)
    product = (a.astype(np.int64) - za) * (b.astype(np.int64) - zb)
    q = (product * layer.m + layer.bias) >> layer.shift
    return np.asarray(np.clip(q, layer.lo, layer.hi), np.int8)


def table(layer: QTable, _graph: QGraph, x: I8) -> I8:
    """table[c][x + 128]; one table serves all channels where there is one only."""
    channel = np.arange(x.shape[-1]) % len(layer.table)
    return np.asarray(layer.table[channel, x.astype(np.int16) + 128])


def concat(layer: QConcat, graph: QGraph, *inputs: I8) -> I8:
    """q = clamp((x * m + bias) >> shift, -128, 127), one (m, bias, shift) an input."""
    rank = len(graph.shapes[layer.output])
    scaled = [
        np.clip((x.astype(np.int32) * part.m + part.bias) >> part.shift, -128, 127)
        for x, part in zip(inputs, layer.parts, strict=True)
    ]
    flat = [x.reshape(-1) if rank == 1 else x for x in scaled]
    return np.concatenate(flat, axis=layer.axis).astype(np.int8)


def pick(layer: QPick, graph: QGraph, x: I8) -> I8:
    """x[index[0]][:, index[1]][:, :, index[2]], -1 giving ``fill``.

    A view has its elements in the shape of the output.
    """
    shape = [len(positions) for positions in layer.index] if layer.view else x.shape
    y = x.reshape(-1) if len(layer.index) == 1 else x.reshape(shape)
    for axis, positions in enumerate(layer.index):
        y = np.take(y, positions, axis=axis)
    for axis, positions in enumerate(layer.index):
        np.moveaxis(y, axis, 0)[positions < 0] = layer.fill
    return y


def stored(layer: QStored, _graph: QGraph) -> I8:
    """The constant."""
    return layer.values


def pool(layer: QPool, graph: QGraph, x: I8) -> I8:
    """Largest or mean value under each window."""
    out = graph.shapes[layer.output]
    lo, hi = layer.requant.lo, layer.requant.hi
    if layer.kind == "max":
        largest = pool_windows(layer, x, layer.pads, -128, out).max(axis=(3, 4))
        return np.asarray(np.clip(largest, lo, hi))
    values, pads = x.astype(np.int64), layer.pads
    if layer.include_pad:
        zero = graph.quants[layer.inputs[0]].zero_point
        values, pads = pad_image(values, pads, zero), (0, 0, 0, 0)
    return average(
        layer, graph, pool_windows(layer, values, pads, 0, out).sum(axis=(3, 4))
    )


def pool_windows(
    layer: QPool, x: NDArray[Any], pads: Pads, fill: int, out: Shape
) -> NDArray[Any]:
    """The values under each window, [H, W, C, KH, KW]; a view.

    Args:
        x: [H, W, C], surrounded by ``fill`` as far as the windows reach.
        pads: Top and left count; bottom and right follow from ``out``.
        out: (H, W, C) of the output.
    """
    (kernel, stride), size = (layer.kernel, layer.stride), x.shape
    after = [
        max(0, (out[i] - 1) * stride[i] + kernel[i] - pads[i] - size[i]) for i in (0, 1)
    ]
    padded = pad_image(x, (pads[0], pads[1], after[0], after[1]), fill)
    views = sliding_window_view(padded, kernel, axis=(0, 1))
    return views[:: stride[0], :: stride[1]][: out[0], : out[1]]


def average(layer: QPool, graph: QGraph, sums: I64) -> I8:
    """Requantise window sums [H, W, C] by what each window covers."""
    counts = window_counts(
        graph.shapes[layer.inputs[0]],
        graph.shapes[layer.output],
        kernel=layer.kernel,
        stride=layer.stride,
        pads=layer.pads,
        include_pad=layer.include_pad,
    )
    entry = np.searchsorted(layer.counts, counts)[..., np.newaxis]
    r = layer.requant
    q = (sums * r.m[entry].astype(np.int64) + r.b[entry]) >> r.shift
    return np.asarray(np.clip(q, r.lo, r.hi), np.int8)


SIMPLE: Mapping[type[QLayer], Callable[..., I8]] = {
    QAdd: add,
    QMul: multiply,
    QTable: table,
    QPool: pool,
    QConcat: concat,
    QPick: pick,
    QStored: stored,
}
"""From (layer, graph, inputs...) to the output."""
