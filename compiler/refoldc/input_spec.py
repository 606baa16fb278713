"""How the device receives its input: pixels through a table, or int8."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from refoldc.ir import F32, F64, I8, InputSpec, Quant
from refoldc.requant import affine, round_half_up


def pixel_input(
    mean: tuple[float, ...], std: tuple[float, ...]
) -> tuple[InputSpec, Quant]:
    """The table from uint8 pixels to int8, in the scale of its exact range.

    Args:
        mean, std: Per channel, of pixels in [0, 1].
    """
    pixels = np.arange(256)[:, None]
    real = np.ascontiguousarray(_normalised(pixels, mean, std).T)
    quant = affine(float(real.min()), float(real.max()))
    table = _stored(real, quant)
    return InputSpec(mode="pixels", mean=mean, std=std, table=table), quant


def tensor_input(
    mean: tuple[float, ...], std: tuple[float, ...], span: tuple[float, float]
) -> tuple[InputSpec, Quant]:
    """int8 in the scale of the calibrated range.

    Args:
        mean, std: What a host normalises pixels with; the device does not.
        span: Least and largest value.
    """
    spec = InputSpec(mode="tensor", mean=mean, std=std, table=None)
    return spec, affine(*span)


def normalised(
    pixels: NDArray[np.uint8], mean: tuple[float, ...], std: tuple[float, ...]
) -> F32:
    """What the float model takes: ``(pixel / 255 - mean) / std``.

    Args:
        pixels: [..., C].
        mean, std: Per channel, of pixels in [0, 1].
    """
    return _normalised(pixels, mean, std).astype(np.float32)


def _normalised(
    pixels: NDArray[np.integer], mean: tuple[float, ...], std: tuple[float, ...]
) -> F64:
    real: F64 = (pixels / 255 - np.array(mean)) / np.array(std)
    return real


def encode_tensor(values: np.ndarray, quant: Quant) -> I8:
    """Real inputs as a device in ``tensor`` mode receives them."""
    return _stored(np.asarray(values, np.float64), quant)


def _stored(real: F64, quant: Quant) -> I8:
    q = round_half_up(real / quant.scale + quant.zero_point)
    return np.clip(q, -128, 127).astype(np.int8)
