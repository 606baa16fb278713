"""How often the int8 network and the float model agree on the largest output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from refoldc.artefact import Artefact
from refoldc.loading import load_onnx
from refoldc.reference import Reference

from refold.inputs import device_input, model_input

LOW = 90.0
"""An agreement below it says that the int8 network is not the model any more."""


def agreement(model: Path, artefact: Artefact, images: NDArray[np.uint8]) -> float:
    """Return the percentage of images on which both choose one output.

    Args:
        model: The ONNX file that ``artefact`` was compiled from.
        artefact: Runs as the host model, adaptation off.
        images: Pixels [N, H, W, C].
    """
    reference = Reference(artefact.qgraph)
    received = device_input(artefact.manifest.input, images)
    integer = [int(np.argmax(reference.infer(image).logits)) for image in received]
    return 100 * float(
        np.mean(np.array(integer) == _float_choices(model, artefact, images))
    )


def _float_choices(
    model: Path, artefact: Artefact, images: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Run the original model with ONNX Runtime."""
    real = model_input(artefact.manifest.input, images)
    if real.ndim == 4:
        real = np.moveaxis(real, -1, 1)
    session = onnxruntime.InferenceSession(
        load_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    outputs = _channels_last(_outputs(session, real))
    choices: NDArray[np.int64] = outputs.reshape(len(real), -1).argmax(axis=1)
    return choices


def _outputs(
    session: onnxruntime.InferenceSession, real: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Answers to all images, in batches of the size that the model fixes, or of 1.

    The last batch is filled with its last image.
    """
    source = session.get_inputs()[0]
    size = source.shape[0] if isinstance(source.shape[0], int) else 1
    outputs: list[Any] = []
    for start in range(0, len(real), size):
        rows = np.minimum(np.arange(start, start + size), len(real) - 1)
        outputs += session.run(None, {source.name: real[rows]})[:1]
    return np.concatenate(outputs)[: len(real)]


def _channels_last(output: NDArray[np.float32]) -> NDArray[np.float32]:
    """Put maps [N, C, H, W] into the order in which the device answers."""
    return np.moveaxis(output, 1, -1) if output.ndim == 4 else output
