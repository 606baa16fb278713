"""Exact accumulators of convolutions and dense layers, at the speed of BLAS.

Everything is an integer held in floating point, because matrix products are
fast there: float32 where every partial sum of a layer stays below 2**24, else
float64, so that each sum is exact in whatever order it is formed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from refoldc.ir import I8, QConv, QDense, QGraph
from refoldc.pooling import pad_image

Floats = NDArray[Any]
"""Integers in float32 or float64."""

FLOAT32_EXACT = 2**24

Sums = Callable[[I8], Floats]
"""From an input tensor to bias-free accumulators, [positions, C] or [C]."""


def make_sums(layer: QConv | QDense, graph: QGraph) -> Sums:
    """Prepare a layer once: its weights as floats that hold every sum exactly."""
    zero = graph.quants[layer.inputs[0]].zero_point
    dtype = exact_dtype(layer.weights, zero)
    if isinstance(layer, QDense):
        return DenseSums(layer.weights.astype(dtype), zero)
    kind = DepthwiseSums if layer.depthwise else ConvSums
    out = graph.shapes[layer.output][:2]
    return kind(layer, layer.weights.astype(dtype), zero, (out[0], out[1]))


def exact_dtype(weights: I8, zero_point: int) -> type[np.floating[Any]]:
    """The float type in which every partial sum of w * (x - z) is exact."""
    rows = np.abs(weights.reshape(len(weights), -1).astype(np.int64)).sum(axis=1)
    largest = max(127 - zero_point, 128 + zero_point) * int(rows.max())
    return np.float32 if largest < FLOAT32_EXACT else np.float64


def centred(x: I8, zero_point: int, dtype: Any) -> Floats:
    """x - z as floats."""
    return np.asarray(np.subtract(x, dtype.type(zero_point), dtype=dtype))


@dataclass(frozen=True, eq=False)
class DenseSums:
    """Accumulators of a dense layer; weights [OUT, IN]."""

    weights: Floats
    zero_point: int

    def __call__(self, x: I8) -> Floats:
        return self.weights @ centred(
            x.reshape(-1), self.zero_point, self.weights.dtype
        )


@dataclass(frozen=True, eq=False)
class ConvSums:
    """Accumulators of a plain or grouped convolution, [positions, C_OUT]."""

    layer: QConv
    weights: Floats
    zero_point: int
    out: tuple[int, int]

    def __call__(self, x: I8) -> Floats:
        groups = self.layer.groups
        columns = self._windows(x)
        positions = self.out[0] * self.out[1]
        columns = columns.reshape(positions, -1, groups, x.shape[2] // groups)
        columns = columns.transpose(2, 0, 1, 3).reshape(groups, positions, -1)
        rows = self.weights.reshape(groups, -1, columns.shape[2])
        sums = columns @ rows.transpose(0, 2, 1)
        return sums.transpose(1, 0, 2).reshape(positions, -1)

    def _windows(self, x: I8) -> Floats:
        """The values under the kernel, [H, W, KH, KW, C_IN]; a view."""
        layer, (high, wide) = self.layer, self.out
        taps = self.weights.shape[1:3]
        spans = [(n - 1) * d + 1 for n, d in zip(taps, layer.dilation, strict=True)]
        values = centred(x, self.zero_point, self.weights.dtype)
        padded = pad_image(values, layer.pads, 0)
        views = sliding_window_view(padded, spans, axis=(0, 1))
        views = views[:: layer.stride[0], :: layer.stride[1]][:high, :wide]
        return views[..., :: layer.dilation[0], :: layer.dilation[1]].transpose(
            0, 1, 3, 4, 2
        )


class DepthwiseSums(ConvSums):
    """Accumulators of a depthwise convolution, [positions, C]."""

    def __call__(self, x: I8) -> Floats:
        windows = self._windows(x)
        kernel = self.weights[:, :, :, 0]
        sums = np.zeros(windows.shape[:2] + windows.shape[4:], self.weights.dtype)
        for i, j in np.ndindex(kernel.shape[1:]):
            sums += windows[:, :, i, j] * kernel[:, i, j]
        return sums.reshape(-1, kernel.shape[0])
