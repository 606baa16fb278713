"""The parts of a command that works with a board; each has deadlines of its own."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """Where a wait belongs; the values stand in messages and results."""

    CONNECT = "connect"
    """Until the port is open: of a board that is started, its process as well."""
    FLASH = "flash"
    HELLO = "hello"
    """Until the firmware says who it is."""
    STREAM = "stream"
    """Settings, images, replies and adaptation state."""
    FINISH = "finish"
    """The rest of the parity check."""
