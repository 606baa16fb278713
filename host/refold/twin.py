"""The emitted C as a host model, for what is defined by C alone.

FORGE is defined by ``refoldc.reference``. PACE is defined by firmware/src/pace:
the host runs the same code, compiled here with the portable kernels, and a device
must agree with it in every bit.
"""

from __future__ import annotations

import ctypes as c
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.ir import QGraph
from refoldc.reference import Outcome

from refold.errors import InfraError
from refold.facts import SITE_MASK_BYTES, STATUS_TEXT, Gate, Rule, Stats

ALIGNMENT = 64
"""Enough for any REFOLD_ALIGNMENT."""


class NativeConfig(c.Structure):
    """``refold_adapt_config``."""

    _fields_ = (
        *((name, c.c_uint8) for name in ("method", "stats", "rule", "gate")),
        ("interval", c.c_uint8),
        ("warm", c.c_uint16),
        ("shrinkage", c.c_float),
        ("momentum", c.c_float),
        ("grade", c.c_float),
        ("sites", c.c_uint8 * SITE_MASK_BYTES),
        ("seed", c.c_uint32),
        ("dimension", c.c_uint16),
        ("generations", c.c_uint16),
        ("population", c.c_uint8),
        ("window", c.c_uint8),
        ("source", c.c_uint8),
        *((name, c.c_float) for name in ("sigma", "lambda")),
        *((name, c.c_float) for name in ("settle", "shift", "accept")),
    )


class NativeReport(c.Structure):
    """``refold_report``."""

    _fields_ = (
        ("shift_score", c.c_float),
        ("adapt_us", c.c_uint32),
        ("search_us", c.c_uint32),
        ("infer_us", c.c_uint32),
        ("forward_passes", c.c_uint16),
        ("adapted", c.c_uint8),
        ("gate", c.c_uint8),
    )


def native_config(config: AdaptConfig, default_sites: tuple[int, ...]) -> NativeConfig:
    """A configuration as the C takes it."""
    chosen = default_sites if config.sites is None else config.sites
    mask = sum(1 << site for site in set(chosen)).to_bytes(SITE_MASK_BYTES, "little")
    return NativeConfig(
        config.code,
        Stats[config.stats.upper()],
        Rule[config.rule.upper()],
        config.gate,
        config.interval,
        config.warm,
        config.shrinkage,
        config.momentum,
        config.grade,
        (c.c_uint8 * SITE_MASK_BYTES)(*mask),
        config.seed,
        config.dimension,
        config.generations,
        config.population,
        config.window,
        config.source,
        config.sigma,
        config.weight,
        config.settle,
        config.shift,
        config.accept,
    )


class Twin:
    """The interface of :class:`refoldc.reference.Reference`, computed by the C.

    Args:
        library: From :func:`refold.build.build_twin`.
        graph: The network it was made from.

    Attributes:
        arena_bytes: What the C asks for.
    """

    def __init__(self, library: Path, graph: QGraph) -> None:
        self.graph = graph
        self._outputs = graph.output_count
        self._defaults = tuple(i for i, s in enumerate(graph.sites) if s.default_on)
        self._c = c.CDLL(str(library))
        self._c.refold_arena_bytes.restype = c.c_size_t
        self._c.refold_adapt_record_bytes.restype = c.c_size_t
        self._c.refold_last.restype = c.POINTER(NativeReport)
        model = c.c_void_p.in_dll(self._c, "refold_model_data")
        self.arena_bytes: int = self._c.refold_arena_bytes(c.byref(model))
        self._arena = np.zeros(self.arena_bytes + ALIGNMENT, np.uint8)
        start = self._arena.ctypes.data
        self._context = c.c_void_p()
        self._call(
            "refold_init",
            c.byref(self._context),
            c.byref(model),
            c.c_void_p(start + -start % ALIGNMENT),
            c.c_size_t(self.arena_bytes),
        )

    def _call(self, name: str, *arguments: Any) -> None:
        status = getattr(self._c, name)(*arguments)
        if status < 0:
            raise InfraError(
                f"the host's twin of the firmware refused {name}: "
                f"{STATUS_TEXT.get(status, f'status {status}')}; delete the artefact's "
                "build folder and run again"
            )

    def configure(self, config: AdaptConfig, keep_state: bool = False) -> None:
        """As a device takes CONFIGURE."""
        native = native_config(config, self._defaults)
        self._call("refold_adapt_set", self._context, c.byref(native))
        if not keep_state:
            self._c.refold_adapt_reset(self._context)

    def infer(self, image: NDArray[Any]) -> Outcome:
        """Run one image, and the search that it completes the window of."""
        logits = np.zeros(self._outputs, np.int32)
        data = np.ascontiguousarray(image)
        self._call("refold_infer", self._context, _address(data), _address(logits))
        report = self._c.refold_last(self._context).contents
        outcome = Outcome(
            logits,
            np.float32(report.shift_score),
            bool(report.adapted),
            None if report.gate == Gate.NONE else report.gate == Gate.OPEN,
            report.forward_passes,
        )
        self._c.refold_adapt_search(self._context)
        return outcome

    def save_state(self) -> bytes:
        """The record that ``refold_adapt_save`` writes."""
        size = self._c.refold_adapt_record_bytes(self._context)
        record = np.zeros(size, np.uint8)
        self._call(
            "refold_adapt_save", self._context, _address(record), c.c_size_t(size)
        )
        return record.tobytes()

    def load_state(self, record: bytes) -> None:
        """Restore a record, as ``refold_adapt_load`` does."""
        self._call("refold_adapt_load", self._context, record, c.c_size_t(len(record)))


def _address(values: NDArray[Any]) -> c.c_void_p:
    return c.c_void_p(values.ctypes.data)
