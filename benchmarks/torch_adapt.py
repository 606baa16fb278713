"""Test-time adaptation in float, to compare with: BN-adapt, FORGE, TENT.

Each object adapts to one stream: it answers the next images, [B, C, H, W], with logits
[B, K], and goes on from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_network import Channels, Network, Normalise

from refoldc.adapt import AdaptConfig

SHARE = 1 / 640
"""Of one image in running statistics: 0.1 of a batch of 64, as published for FORGE."""


class Method(Protocol):
    """What answers a stream."""

    def answer(self, x: Tensor) -> Tensor:
        """The next images."""
        ...


class Fixed:
    """The network as it was trained."""

    def __init__(self, network: Network) -> None:
        self._network = network

    @torch.inference_mode()
    def answer(self, x: Tensor) -> Tensor:
        return self._network(x, {})


class Running:
    """Running moments in the place of clean ones; updated by the images, then used.

    Of a network's ``norms`` this is BN-adapt; of a folded one's ``sites`` it is FORGE
    as published (algorithm 1), which is the same but for where it starts.
    """

    def __init__(self, network: Network, layers: Mapping[str, Channels]) -> None:
        self._network = network
        self._hooks = {name: running(channels) for name, channels in layers.items()}

    @torch.inference_mode()
    def answer(self, x: Tensor) -> Tensor:
        return self._network(x, self._hooks)


def running(channels: Channels) -> Normalise:
    """Momentum 1/640 an image; variances are those within a batch."""
    mean, variance = channels.mean.clone(), channels.variance.clone()

    def normalise(x: Tensor) -> Tensor:
        momentum = SHARE * len(x)
        found, scatter = batch_moments(x)
        mean.lerp_(found, momentum)
        variance.lerp_(scatter, momentum)
        return channels.apply(x, mean, variance)

    return normalise


class Refold:
    """FORGE as refold has it, in float, at every site, without the gate.

    It takes one image at a time (B = 1) and BatchNorm's moments for all targets.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._hooks = {name: shrunk(c) for name, c in network.sites.items()}

    @torch.inference_mode()
    def answer(self, x: Tensor) -> Tensor:
        return self._network(x, self._hooks)


def shrunk(channels: Channels) -> Normalise:
    """E[x] and E[x^2] of the images before, warmed up and shrunk towards clean ones."""
    config = AdaptConfig()
    e1, e2 = channels.mean.clone(), channels.variance + channels.mean**2
    floor = channels.variance / 256
    # A stream like clean images changes nothing, whatever epsilon adds.
    exact = replace(channels, scale=(channels.variance + channels.epsilon).sqrt())
    images = 0

    def normalise(x: Tensor) -> Tensor:
        nonlocal images
        mean = channels.mean.lerp(e1, config.shrinkage)
        variance = channels.variance.lerp(e2 - e1**2, config.shrinkage)
        y = exact.apply(x, mean, variance.maximum(floor))
        momentum = max(config.momentum, 1 / (images + config.warm))
        e1.lerp_(x.mean((0, 2, 3)), momentum)
        e2.lerp_(x.square().mean((0, 2, 3)), momentum)
        images += 1
        return y

    return normalise


class Tent:
    """Entropy minimised over BatchNorm's scales and shifts, one step a batch, by Adam.

    Batch statistics, as published. The answers to a batch come from the parameters
    before its own step.

    Args:
        network: Whose norms adapt.
        rate: Of Adam.
        causal: Answers use the statistics of the batch before too, so that none waits
            for later images of its batch.

    Source: Wang et al., Tent: Fully Test-Time Adaptation by Entropy Minimization, 2021.
    """

    def __init__(self, network: Network, *, rate: float, causal: bool = False) -> None:
        self._network, self._causal = network, causal
        self._layers = {name: _Affine(c) for name, c in network.norms.items()}
        parameters = [p for a in self._layers.values() for p in (a.scale, a.shift)]
        self._adam = torch.optim.Adam(parameters, lr=rate, betas=(0.9, 0.999))

    def answer(self, x: Tensor) -> Tensor:
        early = self._early(x) if self._causal else None
        logits = self._network(x, {n: a.by_batch for n, a in self._layers.items()})
        self._adam.zero_grad()
        entropy(logits).mean().backward()
        self._adam.step()
        return logits.detach() if early is None else early

    @torch.inference_mode()
    def _early(self, x: Tensor) -> Tensor:
        return self._network(x, {n: a.by_earlier for n, a in self._layers.items()})


class _Affine:
    """A BatchNorm that TENT moves."""

    def __init__(self, channels: Channels) -> None:
        self._epsilon = channels.epsilon
        self._earlier = channels.mean.clone(), channels.variance.clone()
        self.scale = channels.scale.clone().requires_grad_()
        self.shift = channels.shift.clone().requires_grad_()

    def by_batch(self, x: Tensor) -> Tensor:
        """Torch leaves the batch's moments, momentum being 1, in ``_earlier``."""
        return F.batch_norm(
            x,
            *self._earlier,
            self.scale,
            self.shift,
            training=True,
            momentum=1.0,
            eps=self._epsilon,
        )

    def by_earlier(self, x: Tensor) -> Tensor:
        return F.batch_norm(
            x, *self._earlier, self.scale, self.shift, eps=self._epsilon
        )


def batch_moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and biased variance of each channel, [C] each."""
    mean = x.mean((0, 2, 3))
    return mean, (x - mean[:, None, None]).square().mean((0, 2, 3))


def entropy(logits: Tensor) -> Tensor:
    """Of the class probabilities, over the last axis, in nats."""
    log = logits.log_softmax(dim=-1)
    return -(log.exp() * log).sum(dim=-1)
