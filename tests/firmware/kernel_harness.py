"""Data and guarded memory for the kernel tests."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from ctypes_kernels import (
    Guarded,
    Requant,
    guard,
)
from hypothesis import settings
from integer_model import Requantisation
from numpy.typing import NDArray

FILLS = ("random", "zeros", "most", "least")
SETTINGS = settings(max_examples=60, deadline=None, derandomize=True)


def fill(
    kind: str, rng: np.random.Generator, shape: tuple[int, ...]
) -> NDArray[np.int8]:
    """An int8 tensor: random, all z-like zeros, or at an end of the range."""
    if kind == "random":
        return rng.integers(-128, 128, shape).astype(np.int8)
    value = {"zeros": 0, "most": 127, "least": -128}[kind]
    return np.full(shape, value, np.int8)


def weights_of(
    kind: str, rng: np.random.Generator, shape: tuple[int, ...]
) -> NDArray[np.int8]:
    """Weights lie in [-127, 127]."""
    return np.maximum(fill(kind, rng, shape), -127).astype(np.int8)


def requantisation(
    rng: np.random.Generator, channels: int, *, least_shift: int = 16
) -> Requantisation:
    """Multipliers from 0 to the most, biases to the bound, any clamp."""
    shift = int(rng.integers(least_shift, 32))
    m = rng.integers(0, 32768, channels).astype(np.int16)
    m[rng.random(channels) < 0.2] = 0
    bound = min(2**38, 200 << shift)
    b = rng.integers(-bound, bound, channels, endpoint=True)
    lo, hi = sorted(int(v) for v in rng.integers(-128, 128, 2))
    return Requantisation(m, b, shift, lo, hi)


@dataclass
class Memory:
    """Guarded copies that live as long as the call."""

    buffers: list[Guarded]

    def put(self, values: NDArray[np.generic]) -> ctypes.c_void_p:
        """Address of a copy of ``values``."""
        self.buffers.append(guard(values))
        return self.buffers[-1].pointer

    def requant(self, r: Requantisation) -> Requant:
        """The C structure of ``r``."""
        return Requant(self.put(r.m), self.put(r.b), r.shift, r.lo, r.hi)

    def reserve(self, shape: tuple[int, ...], dtype: type[np.generic]) -> Guarded:
        """A buffer for results."""
        self.buffers.append(Guarded(shape, dtype))
        return self.buffers[-1]

    def is_intact(self) -> bool:
        """No kernel wrote outside its buffers."""
        return all(buffer.is_intact() for buffer in self.buffers)
