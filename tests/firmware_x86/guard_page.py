"""Buffers that end where reading on is a segmentation fault."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
from ctypes_kernels import ALIGNMENT
from numpy.typing import NDArray

PROT_NONE = 0


class PageEnd:
    """A copy of an array, aligned, right before a page that cannot be read."""

    def __init__(self, values: NDArray[Any]) -> None:
        size = -(-values.nbytes // ALIGNMENT) * ALIGNMENT
        readable = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._map = mmap.mmap(-1, readable + mmap.PAGESIZE)
        view = (ctypes.c_char * len(self._map)).from_buffer(self._map)
        address = ctypes.addressof(view)
        guard = ctypes.c_void_p(address + readable)
        if ctypes.CDLL(None).mprotect(guard, mmap.PAGESIZE, PROT_NONE) != 0:
            raise OSError("mprotect refused the guard page")
        start = readable - size
        self.array: NDArray[Any] = np.frombuffer(
            view, values.dtype, values.size, start
        ).reshape(values.shape)
        self.array[...] = values
        self.pointer = ctypes.c_void_p(address + start)

    def is_intact(self) -> bool:
        """Writing on would have been a fault, too."""
        return True
