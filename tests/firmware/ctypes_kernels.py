"""The structures of refold/kernels.h and buffers that notice stray writes."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

CANARY = 0xA5
MARGIN = 64
ALIGNMENT = 16


class Shape(c.Structure):
    """refold_shape."""

    _fields_ = [(name, c.c_uint16) for name in "hwc"]


class Requant(c.Structure):
    """refold_requant."""

    _fields_ = [
        ("m", c.c_void_p),
        ("b", c.c_void_p),
        ("shift", c.c_uint8),
        ("lo", c.c_int8),
        ("hi", c.c_int8),
    ]


class Moments(c.Structure):
    """refold_moments."""

    _fields_ = [("s1", c.c_void_p), ("s2", c.c_void_p), ("shift", c.c_uint8)]


class Conv2d(c.Structure):
    """refold_conv2d_params."""

    _fields_ = [
        ("input", Shape),
        ("output", Shape),
        *((f"kernel_{axis}", c.c_uint16) for axis in "hw"),
        *((f"stride_{axis}", c.c_uint16) for axis in "hw"),
        *((f"dilation_{axis}", c.c_uint16) for axis in "hw"),
        ("pad_top", c.c_uint16),
        ("pad_left", c.c_uint16),
        ("groups", c.c_uint16),
        ("zero_point", c.c_int8),
        ("weights", c.c_void_p),
        ("offset", c.c_void_p),
        ("requant", Requant),
        ("packed", c.c_void_p),
    ]


class Dense(c.Structure):
    """refold_dense_params."""

    _fields_ = [
        ("inputs", c.c_uint16),
        ("outputs", c.c_uint16),
        ("weights", c.c_void_p),
        ("offset", c.c_void_p),
        ("requant", Requant),
        ("packed", c.c_void_p),
    ]


class Add(c.Structure):
    """refold_add_params."""

    _fields_ = [
        ("count", c.c_uint32),
        ("m1", c.c_int16),
        ("m2", c.c_int16),
        ("bias", c.c_int32),
        ("shift", c.c_uint8),
        ("lo", c.c_int8),
        ("hi", c.c_int8),
    ]


class Mul(c.Structure):
    """refold_mul_params."""

    _fields_ = [
        ("positions", c.c_uint32),
        ("channels", c.c_uint16),
        ("position_step", c.c_uint16),
        ("channel_step", c.c_uint8),
        ("zero_point_a", c.c_int8),
        ("zero_point_b", c.c_int8),
        ("m", c.c_int16),
        ("bias", c.c_int64),
        ("shift", c.c_uint8),
        ("lo", c.c_int8),
        ("hi", c.c_int8),
    ]


class Pool(c.Structure):
    """refold_pool_params."""

    _fields_ = [
        ("input", Shape),
        ("output", Shape),
        *((f"kernel_{axis}", c.c_uint16) for axis in "hw"),
        *((f"stride_{axis}", c.c_uint16) for axis in "hw"),
        *((f"pad_{side}", c.c_uint16) for side in ("top", "left", "bottom", "right")),
        ("include_pad", c.c_uint8),
        ("zero_point", c.c_int8),
        ("entries", c.c_uint8),
        ("count", c.c_void_p),
        ("requant", Requant),
    ]


class ConcatPart(c.Structure):
    """refold_concat_part."""

    _fields_ = [
        ("elements", c.c_uint32),
        ("m", c.c_int16),
        ("bias", c.c_int32),
        ("shift", c.c_uint8),
    ]


class Concat(c.Structure):
    """refold_concat_params."""

    _fields_ = [
        ("rows", c.c_uint32),
        ("parts", c.c_uint8),
        ("part", c.POINTER(ConcatPart)),
    ]


class Pick(c.Structure):
    """refold_pick_params."""

    _fields_ = [
        ("input", Shape),
        ("output", Shape),
        *((name, c.c_void_p) for name in ("rows", "columns", "channels")),
        ("fill", c.c_int8),
    ]


class Table(c.Structure):
    """refold_table_params."""

    _fields_ = [
        ("count", c.c_uint32),
        ("channels", c.c_uint16),
        ("table", c.c_void_p),
    ]


class InputTable(c.Structure):
    """refold_input_table."""

    _fields_ = [
        ("pixels", c.c_uint32),
        ("channels", c.c_uint16),
        ("table", c.c_void_p),
    ]


class Guarded:
    """An aligned buffer between canaries."""

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike) -> None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self._raw = np.full(size + 2 * MARGIN + ALIGNMENT, CANARY, np.uint8)
        self._start = MARGIN + -(self._raw.ctypes.data + MARGIN) % ALIGNMENT
        self._end = self._start + size
        self.array: NDArray[Any] = (
            self._raw[self._start : self._end].view(dtype).reshape(shape)
        )

    @property
    def pointer(self) -> c.c_void_p:
        """Address of the first element."""
        return c.c_void_p(self._raw.ctypes.data + self._start)

    def is_intact(self) -> bool:
        """Nothing was written outside the array."""
        before, after = self._raw[: self._start], self._raw[self._end :]
        return bool((before == CANARY).all() and (after == CANARY).all())


def guard(values: NDArray[Any]) -> Guarded:
    """Copy ``values`` into a guarded buffer."""
    buffer = Guarded(values.shape, values.dtype)
    buffer.array[...] = values
    return buffer
