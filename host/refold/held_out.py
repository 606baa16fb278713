"""The corruptions that choices are made on; the other eleven only judge them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from refold.data import DataSet

HELD_OUT = ("gaussian_noise", "motion_blur", "snow", "contrast")
"""Those of the FORGE paper: a noise, a blur, a weather, a digital one."""
SEVERITY = 5


def corrupted_versions(data: DataSet, limit: int) -> dict[str, NDArray[np.uint8]]:
    """The first images of ``data`` under every held-out corruption, made here.

    Args:
        data: Clean images.
        limit: Most images to corrupt.

    Raises:
        UserError: They have neither 1 nor 3 channels.
    """
    few = replace(
        data, images=data.images[:limit], labels=data.labels[:limit], ready=None
    )
    return {name: few.stream(name, SEVERITY, seed=0) for name in HELD_OUT}
