"""Rules of convolutions and dense layers: weights, scales, requantisation, sites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from refoldc.ir import (
    F64,
    Bounds,
    Conv,
    Dense,
    Graph,
    QConv,
    QDense,
    QLayer,
    Quant,
    Site,
)
from refoldc.quantise_context import Context, identity
from refoldc.requant import (
    FACTOR_MAX,
    channel_requant,
    clamp_bounds,
    exact_units,
    least_output_scale,
)
from refoldc.sites import Channels, make_site
from refoldc.weights import accumulator_offset, quantise_weights, weight_scales

MAX_LOGIT_BITS = 8
"""Fraction bits that logits have beyond an int8 output of the same range."""


def _weighted(
    node: Conv | Dense, source: Quant, choose_output: Callable[[F64, float], Quant]
) -> tuple[dict[str, Any], Quant]:
    """What convolutions and dense layers share: weights and requantisation.

    Args:
        node: The layer.
        source: Of its input.
        choose_output: From accumulator units and the least scale that they and
            the bias allow to the output's.

    Returns:
        Fields of the integer layer, and the output's scale and zero point.
    """
    bias = node.bias.astype(np.float64)
    given = node.given_scale
    scales = weight_scales(node.weights) if given is None else given
    units = source.scale * np.broadcast_to(scales, len(node.weights))
    out = choose_output(units, least_output_scale(units, bias))
    if given is None:
        units = exact_units(units, bias, out, channel_requant(units, bias, out).shift)
    bias = np.rint(bias / units) * units
    weight_scale = units / source.scale
    weights = quantise_weights(node.weights, weight_scale)
    limits = clamp_bounds(node.bounds, out)
    fields = {
        **identity(node),
        "weights": weights,
        "weight_scale": weight_scale,
        "bias": bias,
        "offset": accumulator_offset(weights, source.zero_point, node.name),
        "requant": channel_requant(units, bias, out, limits),
    }
    return fields, out


def quantise_conv(node: Conv, context: Context) -> tuple[QLayer, Quant]:
    """Quantise a convolution, as a site where BatchNorm followed it."""

    def output(_units: F64, least_scale: float) -> Quant:
        return context.output_quant(node, least_scale)

    source = context.quants[node.inputs[0]]
    fields, out = _weighted(node, source, output)
    layer = QConv(
        **fields,
        stride=node.stride,
        dilation=node.dilation,
        pads=node.pads,
        groups=node.groups,
        depthwise=node.depthwise,
    )
    if node.name in context.sites:
        layer = replace(layer, site=_site(node, layer, context, out))
    return layer, out


def _site(node: Conv, layer: QConv, context: Context, out: Quant) -> Site:
    calibration = context.calibration
    channels = Channels(
        unit=context.quants[node.inputs[0]].scale * layer.weight_scale,
        bias=layer.bias,
        varies=np.asarray(layer.weights.any(axis=(1, 2, 3))),
        quant=out,
        shape=context.graph.shapes[node.output],
    )
    return make_site(
        node,
        channels,
        moments=calibration.moments[node.name],
        peak=calibration.peak[node.name],
        rule=context.options.targets,
    )


def quantise_dense(node: Dense, context: Context) -> tuple[QLayer, Quant]:
    """Quantise a dense layer; its output is int32 where it is an answer."""
    logits = _gives_logits(node, context.graph)

    def output(units: F64, least_scale: float) -> Quant:
        out = context.output_quant(node, least_scale)
        return logits_quant(out.scale, units, least_scale) if logits else out

    fields, out = _weighted(node, context.quants[node.inputs[0]], output)
    return QDense(**fields, logits=logits), out


def _gives_logits(node: Dense, graph: Graph) -> bool:
    """An answer of the graph, read by nothing else and bounded by nothing."""
    read = any(node.output in other.inputs for other in graph.nodes)
    answer = node.output in graph.output_tensors
    return answer and node.bounds == Bounds() and not read


def logits_quant(scale: float, units: F64, least_scale: float) -> Quant:
    """The common scale of int32 logits: as fine as the multipliers allow."""
    for bits in range(MAX_LOGIT_BITS, 0, -1):
        finer = scale * 2.0**-bits
        if units.max() / finer <= FACTOR_MAX and finer >= least_scale:
            return Quant(finer, 0)
    return Quant(scale, 0)
