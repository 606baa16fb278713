"""Images as the compiler and the device receive them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.input_spec import encode_tensor
from refoldc.ir import Quant
from refoldc.manifest import InputRecord


def model_input(mode: str, images: NDArray[np.uint8]) -> NDArray[Any]:
    """Return images as calibration takes them.

    Args:
        mode: ``pixels`` or ``tensor``.
        images: Pixels [N, H, W, C].

    Returns:
        The pixels, or for ``tensor`` float32 in [0, 1]: data sets hold pixels,
        whatever the model expects beyond that is its own.
    """
    if mode == "pixels":
        return np.ascontiguousarray(images)
    return images.astype(np.float32) / np.float32(255)


def device_input(spec: InputRecord, images: NDArray[np.uint8]) -> NDArray[Any]:
    """Return images [N, ...] as the device takes them: uint8 pixels, or int8.

    Args:
        spec: The manifest's ``input``.
        images: Pixels [N, H, W, C].
    """
    values = model_input(spec.mode, images)
    if spec.mode == "pixels":
        return values
    return encode_tensor(values, Quant(spec.scale, spec.zero_point))
