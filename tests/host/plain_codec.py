"""The wire format once more, straight from its definition."""

from __future__ import annotations

import struct


def crc32(data: bytes) -> int:
    """IEEE 802.3 CRC, bit by bit from its definition."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def stuff(data: bytes) -> bytes:
    """COBS from its definition: runs without zeros, each behind its length + 1."""
    out = b""
    while True:
        run = data.split(b"\0", 1)[0][:254]
        out += bytes([len(run) + 1]) + run
        if len(run) < 254:
            if len(run) == len(data):
                return out
            data = data[len(run) + 1 :]
        else:
            data = data[len(run) :]
            if not data:
                return out


def by_hand(body: bytes) -> bytes:
    """The wire bytes of header and payload."""
    return stuff(body + struct.pack("<I", crc32(body))) + b"\0"
