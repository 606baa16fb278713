"""Blurs of lens, motion and glass."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import ndimage

from refold.corrupt.arrays import (
    F64,
    Rng,
    from_uint8,
    length_scale,
    to_uint8,
    zoom_centre,
)

_DEFOCUS = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))
"""Radius of the disk, sigma of the Gaussian that smooths its edge."""
_GLASS = ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2))
"""Sigma of the blur, reach of the displacement, passes."""
_MOTION = ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))
"""Length, sigma of the weights along it."""
_ZOOM_STEPS = (6, 11, 16, 21, 26)
"""Number of zoom factors 1, 1.01, 1.02, ..."""


@cache
def _disk(radius: float, alias: float, reach: int) -> F64:
    """Disk of weights that sum to 1, its edge smoothed over ``reach`` pixels."""
    half = int(radius) + reach
    y, x = np.mgrid[-half : half + 1, -half : half + 1]
    disk = (x * x + y * y <= radius * radius).astype(float)
    smooth = ndimage.gaussian_filter(disk, alias, radius=reach, mode="mirror")
    weights: F64 = smooth / smooth.sum()
    weights.setflags(write=False)
    return weights


def defocus_blur(x: F64, level: int, rng: Rng) -> F64:
    """Convolve with a disk."""
    radius, alias = (v * length_scale(x) for v in _DEFOCUS[level])
    disk = _disk(radius, alias, max(1, round(length_scale(x))))
    blurred: F64 = ndimage.convolve(x, disk[:, :, None], mode="mirror")
    return blurred


def _soften(x: F64, sigma: float) -> F64:
    """Gaussian blur of [H, W, C] over H and W."""
    soft: F64 = ndimage.gaussian_filter(x, (sigma, sigma, 0), mode="nearest")
    return soft


def _scatter(x: F64, reach: int, rng: Rng) -> F64:
    """Let each inner pixel show a random neighbour at most ``reach`` away.

    The benchmark means to exchange the two pixels; its code, and so its images,
    copy the neighbour and leave it where it is. We follow the images.
    """
    height, width, _ = x.shape
    rows, columns = np.mgrid[
        reach + 1 : height - reach + 1, reach + 1 : width - reach + 1
    ]
    down, right = rng.integers(-reach, reach, (2, *rows.shape))
    moved = x.copy()
    moved[rows, columns] = x[rows + down, columns + right]
    return moved


def glass_blur(x: F64, level: int, rng: Rng) -> F64:
    """Blur, scatter the pixels, blur again."""
    sigma, reach, passes = _GLASS[level]
    scale = length_scale(x)
    x = from_uint8(to_uint8(_soften(x, sigma * scale)))
    for _ in range(passes):
        x = _scatter(x, max(1, round(reach * scale)), rng)
    return _soften(x, sigma * scale)


def smear(x: F64, length: float, sigma: float, degrees: float) -> F64:
    """Average [H, W, C] along a ray with one-sided Gaussian weights.

    Every output is a weighted mean of the pixels ``i`` steps along the ray, i =
    0..2*length, rounded to whole pixels, with weight exp(-i^2 / (2 sigma^2));
    the border pixel repeats outside.
    """
    # Beyond 4 sigma the weights no longer reach one grey level.
    steps = np.arange(min(2 * round(length), int(4 * sigma)) + 1)
    weights = np.exp(-0.5 * (steps / sigma) ** 2)
    weights /= weights.sum()
    angle = np.deg2rad(degrees)
    down = np.rint(steps * np.sin(angle)).astype(int)
    right = np.rint(steps * np.cos(angle)).astype(int)
    pad = int(max(abs(down).max(), abs(right).max()))
    wide = np.pad(x, ((pad, pad), (pad, pad), (0, 0)), mode="edge")
    height, width, _ = x.shape
    out = np.zeros_like(x)
    for weight, dy, dx in zip(weights, down + pad, right + pad, strict=True):
        out += weight * wide[dy : dy + height, dx : dx + width]
    return out


def motion_blur(x: F64, level: int, rng: Rng) -> F64:
    """Smear along an angle within 45 degrees of the horizontal."""
    length, sigma = (v * length_scale(x) for v in _MOTION[level])
    return smear(x, length, sigma, rng.uniform(-45, 45))


def zoom_blur(x: F64, level: int, rng: Rng) -> F64:
    """Average over a camera zooming in."""
    steps = _ZOOM_STEPS[level]
    zoomed = sum(zoom_centre(x, 1 + step / 100) for step in range(steps))
    return (x + zoomed) / (steps + 1)
