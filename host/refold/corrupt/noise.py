"""Sensor noise: drawn for every value on its own, so nothing scales with size."""

from __future__ import annotations

import numpy as np

from refold.corrupt.arrays import F64, Rng

_GAUSSIAN_SIGMA = (0.04, 0.06, 0.08, 0.09, 0.10)
_SHOT_PHOTONS = (500, 250, 100, 75, 50)
_IMPULSE_AMOUNT = (0.01, 0.02, 0.03, 0.05, 0.07)


def gaussian_noise(x: F64, level: int, rng: Rng) -> F64:
    """Add normal noise."""
    return x + rng.normal(0, _GAUSSIAN_SIGMA[level], x.shape)


def shot_noise(x: F64, level: int, rng: Rng) -> F64:
    """Count photons: Poisson with the value as its mean."""
    photons = _SHOT_PHOTONS[level]
    return rng.poisson(x * photons) / photons


def impulse_noise(x: F64, level: int, rng: Rng) -> F64:
    """Replace some values by black or white, half each."""
    hit = rng.random(x.shape) < _IMPULSE_AMOUNT[level]
    white = rng.random(x.shape) < 0.5
    return np.where(hit, white, x)
