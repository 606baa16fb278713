"""firmware/src/crc32.c against zlib."""

from __future__ import annotations

import ctypes
import zlib

import pytest


@pytest.mark.parametrize("size", [*range(10), 255, 256, 257, 2200])
def test_equals_zlib(library: ctypes.CDLL, size: int) -> None:
    """The CRC of any length is zlib's, in one piece or continued."""
    data = bytes((i * 151 + 7) % 256 for i in range(size))
    crc32 = library.refold_crc32
    crc32.restype = ctypes.c_uint32
    start = size // 3
    first = crc32(0, data[:start], ctypes.c_size_t(start))
    continued = crc32(
        ctypes.c_uint32(first), data[start:], ctypes.c_size_t(size - start)
    )
    assert zlib.crc32(data) == crc32(0, data, ctypes.c_size_t(size))
    assert zlib.crc32(data) == continued
