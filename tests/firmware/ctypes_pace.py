"""The structures of firmware/src/pace, and its library as compilers make it."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cbuild import ROOT, compile_shared
from ctypes_kernels import Guarded, guard
from numpy.typing import NDArray

SOURCES = sorted((ROOT / "firmware/src/pace").glob("*.c"))
F32 = NDArray[np.float32]
I64 = NDArray[np.int64]


class Random(c.Structure):
    """refold_random."""

    _fields_ = [
        (name, c.c_uint32) for name in ("seed", "purpose", "generation", "candidate")
    ]


class Fastfood(c.Structure):
    """refold_fastfood."""

    _fields_ = [(name, c.c_uint32) for name in ("seed", "inputs", "outputs")]


class CmaConfig(c.Structure):
    """refold_cma_config."""

    _fields_ = [
        ("seed", c.c_uint32),
        ("dimension", c.c_uint16),
        ("population", c.c_uint8),
        ("active", c.c_uint8),
    ]


class CmaRates(c.Structure):
    """refold_cma_rates."""

    _fields_ = [
        *(
            (name, c.c_float)
            for name in ("mu_eff", "c_sigma", "d_sigma", "c_c", "c_1", "c_mu", "chi")
        ),
        ("weights", c.c_float * 64),
    ]


class Cma(c.Structure):
    """refold_cma."""

    _fields_ = [
        ("config", CmaConfig),
        ("rates", CmaRates),
        ("generation", c.c_uint32),
        *((name, c.c_float) for name in ("sigma", "path_decay", "change")),
        ("injected_count", c.c_uint8),
        *(
            (name, c.POINTER(c.c_float))
            for name in ("mean", "path_sigma", "path_c", "factor", "injected")
        ),
        *((name, c.POINTER(c.c_float)) for name in ("z", "step", "matrix")),
    ]


class Bank(c.Structure):
    """refold_bank."""

    _fields_ = [
        ("dimension", c.c_uint16),
        ("capacity", c.c_uint8),
        ("count", c.c_uint8),
        ("vectors", c.c_void_p),
    ]


class Window(c.Structure):
    """refold_window."""

    _fields_ = [
        ("channels", c.c_uint32),
        ("count", c.c_uint32),
        ("stat_shift", c.c_uint8),
        ("s1", c.c_void_p),
        ("s2", c.c_void_p),
    ]


class Moments(c.Structure):
    """refold_channel_moments."""

    _fields_ = [("mean", c.c_float), ("variance", c.c_float)]


class Source(c.Structure):
    """refold_source."""

    _fields_ = [(name, c.c_void_p) for name in ("mean", "variance", "weight")]


class Shift(c.Structure):
    """refold_shift."""

    _fields_ = [
        ("channels", c.c_uint32),
        ("windows", c.c_uint32),
        ("keep", c.c_float),
        *((name, c.c_void_p) for name in ("floor", "mean", "variance")),
    ]


class SourceShift(c.Structure):
    """refold_source_shift."""

    _fields_ = [
        ("channels", c.c_uint32),
        ("rate", c.c_float),
        ("source", c.c_void_p),
        ("mean", c.c_void_p),
    ]


FLOATS = (
    *("exp32", "random_uniform", "normal_quantile", "entropy", "discrepancy"),
    *("fitness", "shift_distance"),
)


def load_pace(out_dir: Path, *, cc: str = "cc", flags: Sequence[str] = ()) -> c.CDLL:
    """All of firmware/src/pace in one library."""
    lib = compile_shared(SOURCES, cc=cc, flags=flags, out_dir=out_dir)
    for name in FLOATS:
        getattr(lib, f"refold_{name}").restype = c.c_float
    lib.refold_cma_default_population.restype = c.c_uint8
    lib.refold_cma_inject.restype = c.c_bool
    lib.refold_cma_has_settled.restype = c.c_bool
    lib.refold_paired_error.restype = c.c_float
    lib.refold_window_moments.restype = Moments
    return lib


def factor_floats(d: int) -> int:
    """REFOLD_FACTOR_FLOATS."""
    return d * (d + 1) // 2 if d <= 64 else d


class CmaRun:
    """One CMA-ES in guarded memory."""

    def __init__(
        self, lib: c.CDLL, d: int, *, population: int, active: bool, seed: int = 1
    ) -> None:
        self.lib, self.d, self.population = lib, d, population
        self.memory = Guarded((9 * d + 2 * factor_floats(d),), np.float32)
        self.c = Cma()
        config = CmaConfig(seed, d, population, active)
        lib.refold_cma_init(c.byref(self.c), c.byref(config), self.memory.pointer)

    def restart(self, mean: F32 | None, sigma: float) -> None:
        """refold_cma_restart."""
        start = None if mean is None else guard(np.asarray(mean, np.float32))
        pointer = None if start is None else start.pointer
        self.lib.refold_cma_restart(c.byref(self.c), pointer, c.c_float(sigma))

    def inject(self, x: F32) -> bool:
        """refold_cma_inject."""
        added: bool = self.lib.refold_cma_inject(c.byref(self.c), guard(x).pointer)
        return added

    def ask(self, index: int) -> F32:
        """refold_cma_ask."""
        x = np.empty(self.d, np.float32)
        self.lib.refold_cma_ask(c.byref(self.c), c.c_uint32(index), address(x))
        return x

    def ask_all(self) -> F32:
        """The whole population [population, d]."""
        return np.stack([self.ask(i) for i in range(self.population)])

    def tell(self, losses: NDArray[Any]) -> None:
        """refold_cma_tell."""
        self.lib.refold_cma_tell(
            c.byref(self.c), guard(np.asarray(losses, np.float32)).pointer
        )

    @property
    def mean(self) -> F32:
        """The distribution's mean."""
        return np.array(self.c.mean[: self.d], np.float32)

    @property
    def state(self) -> bytes:
        """All that a run carries from one generation to the next."""
        floats = self.memory.array[: 3 * self.d + factor_floats(self.d)]
        scalars = np.float32([self.c.sigma, self.c.path_decay, self.c.change])
        return floats.tobytes() + scalars.tobytes()


def address(values: NDArray[Any]) -> c.c_void_p:
    """Where an array that outlives the call lies."""
    return c.c_void_p(values.ctypes.data)
