"""Pixels as the float model and the device receive them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.input_spec import Slot, encode_samples, normalised
from refoldc.ir import Quant
from refoldc.manifest import InputRecord


def model_input(spec: InputRecord, images: NDArray[Any]) -> NDArray[np.float32]:
    """Return images as the float model takes them, normalised, channels last.

    Args:
        spec: The manifest's ``input``.
        images: Pixels [N, H, W, C], or float32 values of the input tensor [N, ...].
    """
    if images.dtype == np.float32:
        return images
    return normalised(images, spec.mean, spec.std)


def device_input(spec: InputRecord, images: NDArray[Any]) -> NDArray[Any]:
    """Return images [N, ...] as the device takes them: uint8 pixels, or int8.

    Args:
        spec: The manifest's ``input``.
        images: As for :func:`model_input`; pixels where the device takes those.
    """
    if spec.mode == "pixels":
        return np.ascontiguousarray(images)
    slots = [
        Slot(t.name, t.shape, Quant(t.scale, t.zero_point), t.offset)
        for t in spec.tensors
    ]
    return encode_samples(model_input(spec, images), slots)
