"""How the device receives its input: pixels through a table, or int8."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from refoldc.ir import F32, F64, I8, InputSpec, QGraph, Quant, Shape
from refoldc.requant import affine, round_half_up

ALIGNMENT = 16
"""Of each of several input tensors in what the device receives."""


def pixel_input(
    mean: tuple[float, ...], std: tuple[float, ...], given: Quant | None = None
) -> tuple[InputSpec, Quant]:
    """The table from uint8 pixels to int8, in the scale of its exact range.

    Args:
        mean, std: Per channel, of pixels in [0, 1].
        given: Scale that the model prescribes.
    """
    pixels = np.arange(256)[:, None]
    real = np.ascontiguousarray(_normalised(pixels, mean, std).T)
    quant = given or affine(float(real.min()), float(real.max()))
    table = _stored(real, quant)
    return InputSpec(mode="pixels", mean=mean, std=std, table=table), quant


def normalised(
    pixels: NDArray[np.uint8], mean: tuple[float, ...], std: tuple[float, ...]
) -> F32:
    """What the float model takes: ``(pixel / 255 - mean) / std``.

    Args:
        pixels: [..., C].
        mean, std: Per channel, of pixels in [0, 1].
    """
    return _normalised(pixels, mean, std).astype(np.float32)


def _normalised(
    pixels: NDArray[np.integer], mean: tuple[float, ...], std: tuple[float, ...]
) -> F64:
    real: F64 = (pixels / 255 - np.array(mean)) / np.array(std)
    return real


def encode_tensor(values: np.ndarray, quant: Quant) -> I8:
    """Real inputs as a device in ``tensor`` mode receives them."""
    return _stored(np.asarray(values, np.float64), quant)


def _stored(real: F64, quant: Quant) -> I8:
    q = round_half_up(real / quant.scale + quant.zero_point)
    return np.clip(q, -128, 127).astype(np.int8)


class Slot(NamedTuple):
    """An input tensor in what a device in ``tensor`` mode receives.

    Attributes:
        name: Of the tensor.
        shape: (H, W, C) or (F,).
        quant: In which its values are int8.
        offset: Where it begins, in bytes.
    """

    name: str
    shape: Shape
    quant: Quant
    offset: int

    @property
    def end(self) -> int:
        """Where it ends, in bytes."""
        return self.offset + prod(self.shape)


def input_slots(graph: QGraph) -> tuple[Slot, ...]:
    """The input tensors in model order, each aligned."""
    slots: list[Slot] = []
    for tensor in graph.inputs:
        end = slots[-1].end if slots else 0
        offset = -(-end // ALIGNMENT) * ALIGNMENT
        name = tensor.name
        slots.append(Slot(name, graph.shapes[name], graph.quants[name], offset))
    return tuple(slots)


def encode_samples(samples: NDArray[Any], slots: Sequence[Slot]) -> I8:
    """Real samples as a device in ``tensor`` mode receives them.

    Args:
        samples: The elements of all tensors in turn, [N, ...].
        slots: Of the network.

    Returns:
        int8 [N, *shape] of the one tensor, else [N, bytes].
    """
    if len(slots) == 1:
        return encode_tensor(samples, slots[0].quant)
    flat, first = samples.reshape(len(samples), -1), 0
    received = np.zeros((len(samples), slots[-1].end), np.int8)
    for slot in slots:
        values = flat[:, first : first + prod(slot.shape)]
        received[:, slot.offset : slot.end] = encode_tensor(values, slot.quant)
        first += prod(slot.shape)
    return received


def read_inputs(graph: QGraph, image: NDArray[Any]) -> dict[str, I8]:
    """The int8 input tensors, by name, of what the device receives."""
    table = graph.input_spec.table
    if table is not None:
        return {graph.input: np.asarray(table[np.arange(len(table)), image])}
    flat = image.reshape(-1)
    return {
        slot.name: flat[slot.offset : slot.end].reshape(slot.shape)
        for slot in input_slots(graph)
    }
