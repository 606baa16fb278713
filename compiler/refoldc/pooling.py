"""What the windows of a pooling layer cover, and the average's multipliers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.ir import F64, I16, I64, Bounds, Pads, Quant, Requant, Shape
from refoldc.requant import clamp_bounds, fixed_point, round_half_up


def axis_windows(
    size: int, out: int, kernel: int, stride: int, pads: tuple[int, int]
) -> I64:
    """First and last + 1 of each window along one axis, cut to size and pads.

    Positions are relative to the image, so that padding is negative or at
    least ``size``.

    Returns:
        int64 [out, 2].

    >>> axis_windows(4, 2, 3, 2, (1, 0)).tolist()
    [[-1, 2], [1, 4]]
    """
    first = np.arange(out) * stride - pads[0]
    windows = np.stack([first, first + kernel], axis=1)
    return np.clip(windows, -pads[0], size + pads[1]).astype(np.int64)


def window_counts(
    source: Shape,
    out: Shape,
    *,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: Pads,
    include_pad: bool,
) -> I64:
    """How many positions each output averages, [H, W].

    Args:
        source, out: (H, W, C).
        kernel, stride: (height, width).
        pads: Top, left, bottom, right.
        include_pad: Padding counts as positions.
    """
    lengths = []
    for axis in (0, 1):
        windows = axis_windows(
            source[axis],
            out[axis],
            kernel[axis],
            stride[axis],
            (pads[axis], pads[axis + 2]),
        )
        if not include_pad:
            windows = np.clip(windows, 0, source[axis])
        lengths.append(windows[:, 1] - windows[:, 0])
    return np.outer(lengths[0], lengths[1])


def beyond_edge(
    source: Shape,
    out: Shape,
    *,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pads: Pads,
) -> tuple[int, int]:
    """How far the last window reaches beyond the padding, down and to the right.

    More than 0 only under ONNX's ceil_mode.
    """
    down, right = (
        (out[i] - 1) * stride[i] + kernel[i] - source[i] - pads[i] - pads[i + 2]
        for i in (0, 1)
    )
    return max(0, down), max(0, right)


def pad_image(x: NDArray[Any], pads: Pads, value: int) -> NDArray[Any]:
    """``x`` [H, W, C] with ``value`` around it; pads top, left, bottom, right."""
    if not any(pads):
        return x
    top, left, bottom, right = pads
    high, wide, channels = x.shape
    shape = (top + high + bottom, left + wide + right, channels)
    padded = np.full(shape, value, x.dtype)
    padded[top : top + high, left : left + wide] = x
    return padded


def average_requant(
    counts: tuple[int, ...], source: Quant, out: Quant, bounds: Bounds
) -> Requant:
    """One (m, b) per number of positions averaged, with one shift.

    Source: docs/numerics.md, "Average pool".
    """
    n = np.array(counts, np.float64)

    def bias(m: I16, shift: int) -> F64:
        constant = round_half_up((out.zero_point + 0.5) * 2.0**shift)
        return np.asarray(constant - m * n * source.zero_point)

    m, b, shift = fixed_point(source.scale / (out.scale * n), bias, shifts=(0, 31))
    lo, hi = clamp_bounds(bounds, out)
    return Requant(m=m, b=b, shift=shift, lo=lo, hi=hi)
