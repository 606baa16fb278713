"""The ESP32-S3's kernels, run through the C model of its instructions."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from cbuild import RUNTIME_SOURCES, compile_shared
from ctypes_kernels import Conv2d, Dense, Guarded, guard
from numpy.typing import NDArray

from refoldc.packing import pack_conv, pack_dense, pack_depthwise

SOURCES = [p for p in RUNTIME_SOURCES if p.parent.name in {"kernels", "esp32s3"}]
OPERATORS = ("conv2d", "dwconv2d", "dense", "dense_s32", "add", "max_pool", "avg_pool")
BUILDS = {
    "fast": ("-O2",),
    "checked": ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"),
}


def build(name: str, out_dir: Path) -> ctypes.CDLL:
    """Portable and SIMD kernels in one library."""
    flags = ("-DREFOLD_ESP32S3", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
    return compile_shared(SOURCES, flags=(*flags, *BUILDS[name]), out_dir=out_dir)


class Kernels:
    """A library whose ``refold_<op>_ref`` are the SIMD kernels.

    Weights are packed as the compiler would. Where a kernel declines, the portable
    one runs, as in dispatch.c; ``handled`` counts the calls that none declined.
    """

    def __init__(self, lib: ctypes.CDLL) -> None:
        self._lib = lib
        self.handled = 0

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.endswith("_scratch_bytes"):
            return self._most_scratch(name)
        operator = name.removeprefix("refold_").removesuffix("_ref")
        if operator not in OPERATORS:
            return getattr(self._lib, name)  # type: ignore[no-any-return]
        simd = getattr(self._lib, f"refold_{operator}_esp32s3")
        simd.restype = ctypes.c_bool

        def run(params: Any, *arguments: Any) -> None:
            packed = pack(operator, params._obj)
            if simd(params, *arguments):
                self.handled += 1
            else:
                getattr(self._lib, name)(params, *arguments)
            assert packed is None or packed.is_intact()

        return run

    def _most_scratch(self, name: str) -> Callable[[Any], int]:
        both = [getattr(self._lib, n) for n in (name, f"{name}_esp32s3")]
        for function in both:
            function.restype = ctypes.c_size_t
        return lambda params: max(f(params) for f in both)


def pack(operator: str, params: Any) -> Guarded | None:
    """Give ``params`` packed weights where the compiler would."""
    packed = None
    if isinstance(params, Conv2d):
        packed = _pack_conv(operator, params)
    elif isinstance(params, Dense):
        weights = _int8_at(params.weights, (params.outputs, params.inputs))
        packed = pack_dense(weights)
    if packed is None:
        return None
    buffer = guard(packed)
    params.packed = buffer.pointer.value
    return buffer


def _pack_conv(operator: str, params: Conv2d) -> NDArray[np.int8] | None:
    kernel, channels = (params.kernel_h, params.kernel_w), params.output.c
    if operator == "dwconv2d":
        stored = _int8_at(params.weights, (*kernel, channels))
        return pack_depthwise(stored.transpose(2, 0, 1)[..., None])
    if params.groups != 1:
        return None
    return pack_conv(_int8_at(params.weights, (channels, *kernel, params.input.c)))


def _int8_at(address: int, shape: tuple[int, ...]) -> NDArray[np.int8]:
    size = int(np.prod(shape))
    values = np.frombuffer(ctypes.string_at(address, size), np.int8)
    return values.reshape(shape)
