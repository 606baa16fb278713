"""Random calls of the SIMD kernels, compared with the portable kernels.

A case is one call with its own input; geometry, weights and tables are drawn anew
every sixteen. A quarter of the bytes are extremes. Both kernels write into buffers
with canaries. Stops at the first difference and prints the call; the same seed gives
the same cases.
"""

from __future__ import annotations

import ctypes as c
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from ctypes_kernels import (
    Add,
    Conv2d,
    Dense,
    Guarded,
    Moments,
    Pool,
    Requant,
    Shape,
    guard,
)
from numpy.typing import NDArray

from refoldc.packing import pack_conv, pack_dense, pack_depthwise

EXTREMES: Final = np.array([-128, 127, -127, 0, 1, -1, 64, -64], np.int8)
POOL: Final = 1 << 20
INPUTS: Final = 16
"""Cases with the same weights."""


@dataclass
class Call:
    """The same arguments for both kernels but for what they write."""

    operator: str
    params: Any
    inputs: tuple[Guarded, ...]
    outputs: int
    wide: bool = False
    sums: int = 0
    shift: int = 0


class Draw:
    """Random tensors and parameters."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        pool = self.rng.integers(-128, 128, POOL).astype(np.int8)
        extreme = self.rng.random(POOL) < 0.25
        pool[extreme] = self.rng.choice(EXTREMES, int(extreme.sum()))
        self.pool = pool
        self.alive: list[Any] = []

    def number(self, low: int, high: int) -> int:
        """Within both ends."""
        return int(self.rng.integers(low, high + 1))

    def bytes(self, *shape: int) -> NDArray[np.int8]:
        """An int8 tensor."""
        size = int(np.prod(shape))
        start = self.number(0, POOL - size)
        return self.pool[start : start + size].reshape(shape)

    def weights(self, *shape: int) -> NDArray[np.int8]:
        """In [-127, 127]."""
        return np.maximum(self.bytes(*shape), -127)

    def keep(self, values: NDArray[Any]) -> c.c_void_p:
        """Address of a copy that is alive until the next call."""
        self.alive.append(guard(values))
        return self.alive[-1].pointer  # type: ignore[no-any-return]

    def input(self, *shape: int) -> Guarded:
        """An input tensor, still empty."""
        return Guarded(shape, np.int8)

    def requant(self, channels: int, least_shift: int = 16) -> Requant:
        """Multipliers over the whole range, outputs around the int8 range."""
        shift = self.number(least_shift, 31)
        m = self.rng.integers(0, 32768, channels).astype(np.int16)
        bound = min(2**38, 200 << shift)
        b = self.rng.integers(-bound, bound, channels, endpoint=True)
        lo, hi = sorted((self.number(-128, 127), self.number(-128, 127)))
        if self.number(0, 1):
            lo, hi = -128, 127
        return Requant(self.keep(m), self.keep(b), shift, lo, hi)


def draw_conv(d: Draw) -> Call:
    """A convolution or a depthwise one."""
    depthwise = d.number(0, 3) == 0
    h, w = d.number(1, 5), d.number(1, 9)
    c_in = d.number(1, 40)
    c_out = c_in if depthwise else d.number(1, 24)
    kh, kw = d.number(1, 3), d.number(1, 3)
    sh, sw, dh = d.number(1, 2), d.number(1, 2), d.number(1, 2)
    dw = d.number(1, 3) if d.number(0, 3) == 0 else 1
    top, left, bottom, right = (d.number(0, 1) for _ in range(4))
    oh = max((h + top + bottom - (kh - 1) * dh - 1) // sh + 1, 1)
    ow = max((w + left + right - (kw - 1) * dw - 1) // sw + 1, 1)
    zero = d.number(-128, 127)
    weights = d.weights(c_out, kh, kw, 1 if depthwise else c_in)
    stored = weights[..., 0].transpose(1, 2, 0) if depthwise else weights
    packed = pack_depthwise(weights) if depthwise else pack_conv(weights)
    sums = weights.reshape(c_out, -1).sum(axis=1, dtype=np.int32)
    params = Conv2d(
        Shape(h, w, c_in),
        Shape(oh, ow, c_out),
        *(kh, kw, sh, sw, dh, dw, top, left),
        *(c_in if depthwise else 1, zero),
        d.keep(np.ascontiguousarray(stored)),
        d.keep((-zero * sums).astype(np.int32)),
        d.requant(c_out),
        d.keep(packed),
    )
    return Call(
        "dwconv2d" if depthwise else "conv2d",
        params,
        (d.input(h, w, c_in),),
        oh * ow * c_out,
        sums=c_out if d.number(0, 1) else 0,
        shift=d.number(0, 16),
    )


def draw_dense(d: Draw) -> Call:
    """A dense layer, with int8 output or int32 logits."""
    inputs, outputs, zero = d.number(1, 100), d.number(1, 20), d.number(-128, 127)
    weights = d.weights(outputs, inputs)
    offset = -zero * weights.sum(axis=1, dtype=np.int32)
    params = Dense(
        *(inputs, outputs, d.keep(weights), d.keep(offset.astype(np.int32))),
        *(d.requant(outputs), d.keep(pack_dense(weights))),
    )
    wide = bool(d.number(0, 1))
    operator = "dense_s32" if wide else "dense"
    return Call(operator, params, (d.input(inputs),), outputs, wide)


def draw_add(d: Draw) -> Call:
    """A sum of two tensors."""
    count, shift = d.number(1, 200), d.number(0, 23)
    m1, m2 = d.number(-32768, 32767), d.number(-32768, 32767)
    bias = d.number(-(2**30), 2**30)
    lo, hi = sorted((d.number(-128, 127), d.number(-128, 127)))
    params = Add(count, m1, m2, bias, shift, lo, hi)
    return Call("add", params, (d.input(count), d.input(count)), count)


def draw_pool(d: Draw) -> Call:
    """A max pool, or a global average pool."""
    h, w, channels = d.number(1, 8), d.number(1, 8), 16 * d.number(1, 3)
    average = bool(d.number(0, 1))
    kh, kw = (h, w) if average else (d.number(1, h), d.number(1, w))
    sh, sw = d.number(1, 2), d.number(1, 2)
    oh, ow = (h - kh) // sh + 1, (w - kw) // sw + 1
    counts = d.keep(np.array([kh * kw], np.uint32))
    params = Pool(
        Shape(h, w, channels),
        Shape(oh, ow, channels),
        *(kh, kw, sh, sw, 0, 0, 0, 0, 0, d.number(-128, 127), 1, counts),
        d.requant(1, least_shift=0),
    )
    operator = "avg_pool" if average else "max_pool"
    x = d.input(h, w, channels)
    return Call(operator, params, (x,), oh * ow * channels)


DRAWS: Final[tuple[Callable[[Draw], Call], ...]] = (
    *(draw_conv,) * 5,
    draw_dense,
    draw_add,
    draw_pool,
)


class Kernel:
    """One implementation of a call, and the buffers that it writes."""

    def __init__(self, lib: c.CDLL, call: Call, suffix: str) -> None:
        self._run = getattr(lib, f"refold_{call.operator}_{suffix}")
        self._run.restype = c.c_bool if suffix == "esp32s3" else None
        out = Guarded((call.outputs,), np.int32 if call.wide else np.int8)
        sums = [Guarded((call.sums,), np.int64) for _ in range(2)]
        self.written = [out, *sums]
        self._guarded = [out, *sums, *call.inputs]
        pointers = [x.pointer for x in call.inputs]
        arguments = [c.byref(call.params), *pointers, out.pointer]
        if call.operator.endswith("conv2d"):
            scratch = self._scratch(lib, call)
            moments = Moments(sums[0].pointer, sums[1].pointer, call.shift)
            arguments.insert(1, c.byref(call.params.requant))
            arguments += [scratch.pointer, c.byref(moments) if call.sums else None]
        self._arguments = arguments

    def _scratch(self, lib: c.CDLL, call: Call) -> Guarded:
        suffix = "_esp32s3" if self._run.restype else ""
        ask = getattr(lib, f"refold_{call.operator}_scratch_bytes{suffix}")
        ask.restype = c.c_size_t
        self._guarded.append(Guarded((ask(c.byref(call.params)),), np.uint8))
        return self._guarded[-1]

    def run(self) -> bool:
        """Whether it took the call and kept to its buffers."""
        took = self._run(*self._arguments) is not False
        return took and all(buffer.is_intact() for buffer in self._guarded)


def compare(lib: c.CDLL, cases: int, seed: int) -> None:
    """Run so many cases.

    Raises:
        AssertionError: With the number of the case and its call.
    """
    d = Draw(seed)
    for number in range(0, cases, INPUTS):
        d.alive.clear()
        call = DRAWS[number // INPUTS % len(DRAWS)](d)
        kernels = [Kernel(lib, call, suffix) for suffix in ("ref", "esp32s3")]
        for case in range(number, min(number + INPUTS, cases)):
            for x in call.inputs:
                x.array[...] = d.bytes(*x.array.shape)
            agree = all(kernel.run() for kernel in kernels) and all(
                np.array_equal(ref.array, simd.array)
                for ref, simd in zip(*(k.written for k in kernels), strict=True)
            )
            if not agree:
                fields = {n: getattr(call.params, n) for n, _ in call.params._fields_}
                raise AssertionError(
                    f"seed {seed}, case {case}: {call.operator} {fields}"
                )
