"""The 15 corruptions of the CIFAR-C benchmark at 5 severities, for any image size.

Each corruption is a function ``(x, level, rng) -> y`` on float64 images
[H, W, C] in 0..1 with one or three channels, level 0..4; ``y`` may leave the
range. Lengths given for 32x32 images scale with H/32.

Source: Hendrycks and Dietterich, "Benchmarking Neural Network Robustness to
Common Corruptions and Perturbations" (arXiv:1903.12261), CIFAR variant, for
the corruptions and their parameters; the code is our own. Frost is drawn
instead of cut from photographs, and motion blur is computed here instead of by
ImageMagick, so single images differ from the published files while their
statistics agree (tests/host/test_corrupt.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from refold.corrupt.arrays import F64, U8, Rng, from_uint8, to_uint8
from refold.corrupt.blur import defocus_blur, glass_blur, motion_blur, zoom_blur
from refold.corrupt.digital import (
    contrast,
    elastic_transform,
    jpeg_compression,
    pixelate,
)
from refold.corrupt.noise import gaussian_noise, impulse_noise, shot_noise
from refold.corrupt.weather import brightness, fog, frost, snow

__all__ = ["CORRUPTIONS", "SEVERITIES", "corrupt", "image_rng"]

_FUNCTIONS: Mapping[str, Callable[[F64, int, Rng], F64]] = MappingProxyType(
    {
        "gaussian_noise": gaussian_noise,
        "shot_noise": shot_noise,
        "impulse_noise": impulse_noise,
        "defocus_blur": defocus_blur,
        "glass_blur": glass_blur,
        "motion_blur": motion_blur,
        "zoom_blur": zoom_blur,
        "snow": snow,
        "frost": frost,
        "fog": fog,
        "brightness": brightness,
        "contrast": contrast,
        "elastic_transform": elastic_transform,
        "pixelate": pixelate,
        "jpeg_compression": jpeg_compression,
    }
)

CORRUPTIONS: tuple[str, ...] = tuple(_FUNCTIONS)
"""Names in the benchmark's order."""

SEVERITIES = (1, 2, 3, 4, 5)


def image_rng(seed: int, index: int, name: str, severity: int) -> Rng:
    """Make the generator of one corrupted image.

    It depends on nothing but its arguments, so an image is the same whatever
    else is corrupted, and in which order.

    Args:
        seed: Of the whole run, >= 0.
        index: Place of the image in its data set, >= 0.
        name: One of :data:`CORRUPTIONS`.
        severity: 1..5.
    """
    key = (index, CORRUPTIONS.index(name), severity)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))


def corrupt(image: U8, name: str, severity: int, rng: Rng) -> U8:
    """Corrupt one image.

    Args:
        image: uint8 [H, W, C], C = 1 or 3.
        name: One of :data:`CORRUPTIONS`.
        severity: 1..5.
        rng: From :func:`image_rng`.

    Returns:
        uint8 [H, W, C]; fractions are cut off, as in the published files.

    Raises:
        ValueError: An argument outside these limits.
    """
    if name not in _FUNCTIONS:
        raise ValueError(f"unknown corruption {name!r}; one of {CORRUPTIONS}")
    if severity not in SEVERITIES:
        raise ValueError(f"severity {severity} is not one of {SEVERITIES}")
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (1, 3):
        raise ValueError(
            f"image is {image.dtype} {image.shape}; expected uint8 [H, W, 1 or 3]"
        )
    return to_uint8(_FUNCTIONS[name](from_uint8(image), severity - 1, rng))
