"""A computer's list of serial ports, as a test wants it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from serial.tools.list_ports_common import ListPortInfo

BRIDGE, CHIPS_OWN, OTHER = (0x10C4, 0xEA60), (0x303A, 0x1001), (0x0403, 0x6001)
"""A DevKit's CP2102N, an ESP32-S3's own port, and a bridge that no board file names."""


def usb_port(
    device: str,
    numbers: tuple[int, int],
    serial_number: str | None = None,
    usb_path: str | None = None,
) -> ListPortInfo:
    """Return what pyserial says of one port."""
    port = ListPortInfo(device)
    port.vid, port.pid = numbers
    port.serial_number, port.location = serial_number, usb_path
    return port


def attach(monkeypatch: pytest.MonkeyPatch, *ports: ListPortInfo) -> None:
    """Let the computer have these serial ports."""
    attach_in_turn(monkeypatch, [ports])


def attach_in_turn(
    monkeypatch: pytest.MonkeyPatch, lists: Sequence[Sequence[ListPortInfo]]
) -> None:
    """Let each look find the next of these lists, and the last one ever after."""
    left = list(lists)
    monkeypatch.setattr(
        "refold.attached.list_ports.comports",
        lambda: list(left.pop(0) if len(left) > 1 else left[0]),
    )
