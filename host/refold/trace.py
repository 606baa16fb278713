"""Every layer's output of a board, fetched over the link and compared with the host's.

Each image starts from the adaptation state that the image before left, which the
host writes back first: where a frame is lost, the image can be run again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.ir import QGraph, QLayer
from refoldc.plan import logits_tensors
from refoldc.reference import Reference
from refoldc.serialise import write_npz

from refold.device import Device
from refold.errors import InfraError, TensorsDiffer
from refold.modes import Mode
from refold.protocol import Frame

TRIES = 8
"""How often an image is run again where frames of it are lost."""

Tensors = Mapping[str, NDArray[Any]]
"""Arrays by layer name, in execution order."""


def dump_layers(
    device: Device,
    graph: QGraph,
    work: Iterable[tuple[Mode, NDArray[Any]]],
    file: Path,
) -> None:
    """Fetch what every layer gives, write it and compare it with the host model.

    Args:
        device: Runs the firmware of ``graph``.
        graph: The integer network.
        work: Modes, each with images [N, ...] as the device takes them.
        file: Receives ``MODE:LAYER``, arrays [N, ...].

    Raises:
        TensorsDiffer: Naming the first tensor that differs; ``file`` is written.
        InfraError: The board is lost, or the line loses frames all the time.
    """
    arrays: dict[str, list[NDArray[Any]]] = {}
    found: str | None = None
    for mode, images in work:
        pairs = trace(device, graph, mode.config, images)
        for number, (expected, got) in enumerate(pairs):
            for name, values in got.items():
                arrays.setdefault(f"{mode.text}:{name}", []).append(values)
            if found is None and (text := first_difference(graph, expected, got)):
                found = f"image {number} under {mode.text}: {text}"
    fresh = file.with_name(f".{file.name}.new")
    write_npz(fresh, {name: np.stack(images) for name, images in arrays.items()})
    fresh.replace(file)
    if found is not None:
        raise TensorsDiffer(f"{found}. All outputs of the board are in {file}")


def trace(
    device: Device, graph: QGraph, config: AdaptConfig, images: Iterable[NDArray[Any]]
) -> Iterator[tuple[Tensors, Tensors]]:
    """Yield, image by image, the host model's tensors and the board's."""
    reference = Reference(graph)
    reference.configure(config)
    device.begin(config)
    state = device.read_state()
    for image in images:
        if state:
            reference.load_state(state)
        got = _fetch(device, graph, config, image.tobytes(), state)
        state = device.read_state()
        yield reference.trace(image), got


def _fetch(
    device: Device, graph: QGraph, config: AdaptConfig, image: bytes, state: bytes
) -> Tensors:
    for _ in range(TRIES):
        device.begin(config, keep_state=True)
        device.write_state(state)
        tensors = assemble(graph, device.trace(image))
        if tensors is not None:
            return tensors
    raise InfraError(
        f"port {device.port}: layer outputs were lost on the line {TRIES} times in a "
        "row; check cable and baud rate"
    )


def assemble(graph: QGraph, frames: Iterable[Frame]) -> Tensors | None:
    """Put TENSOR frames together; None where one is missing."""
    parts = [bytearray() for _ in graph.layers]
    for frame in frames:
        _, _, layer, offset = frame.values
        if layer >= len(parts) or offset != len(parts[layer]):
            return None
        parts[layer] += frame.rest
    tensors: dict[str, NDArray[Any]] = {}
    for layer, data in zip(graph.layers, parts, strict=True):
        shape = graph.shapes[layer.output]
        kind = np.dtype("<i4" if layer.output in logits_tensors(graph) else "i1")
        if len(data) != prod(shape) * kind.itemsize:
            return None
        tensors[layer.name] = np.frombuffer(bytes(data), kind).reshape(shape)
    return tensors


def first_difference(graph: QGraph, expected: Tensors, got: Tensors) -> str | None:
    """One sentence about the first layer that differs; None where all are equal."""
    for layer in graph.layers:
        wrong = np.argwhere(expected[layer.name] != got[layer.name])
        if len(wrong):
            return _describe(layer, wrong, expected[layer.name], got[layer.name])
    return None


def _describe(
    layer: QLayer, wrong: NDArray[Any], expected: NDArray[Any], got: NDArray[Any]
) -> str:
    place = tuple(int(axis) for axis in wrong[0])
    nodes = ", ".join(layer.onnx_nodes)
    return (
        f"the first tensor that differs is the output of layer '{layer.name}' (ONNX: "
        f"{nodes}), whose inputs are equal: at {list(place)} of "
        f"{list(expected.shape)} expected {expected[place]}, got {got[place]}; "
        f"{len(wrong)} of {expected.size} values differ"
    )
