"""How often the int8 network and the float model agree on the largest output."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.artefact import Artefact
from refoldc.loading import load_onnx
from refoldc.ports import Output, apply_ending
from refoldc.reference import Reference
from refoldc.verify_import import open_original, run_original

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
    graph = artefact.qgraph
    reference, record = Reference(graph), artefact.manifest.output
    received = device_input(artefact.manifest.input, images)
    scored = slice(record.first, record.first + record.count)
    integer = np.stack([reference.infer(image).logits[scored] for image in received])
    shape = graph.shapes[graph.output]
    ours = _choices(integer.reshape(-1, *shape), graph.main)
    theirs = _float_answers(model, artefact, images)
    if graph.main.ending != "ArgMax":
        theirs = _choices(theirs, graph.main)
    return 100 * float(np.mean(ours == theirs.reshape(ours.shape)))


def _choices(values: NDArray[Any], output: Output) -> NDArray[Any]:
    """The position of the largest value, or ArgMax's where the model has one."""
    if output.ending == "ArgMax":
        return apply_ending(values, output)
    return np.asarray(values.reshape(len(values), -1).argmax(axis=1))


def _float_answers(
    model: Path, artefact: Artefact, images: NDArray[np.uint8]
) -> NDArray[Any]:
    """The main output of the original model, stored [N, ...].

    In batches of the size that the model fixes, or of 1; the last one is filled with
    its last image.
    """
    graph, shapes = artefact.qgraph, artefact.manifest.options.shape
    session = open_original(load_onnx(model, shapes))
    real = model_input(artefact.manifest.input, images)
    batch = session.get_inputs()[0].shape[0]
    size = batch if isinstance(batch, int) else 1
    main, answers = graph.outputs.index(graph.main), []
    for start in range(0, len(real), size):
        rows = np.minimum(np.arange(start, start + size), len(real) - 1)
        answers.append(run_original(session, graph, graph.split(real[rows]))[main])
    return np.concatenate(answers)[: len(real)]
