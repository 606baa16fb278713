"""What ``refold doctor`` looked for, and what it found."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing.

    Attributes:
        name: What was looked for.
        well: Nothing need be done.
        text: Its version or figures, or what to do.
    """

    name: str
    well: bool
    text: str
