"""What goes into a network and what comes out of it.

A *sample* is what calibration and data sets give for one image: the one input
tensor, or, of a network with several, all of them in model order as one vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Shape = tuple[int, ...]
Axes = tuple[int, ...]
"""The stored axis of each ONNX axis behind the batch (3 for some of one element);
empty means channels first."""
Ending = Literal["Softmax", "LogSoftmax", "ArgMax"]
"""A last operator that keeps the order of the classes: reports apply it."""


@dataclass(frozen=True)
class Input:
    """An input tensor, called as in the original model."""

    name: str
    axes: Axes = ()


@dataclass(frozen=True)
class Output:
    """An output of the original model.

    Attributes:
        tensor: That it is, before any ending.
        onnx: Its name in the original model.
        axes: Of ``tensor``, before any ending.
        ending: What the original applies to it last.
        ending_axis: The stored axis along which.
    """

    tensor: str
    onnx: str
    axes: Axes = ()
    ending: Ending | None = None
    ending_axis: int = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class Ports:
    """Base of both graphs.

    Attributes:
        inputs, outputs: At least one each, in model order.
        shapes: Of every tensor.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    shapes: Mapping[str, Shape]

    @property
    def input(self) -> str:
        """The first input tensor."""
        return self.inputs[0].name

    @property
    def main(self) -> Output:
        """The output that is scored unless told otherwise: the first vector."""
        vectors = (o for o in self.outputs if len(self.shapes[o.tensor]) == 1)
        return next(vectors, self.outputs[0])

    @property
    def output(self) -> str:
        """The tensor of the main output."""
        return self.main.tensor

    @property
    def output_tensors(self) -> frozenset[str]:
        """The tensors of all outputs."""
        return frozenset(output.tensor for output in self.outputs)

    @property
    def output_count(self) -> int:
        """Values that the device answers with: of all outputs."""
        return sum(prod(self.shapes[output.tensor]) for output in self.outputs)

    @property
    def sample_shape(self) -> Shape:
        """(H, W, C) or (F,) of the input; of several, (F,) of all elements."""
        shapes = [self.shapes[tensor.name] for tensor in self.inputs]
        return shapes[0] if len(shapes) == 1 else (sum(map(prod, shapes)),)

    def split(self, batch: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """Samples [N, *sample_shape] as tensors [N, ...] by name."""
        flat, found, first = batch.reshape(len(batch), -1), {}, 0
        for tensor in self.inputs:
            shape = self.shapes[tensor.name]
            part = flat[:, first : first + prod(shape)]
            found[tensor.name] = part.reshape(len(batch), *shape)
            first += prod(shape)
        return found


def apply_ending(values: NDArray[Any], output: Output) -> NDArray[Any]:
    """What the original answers, from the values before its ending.

    Args:
        values: Real, stored [N, ...].
        output: Of a network.

    Returns:
        Of the same shape; ArgMax has one element along its axis.
    """
    if output.ending is None:
        return values
    axis = output.ending_axis
    axis = axis if axis < 0 else axis + 1
    if output.ending == "ArgMax":
        return np.asarray(values.argmax(axis=axis, keepdims=True))
    shifted = values - values.max(axis=axis, keepdims=True)
    total = np.exp(shifted).sum(axis=axis, keepdims=True)
    if output.ending == "LogSoftmax":
        return np.asarray(shifted - np.log(total))
    return np.asarray(np.exp(shifted) / total)
