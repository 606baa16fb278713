"""A float graph of the compiler in torch, in which BatchNorm can be replaced.

Torch is the extra ``lab``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from refoldc.errors import UnsupportedOp
from refoldc.ir import (
    Add,
    BatchNorm,
    Bounds,
    Clamp,
    Conv,
    Dense,
    Flatten,
    Graph,
    Node,
    Pool,
)

SITE_EPSILON = 1e-5
"""Of FORGE's standardisation."""

Normalise = Callable[[Tensor], Tensor]
"""Of a layer's output, [B, C, H, W]."""


@dataclass(frozen=True, eq=False)
class Channels:
    """What a layer standardises by, and makes of it; each float [C].

    Attributes:
        mean, variance: Of clean images.
        scale, shift: ``scale * (x - mean) / sqrt(variance + epsilon) + shift``.
    """

    mean: Tensor
    variance: Tensor
    scale: Tensor
    shift: Tensor
    epsilon: float

    def apply(self, x: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """With other moments, each [C]."""
        return F.batch_norm(x, mean, variance, self.scale, self.shift, eps=self.epsilon)


class Network:
    """A graph before or after ``fold``.

    Args:
        graph: From ``import_model``, or ``fold`` of it.

    Attributes:
        norms: The BatchNorms that are left, by name.
        sites: What BatchNorm gave the convolutions it was folded into, by their names.

    Raises:
        UnsupportedOp: The graph holds an operator that no such network needs.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._weights = {n.name: _weights(n) for n in graph.nodes}
        self.norms = {
            n.name: Channels(
                *map(_tensor, (n.mean, n.variance, n.gamma, n.beta)), n.epsilon
            )
            for n in graph.nodes
            if isinstance(n, BatchNorm)
        }
        self.sites = {
            n.name: Channels(
                *map(_tensor, (n.bn.beta, n.bn.sigma**2, n.bn.sigma, n.bn.beta)),
                SITE_EPSILON,
            )
            for n in graph.nodes
            if isinstance(n, Conv) and n.bn is not None
        }

    def __call__(self, x: Tensor, hooks: Mapping[str, Normalise]) -> Tensor:
        """Logits [B, K].

        Args:
            x: Normalised images [B, C, H, W].
            hooks: What norms and sites do instead, by their names.
        """
        images = x.contiguous(memory_format=torch.channels_last)
        tensors = {self._graph.input: images}
        for node in self._graph.nodes:
            inputs = [tensors[name] for name in node.inputs]
            y = _RULES[type(node)](node, inputs, self._weights[node.name])
            hook = hooks.get(node.name) or self._fixed(node)
            y = y if hook is None else hook(y)
            tensors[node.output] = _activate(y, getattr(node, "bounds", Bounds()))
        return tensors[self._graph.output]

    def _fixed(self, node: Node) -> Normalise | None:
        """What a BatchNorm does that nobody adapts."""
        channels = self.norms.get(node.name)
        if channels is None:
            return None
        return lambda y: channels.apply(y, channels.mean, channels.variance)


def _tensor(array: NDArray[Any]) -> Tensor:
    return torch.tensor(array, dtype=torch.float32)


def _weights(node: Node) -> tuple[Tensor, ...]:
    """In torch's layout; refuses what has no rule."""
    if type(node) not in _RULES:
        raise UnsupportedOp(
            f"node '{node.name}' ({type(node).__name__}): the torch references know "
            f"{', '.join(kind.__name__ for kind in _RULES)}"
        )
    if isinstance(node, Conv):
        return _tensor(node.weights.transpose(0, 3, 1, 2)), _tensor(node.bias)
    if isinstance(node, Dense):
        return _tensor(node.weights), _tensor(node.bias)
    return ()


def _activate(x: Tensor, bounds: Bounds) -> Tensor:
    if bounds == Bounds():
        return x
    if bounds == Bounds(low=0.0):  # ReLU, which torch runs faster
        return x.relu()
    return x.clamp(bounds.low, bounds.high)


def _pad(x: Tensor, pads: tuple[int, int, int, int], value: float = 0.0) -> Tensor:
    top, left, bottom, right = pads
    return F.pad(x, (left, right, top, bottom), value=value) if any(pads) else x


def _conv(node: Conv, inputs: list[Tensor], weights: tuple[Tensor, ...]) -> Tensor:
    return F.conv2d(
        _pad(inputs[0], node.pads),
        *weights,
        stride=node.stride,
        dilation=node.dilation,
        groups=node.groups,
    )


def _dense(node: Dense, inputs: list[Tensor], weights: tuple[Tensor, ...]) -> Tensor:
    return F.linear(_vector(inputs[0]), *weights)


def _pool(node: Pool, inputs: list[Tensor], weights: tuple[Tensor, ...]) -> Tensor:
    if node.kind == "max":
        padded = _pad(inputs[0], node.pads, -np.inf)
        return F.max_pool2d(padded, node.kernel, node.stride)
    if any(node.pads):
        raise UnsupportedOp(
            f"node '{node.name}': the torch references average without padding"
        )
    return F.avg_pool2d(inputs[0], node.kernel, node.stride)


def _add(node: Add, inputs: list[Tensor], weights: tuple[Tensor, ...]) -> Tensor:
    return inputs[0] + inputs[1]


def _vector(x: Tensor) -> Tensor:
    """[N, C, H, W] in the order of the graph, (H, W, C); vectors as they are."""
    return x.permute(0, 2, 3, 1).flatten(1) if x.ndim == 4 else x


def _flatten(
    node: Flatten, inputs: list[Tensor], weights: tuple[Tensor, ...]
) -> Tensor:
    return _vector(inputs[0])


def _same(node: Node, inputs: list[Tensor], weights: tuple[Tensor, ...]) -> Tensor:
    """Activations, which bounds do, and BatchNorms, which hooks do."""
    return inputs[0]


_RULES: dict[type[Node], Callable[..., Tensor]] = {
    Conv: _conv,
    Dense: _dense,
    Pool: _pool,
    Add: _add,
    Clamp: _same,
    Flatten: _flatten,
    BatchNorm: _same,
}
