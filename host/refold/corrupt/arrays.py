"""What the corruptions share: types, units, and zooming into the centre."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
U8 = NDArray[np.uint8]
Rng = np.random.Generator


def from_uint8(image: U8) -> F64:
    """0..255 to 0..1."""
    return image / 255.0


def to_uint8(x: F64) -> U8:
    """0..1 to 0..255, clipped, fractions cut off; inverts :func:`from_uint8`.

    A millionth is added, so that where a whole number is due the last bit of a
    sum, which depends on the CPU, does not decide between it and the one below.
    """
    return (np.clip(x, 0, 1) * 255 + 1e-6).astype(np.uint8)


def length_scale(x: F64) -> float:
    """Pixels of this image per pixel of a 32x32 image."""
    return float(x.shape[0] / 32)


def grey(x: F64) -> F64:
    """Luma of [H, W, C] as [H, W, 1] (ITU-R BT.601)."""
    if x.shape[2] == 1:
        return x
    luma: F64 = x @ np.array([[0.299], [0.587], [0.114]])
    return luma


@cache
def _zoom_rows(size: int, factor: float) -> F64:
    """Bilinear weights [size, size] that zoom a line about its centre.

    The centre crop of ``ceil(size / factor)`` samples is stretched end to end
    over ``round(crop * factor)`` samples, whose middle ``size`` are kept.
    """
    crop = int(np.ceil(size / factor))
    wide = max(round(crop * factor), size)
    place = (np.arange(size) + (wide - size) // 2) * (crop - 1) / max(wide - 1, 1)
    low = np.minimum(place.astype(int), max(crop - 2, 0))
    part = place - low
    weights = np.zeros((size, size))
    top = (size - crop) // 2
    rows = np.arange(size)
    weights[rows, top + low] = 1 - part
    weights[rows, top + np.minimum(low + 1, crop - 1)] += part
    weights.setflags(write=False)
    return weights


def zoom_centre(x: F64, factor: float) -> F64:
    """Zoom [H, W, C] into its centre by ``factor`` >= 1, bilinear, same size."""
    height, width, channels = x.shape
    tall = _zoom_rows(height, factor) @ x.reshape(height, -1)
    across = tall.reshape(height, width, channels).transpose(0, 2, 1)
    return (across @ _zoom_rows(width, factor).T).transpose(0, 2, 1)
