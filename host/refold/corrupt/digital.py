"""What cameras and codecs do to an image after it was taken."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image
from scipy import ndimage

from refold.corrupt.arrays import F64, Rng, from_uint8, length_scale, to_uint8

_CONTRAST = (0.75, 0.5, 0.4, 0.3, 0.15)
_ELASTIC = (
    (0, 0, 0.08),
    (0.05, 0.2, 0.07),
    (0.08, 0.06, 0.06),
    (0.1, 0.04, 0.05),
    (0.1, 0.03, 0.03),
)
"""Strength, smoothness, jitter of the corners, in image heights."""
_PIXELATE = (0.95, 0.9, 0.85, 0.75, 0.65)
_JPEG_QUALITY = (80, 65, 58, 50, 40)


def contrast(x: F64, level: int, rng: Rng) -> F64:
    """Pull every value towards its channel's mean."""
    mean: F64 = x.mean((0, 1), keepdims=True)
    return (x - mean) * _CONTRAST[level] + mean


def _sample(x: F64, rows: F64, columns: F64, mode: str) -> F64:
    """Read [H, W, C] at fractional places [H, W], bilinear."""
    planes = [
        ndimage.map_coordinates(x[:, :, c], (rows, columns), order=1, mode=mode)
        for c in range(x.shape[2])
    ]
    return np.stack(planes, 2)


def _jitter(x: F64, reach: float, rng: Rng) -> F64:
    """Warp by the affine map that moves three points by at most ``reach``."""
    height, width, _ = x.shape
    third = max(1, min(height, width) // 3)
    centre = np.array([height // 2, width // 2])
    before = centre + third * np.array([[1, 1], [-1, 1], [-1, -1]])
    after = before + rng.uniform(-reach, reach, (3, 2))
    back = np.linalg.solve(np.column_stack([after, np.ones(3)]), before)
    rows, columns = np.mgrid[:height, :width]
    ones = np.ones(rows.shape)
    places = np.stack([rows, columns, ones], 2) @ back
    return _sample(x, places[:, :, 0], places[:, :, 1], "mirror")


def _ripple(shape: tuple[int, ...], strength: float, sigma: float, rng: Rng) -> F64:
    """Smooth random displacement [H, W] in pixels."""
    noise = rng.uniform(-1, 1, shape)
    smooth: F64 = ndimage.gaussian_filter(noise, sigma, mode="reflect", truncate=3)
    return strength * smooth


def elastic_transform(x: F64, level: int, rng: Rng) -> F64:
    """Shift, shear and stretch the image as if on rubber."""
    strength, sigma, reach = (v * 32 * length_scale(x) for v in _ELASTIC[level])
    warped = _jitter(x, reach, rng)
    rows, columns = np.mgrid[: x.shape[0], : x.shape[1]]
    down = _ripple(rows.shape, strength, sigma, rng)
    right = _ripple(rows.shape, strength, sigma, rng)
    return _sample(warped, rows + down, columns + right, "reflect")


def _to_pillow(x: F64) -> Image.Image:
    """[H, W, C] in 0..1 as a grey or RGB image."""
    pixels = to_uint8(x)
    return Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)


def _from_pillow(image: Image.Image) -> F64:
    """A grey or RGB image as [H, W, C] in 0..1."""
    pixels = np.asarray(image)
    return from_uint8(pixels.reshape(*pixels.shape[:2], -1))


def pixelate(x: F64, level: int, rng: Rng) -> F64:
    """Shrink by averaging boxes and enlarge again."""
    height, width, _ = x.shape
    share = _PIXELATE[level]
    small = (max(1, int(width * share)), max(1, int(height * share)))
    box = Image.Resampling.BOX
    return _from_pillow(_to_pillow(x).resize(small, box).resize((width, height), box))


def jpeg_compression(x: F64, level: int, rng: Rng) -> F64:
    """Encode as JPEG and decode."""
    stream = io.BytesIO()
    _to_pillow(x).save(stream, "JPEG", quality=_JPEG_QUALITY[level])
    with Image.open(stream) as image:
        return _from_pillow(image)
