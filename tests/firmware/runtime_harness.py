"""A context on the small model, and its twin driven from Python."""

from __future__ import annotations

import ctypes as c
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from ctypes_kernels import Guarded, Moments, Requant, guard
from ctypes_model import Call, Layer, Model, Site
from numpy.typing import NDArray

from refoldc import ir
from refoldc.adapt import AdaptConfig, Forge

from refold.facts import Status
from refold.twin import NativeConfig, NativeReport

MODEL = Path(__file__).with_name("tiny_model.c")
NO_TENSOR, NO_SITE = 2**32 - 1, -1
TRACE = c.CFUNCTYPE(None, c.c_void_p, c.c_uint16, c.c_void_p, c.c_uint32)
CLOCK = c.CFUNCTYPE(c.c_uint32)
PIXELS = 72


class Device:
    """A context in a guarded arena."""

    def __init__(self, lib: c.CDLL, name: str = "tiny_model") -> None:
        self.lib = lib
        self.model = Model.in_dll(lib, name)
        self.arena = Guarded((lib.refold_arena_bytes(c.byref(self.model)),), np.uint8)
        self.ctx = c.c_void_p()
        assert Status.OK == self.init(len(self.arena.array))

    def init(self, arena_bytes: int, *, skew: int = 0) -> int:
        """refold_init."""
        arena = c.c_void_p(self.arena.array.ctypes.data + skew)
        status: int = self.lib.refold_init(
            c.byref(self.ctx), c.byref(self.model), arena, c.c_size_t(arena_bytes)
        )
        return status

    def set(self, **changes: Any) -> int:
        """refold_adapt_set with the defaults, changed."""
        config = NativeConfig()
        self.lib.refold_adapt_defaults(c.byref(self.model), c.byref(config))
        for name, value in changes.items():
            setattr(config, name, value)
        status: int = self.lib.refold_adapt_set(self.ctx, c.byref(config))
        return status

    def infer(self, pixels: NDArray[Any]) -> NDArray[np.int32]:
        """refold_infer."""
        logits = Guarded((self.model.output_count,), np.int32)
        status = self.lib.refold_infer(self.ctx, guard(pixels).pointer, logits.pointer)
        assert Status.OK == status
        assert self.arena.is_intact()
        assert logits.is_intact()
        return logits.array

    @property
    def report(self) -> NativeReport:
        """refold_last."""
        last: NativeReport = self.lib.refold_last(self.ctx).contents
        return last

    def save(self) -> bytes:
        """refold_adapt_save."""
        size = self.lib.refold_adapt_state_bytes(c.byref(self.model))
        buffer = Guarded((size,), np.uint8)
        assert Status.OK == self.lib.refold_adapt_save(
            self.ctx, buffer.pointer, c.c_size_t(size)
        )
        assert buffer.is_intact()
        return buffer.array.tobytes()

    def load(self, record: bytes) -> int:
        """refold_adapt_load."""
        status: int = self.lib.refold_adapt_load(
            self.ctx, record, c.c_size_t(len(record))
        )
        return status


def values(address: int, count: int, dtype: str) -> NDArray[Any]:
    """A copy of ``count`` values in the library's memory."""
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(c.string_at(address, size), dtype).copy()


def site_layer(site: Site) -> Any:
    """What the reference's state machine needs of a convolution."""
    count, static = site.channels, site.requant.contents
    live = np.unpackbits(values(site.live, (count + 7) // 8, "u1"), bitorder="little")
    names = ("mean", "variance", "epsilon", "gain", "offset", "clean", "precision")
    arrays = {name: values(getattr(site, name), count, "<f4") for name in names}
    target = ir.Site(
        layer="",
        pixels=site.pixels,
        stat_shift=site.stat_shift,
        **arrays,
        live=live[:count].astype(bool),
        beta=np.zeros(count),
        sigma=np.ones(count),
        origin="exact",
        calibrated_channels=0,
    )
    m, b = values(static.m, count, "<i2"), values(static.b, count, "<i8")
    table = ir.Requant(m, b, static.shift, static.lo, static.hi)
    return SimpleNamespace(site=target, requant=table)


class Twin:
    """The model's kernels driven from Python, adapted by the reference's Forge."""

    def __init__(self, device: Device, config: AdaptConfig) -> None:
        self.lib, self.model = device.lib, device.model
        sites = [self.model.sites[i] for i in range(self.model.site_count)]
        self.forge = Forge(
            list(map(site_layer, sites)),
            bytes(self.model.sha256),
            margin=self.model.gate_margin,
            doubt=self.model.gate_doubt,
        )
        if config.sites is None:
            config = dataclasses.replace(config, sites=(0, 1))
        self.forge.configure(config, keep_state=False)
        self.exact = config.stats == "exact"
        self.arena = guard(np.zeros(self.model.activation_bytes + 64, np.uint8))
        self.scratch = Guarded((self.model.scratch_bytes,), np.uint8)
        self.outputs: list[bytes] = []

    def infer(self, pixels: NDArray[np.uint8]) -> NDArray[np.int32]:
        """The logits; ``outputs`` holds what each layer produced."""
        self.lib.refold_input(
            self.model.input_table, guard(pixels).pointer, self.arena.pointer
        )
        self.outputs = []
        for i in range(self.model.layer_count):
            layer = self.model.layers[i]
            self.run(layer)
            size = layer.out_elements * (4 if i == self.model.layer_count - 1 else 1)
            self.outputs.append(self.arena.array[layer.out :][:size].tobytes())
        return np.frombuffer(self.outputs[-1], np.int32)

    def run(self, layer: Layer) -> None:
        """One layer, recalibrated where it adapts."""
        start = self.arena.pointer.value or 0
        places = [start + at if at != NO_TENSOR else None for at in layer.inputs]
        call = Call(
            layer.params,
            (c.c_void_p * len(places))(*places),
            start + layer.out,
            self.scratch.pointer,
        )
        if layer.site == NO_SITE or not self.forge.adapts(layer.site):
            layer.run(call)
            return
        lagged = self.forge.table(layer.site)
        self.absorb(layer, call)
        table = self.forge.table(layer.site) if self.exact else lagged
        m, b = guard(table.m), guard(table.b)
        requant = Requant(m.pointer, b.pointer, table.shift, table.lo, table.hi)
        call.requant = c.pointer(requant)
        layer.run(call)

    def absorb(self, layer: Layer, call: Call) -> None:
        """Run the layer for its statistics alone."""
        site = self.model.sites[layer.site]
        s1, s2 = (Guarded((site.channels,), np.int64) for _ in range(2))
        moments = Moments(s1.pointer, s2.pointer, site.stat_shift)
        alone = Call(layer.params, call.inputs, None, call.scratch)
        alone.moments = c.pointer(moments)
        layer.run(alone)
        self.forge.absorb(layer.site, s1.array, s2.array)


def stream(count: int, seed: int = 1) -> Iterator[NDArray[np.uint8]]:
    """Images whose brightness drifts away from the targets."""
    rng = np.random.default_rng(seed)
    for t in range(count):
        yield rng.integers(0, 256 - 3 * min(t, 60), PIXELS).astype(np.uint8)
