"""Snow, frost, fog and light."""

from __future__ import annotations

import numpy as np

from refold.corrupt.arrays import (
    F64,
    Rng,
    from_uint8,
    grey,
    length_scale,
    to_uint8,
    zoom_centre,
)
from refold.corrupt.blur import smear

_SNOW = (
    (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
    (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
    (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
    (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
    (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
)
"""Mean, deviation, zoom and threshold of the flakes; length and sigma of their
smear; share of the image that keeps its colour."""
_FROST = ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))
"""Weight of the image, weight of the frost."""
_FOG = ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))
"""Strength, decay of the fractal."""
_BRIGHTNESS = (0.05, 0.1, 0.15, 0.2, 0.3)


def snow(x: F64, level: int, rng: Rng) -> F64:
    """Whiten the image and let smeared flakes fall over it."""
    mean, deviation, zoom, threshold, length, sigma, keep = _SNOW[level]
    scale = length_scale(x)
    flakes = rng.normal(mean, deviation, (*x.shape[:2], 1))
    flakes = zoom_centre(flakes, max(1, zoom * scale))
    flakes = from_uint8(to_uint8(np.where(flakes < threshold, 0, flakes)))
    flakes = smear(flakes, length * scale, sigma * scale, rng.uniform(-135, -45))
    white = np.maximum(x, 1.5 * grey(x) + 0.5)
    return keep * x + (1 - keep) * white + flakes + flakes[::-1, ::-1]


def _ice(shape: tuple[int, ...], rng: Rng) -> F64:
    """Draw a frosted pane of shape (H, W, C), values in 0..1.

    Brightness, contrast, bluish tint and the fall of the spectrum follow the
    photographs of the benchmark, as far as its images tell: power falls with
    frequency^-1.3, bright panes are flatter than dark ones.
    """
    height, width, channels = shape
    rows = np.fft.fftfreq(height)[:, None] * height
    columns = np.fft.rfftfreq(width)[None, :] * width
    frequency = np.hypot(rows, columns)
    frequency[0, 0] = np.inf
    waves = np.fft.rfft2(rng.normal(size=(height, width))) * frequency**-0.65
    crystals = np.fft.irfft2(waves, (height, width))
    crystals /= max(crystals.std(), 1e-9)
    level = rng.uniform(0.39, 0.91)
    contrast = (0.15 - 0.09 * level) * rng.uniform(0.5, 1.5)
    pane = level + contrast * crystals
    if channels == 1:
        return pane[:, :, None]
    tint = np.array([-rng.exponential(0.09), 0, 0.045])
    coloured: F64 = np.clip(pane[:, :, None] + tint, 0, 1)
    return coloured


def frost(x: F64, level: int, rng: Rng) -> F64:
    """Look through a frosted pane."""
    keep, ice = _FROST[level]
    return keep * x + ice * _ice(x.shape, rng)


def _plasma(size: int, decay: float, rng: Rng) -> F64:
    """Periodic diamond-square fractal [size, size] in 0..1; size a power of 2.

    The random part is divided by decay^2 each time the grid is halved.
    """
    field = np.zeros((size, size))
    step, amplitude = size, 1.0
    while step > 1:
        half = step // 2
        shape = (size // step, size // step)
        corners = field[::step, ::step]
        sides = corners + np.roll(corners, -1, 0)
        middles = (sides + np.roll(sides, -1, 1)) / 4
        middles += amplitude * rng.uniform(-1, 1, shape)
        field[half::step, half::step] = middles
        for axis, edge in (
            (0, field[half::step, ::step]),
            (1, field[::step, half::step]),
        ):
            ends = corners + np.roll(corners, -1, axis)
            beside = middles + np.roll(middles, 1, 1 - axis)
            edge[:] = (ends + beside) / 4 + amplitude * rng.uniform(-1, 1, shape)
        step, amplitude = half, amplitude / decay**2
    field -= field.min()
    field /= field.max()
    return field


def fog(x: F64, level: int, rng: Rng) -> F64:
    """Add a cloud, then scale back so that the brightest value stays."""
    strength, decay = _FOG[level]
    height, width, _ = x.shape
    size = 1 << max(1, (max(height, width) - 1).bit_length())
    cloud = _plasma(size, decay, rng)[:height, :width, None]
    brightest = float(x.max())
    return (x + strength * cloud) * brightest / (brightest + strength)


def brightness(x: F64, level: int, rng: Rng) -> F64:
    """Raise V of HSV; hue and saturation stay."""
    value: F64 = x.max(2, keepdims=True)
    raised: F64 = np.minimum(value + _BRIGHTNESS[level], 1)
    colour = np.divide(x, value, out=np.ones_like(x), where=value > 0)
    return colour * raised
