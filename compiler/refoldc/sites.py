"""Recalibration sites: which layers, what targets, in accumulator units.

The formulas are docs/numerics.md, "Sites" and "Targets".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refoldc.errors import BadOptions
from refoldc.facts import SITE_MASK_BYTES
from refoldc.ir import (
    F32,
    F64,
    BnShape,
    Conv,
    Dense,
    Graph,
    Node,
    Quant,
    Shape,
    Site,
)
from refoldc.ranking import auto_count

MAX_SITES = 8 * SITE_MASK_BYTES
EPSILON = 1e-5
LEAST_DEVIATION = 0.02
"""Of a target, in accumulator units; a channel below it is dead."""
SPARE = 8
"""How far beyond its calibrated peak an accumulator stays inside int16."""

Moments = tuple[F64, F64]
Rule = Literal["mix", "bn"]


def feeds_output(graph: Graph) -> frozenset[str]:
    """Tensors that reach an output without passing any weights.

    Their statistics are those of the classes, so that normalising them would
    normalise the answer away.
    """
    found = set(graph.output_tensors)
    for node in reversed(graph.nodes):
        if node.output in found and not isinstance(node, (Conv, Dense)):
            found.update(node.inputs)
    return frozenset(found)


def site_nodes(graph: Graph) -> tuple[Conv, ...]:
    """The convolutions that are sites, in layer order."""
    barred = feeds_output(graph)
    nodes: Iterable[Node] = graph.nodes
    return tuple(
        node
        for node in nodes
        if isinstance(node, Conv) and node.bn is not None and node.output not in barred
    )


def choose_targets(
    bn: BnShape, moments: Moments, rule: Rule
) -> tuple[Moments, NDArray[np.bool_]]:
    """Target mean and deviation per channel, and which came from calibration.

    Args:
        bn: What BatchNorm gave each channel, or calibration where an exporter had
            folded it.
        moments: Mean and deviation of the bias-carrying output, [C] each.
        rule: ``mix`` replaces pairs that calibration contradicts; ``bn`` none.
    """
    mean, deviation = moments
    if rule == "bn" or bn.origin == "estimated":
        return (bn.beta, bn.sigma), np.zeros(mean.shape, np.bool_)
    agrees = (
        (deviation > 0.5 * bn.sigma)
        & (deviation < 2 * bn.sigma)
        & (np.abs(mean - bn.beta) < bn.sigma)
    )
    target = np.where(agrees, bn.beta, mean), np.where(agrees, bn.sigma, deviation)
    return target, ~agrees


def stat_shift(peak: float) -> int:
    """k: the shift that brings ``SPARE`` times the peak |acc| into int16."""
    return max(0, math.ceil(math.log2(SPARE * max(1.0, peak) / 2**15)))


@dataclass(frozen=True, eq=False)
class Channels:
    """The quantised output of a convolution.

    Attributes:
        unit: Real value of one accumulator unit, [C].
        bias: Real, [C].
        varies: Some stored weight is not zero, [C].
        quant: Of the output tensor.
        shape: Of the output tensor, (H, W, C).
    """

    unit: F64
    bias: F64
    varies: NDArray[np.bool_]
    quant: Quant
    shape: Shape


def make_site(
    node: Conv, out: Channels, *, moments: Moments, peak: F64, rule: Rule
) -> Site:
    """The constants of one site.

    Args:
        node: Convolution that is a site.
        out: What it became.
        moments, peak: From calibration, real, [C]; peak excludes the bias.
        rule: See :func:`choose_targets`.
    """
    if node.bn is None:
        raise ValueError(f"{node.name} is no site")
    (beta, sigma), replaced = choose_targets(node.bn, moments, rule)
    k = stat_shift(float((peak / out.unit).max()))
    unit = out.unit * 2.0**k
    count = int(replaced.sum())
    mean = _bounded((beta - out.bias) / unit, 2.0**15)
    variance = _bounded(np.maximum(sigma / unit, LEAST_DEVIATION) ** 2, 2.0**30)
    return Site(
        layer=node.name,
        pixels=out.shape[0] * out.shape[1],
        stat_shift=k,
        mean=mean,
        variance=variance,
        epsilon=_bounded(EPSILON / unit**2, 2.0**100),
        gain=(np.sqrt(sigma**2 + EPSILON) / out.quant.scale).astype(np.float32),
        offset=(beta / out.quant.scale + out.quant.zero_point + 0.5).astype(np.float32),
        clean=mean,
        precision=np.asarray(1 / variance, np.float32),
        live=(sigma / unit >= LEAST_DEVIATION) & out.varies,
        beta=beta,
        sigma=sigma,
        origin="calibrated" if count else node.bn.origin,
        calibrated_channels=count,
        default_on=out.shape[:2] != (1, 1),
    )


def _bounded(x: F64, most: float) -> F32:
    """To float32, within what a 16-bit statistic can reach.

    Only a channel whose weights all but vanished comes near: there the unit is
    so small that its targets would overflow.
    """
    return np.clip(x, -most, most).astype(np.float32)


def select_sites(sites: tuple[Site, ...], choice: str) -> tuple[Site, ...]:
    """Apply ``--sites``: ``all`` or indices such as ``14+6+5``.

    ``auto:K`` chooses later, among all that adapt by default.

    Raises:
        BadOptions: No such site.
    """
    if choice == "all" or auto_count(choice):
        return sites
    chosen = parse_sites(choice, len(sites))
    return tuple(replace(s, default_on=i in chosen) for i, s in enumerate(sites))


def parse_sites(choice: str, count: int, *, option: str = "sites") -> frozenset[int]:
    """Site indices of ``14+6+5``, given as ``option``.

    Raises:
        BadOptions: An index is out of range.
    """
    chosen = frozenset(map(int, choice.split("+")))
    if max(chosen) >= count:
        raise BadOptions(
            f"{option} is '{choice}': site {max(chosen)} does not exist, the model has "
            f"{count} sites, numbered from 0 (refold inspect lists them)"
        )
    return chosen
