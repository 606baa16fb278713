"""What defaults are chosen on: training images, clean, harmless and corrupted."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from refoldc.artefact import Artefact
from refoldc.inspection import inspect_model
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model

from refold.corrupt import corrupt, image_rng
from refold.data import DataSet, load_data
from refold.held_out import HELD_OUT

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CALIBRATION_IMAGES = 512
SEVERITIES = (1, 3, 5)
CLEAN_STREAMS = 4

U8 = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Stream:
    """Images [N, H, W, C] and their labels [N]."""

    images: U8
    labels: NDArray[np.int64]


def compiled(model: Path, calib: str, out: Path, *, adapt: str = "forge") -> Artefact:
    """Compile a CIFAR network from the first training images."""
    shape = inspect_model(model).input_shape
    data = load_data(calib, split="train", limit=CALIBRATION_IMAGES, shape=shape)
    options = CompileOptions(mean=MEAN, std=STD, adapt=adapt)
    return compile_model(model, data.images, out, options=options)


def held_out_streams(calib: str, images: int) -> dict[str, Stream]:
    """Streams of training images that did not calibrate the network.

    Names are ``clean 0``..., ``harmless: ...``, and ``<corruption> <severity>``.
    """
    limit = CALIBRATION_IMAGES + CLEAN_STREAMS * images
    data = _shuffled(load_data(calib, split="train", limit=limit))
    streams = {
        f"clean {i}": _part(data, i * images, images) for i in range(CLEAN_STREAMS)
    }
    first = streams["clean 0"]
    for name, change in HARMLESS.items():
        streams[f"harmless: {name}"] = _changed(first, change)
    for severity in SEVERITIES:
        for name in HELD_OUT:
            streams[f"{name} {severity}"] = _corrupted(first, name, severity, seed=0)
    return streams


def held_out_orders(
    calib: str, images: int, orders: int
) -> tuple[dict[str, Stream], ...]:
    """Streams at severity 5, each order of other images in another order.

    Names are ``clean``, ``harmless: ...``, and those of the held-out corruptions.
    """
    limit = CALIBRATION_IMAGES + orders * images
    data = _shuffled(load_data(calib, split="train", limit=limit))
    found = []
    for order in range(orders):
        clean = _part(data, order * images, images)
        harmless = {
            f"harmless: {name}": _changed(clean, change)
            for name, change in HARMLESS.items()
        }
        shifted = {name: _corrupted(clean, name, 5, seed=order) for name in HELD_OUT}
        found.append({"clean": clean, **harmless, **shifted})
    return tuple(found)


def _corrupted(stream: Stream, name: str, severity: int, *, seed: int) -> Stream:
    changed = [
        corrupt(image, name, severity, image_rng(seed, i, name, severity))
        for i, image in enumerate(stream.images)
    ]
    return Stream(np.stack(changed), stream.labels)


def _shuffled(data: DataSet) -> Stream:
    """What follows the calibration images, the classes mixed."""
    images, labels = data.images[CALIBRATION_IMAGES:], data.labels[CALIBRATION_IMAGES:]
    order = np.random.default_rng(0).permutation(len(labels))
    return Stream(images[order], labels[order])


def _part(stream: Stream, start: int, count: int) -> Stream:
    return Stream(
        stream.images[start : start + count], stream.labels[start : start + count]
    )


def _changed(stream: Stream, change: Callable[[U8], U8]) -> Stream:
    return Stream(np.stack([change(image) for image in stream.images]), stream.labels)


def _levels(gain: float, offset: float) -> Callable[[U8], U8]:
    def change(image: U8) -> U8:
        return np.clip((image - 128.0) * gain + 128 + offset, 0, 255).astype(np.uint8)

    return change


def _jpeg(quality: int) -> Callable[[U8], U8]:
    def change(image: U8) -> U8:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "JPEG", quality=quality)
        return np.asarray(Image.open(file))

    return change


HARMLESS: Mapping[str, Callable[[U8], U8]] = MappingProxyType(
    {
        "brightness +8": _levels(1, 8),
        "brightness +16": _levels(1, 16),
        "brightness -8": _levels(1, -8),
        "contrast x0.9": _levels(0.9, 0),
        "contrast x1.1": _levels(1.1, 0),
        "JPEG quality 90": _jpeg(90),
        "JPEG quality 75": _jpeg(75),
    }
)
"""Changes that cost the networks less than about two points."""
