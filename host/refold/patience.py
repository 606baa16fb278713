"""How long a board is waited for."""

from __future__ import annotations

from dataclasses import dataclass

TRIES = 16
"""Least number of times that an answer is asked for before it is given up."""


@dataclass(frozen=True)
class Patience:
    """How long to wait, in seconds.

    Attributes:
        first_s: For an answer, before it is asked for again; then ever longer.
        image_s: For one image, or one request, altogether.
        hello_s: For a Hello: a board may be booting, but not for longer.
        return_s: For a port to come back that was there.
    """

    first_s: float = 0.5
    image_s: float = 60.0
    hello_s: float = 10.0
    return_s: float = 15.0
