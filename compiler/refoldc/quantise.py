"""Float graph to integer graph; the formulas are docs/numerics.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from refoldc.calibrate import Calibration
from refoldc.errors import UnsupportedOp
from refoldc.formula import evaluate
from refoldc.input_spec import encode_tensor, pixel_input
from refoldc.ir import (
    F64,
    I16,
    Add,
    Bounds,
    Clamp,
    Concat,
    ConcatPart,
    Conv,
    Dense,
    Graph,
    InputSpec,
    Mul,
    Node,
    Pick,
    Pointwise,
    Pool,
    QAdd,
    QConcat,
    QConv,
    QDense,
    QGraph,
    QLayer,
    QMul,
    QPick,
    QPool,
    QStored,
    QTable,
    Quant,
    Requant,
    Site,
    Stored,
)
from refoldc.options import CompileOptions
from refoldc.pooling import average_requant, window_counts
from refoldc.requant import (
    FACTOR_MAX,
    MULTIPLIER_MAX,
    affine,
    channel_requant,
    clamp_bounds,
    exact_units,
    fixed_point,
    least_output_scale,
    round_half_up,
)
from refoldc.sites import MAX_SITES, Channels, make_site, select_sites, site_nodes
from refoldc.weights import accumulator_offset, quantise_weights, weight_scales

MAX_LOGIT_BITS = 8
"""Fraction bits that logits have beyond an int8 output of the same range."""


@dataclass(frozen=True, eq=False)
class _Context:
    """What every rule below needs, and the scales decided so far."""

    graph: Graph
    calibration: Calibration
    options: CompileOptions
    sites: frozenset[str]
    quants: dict[str, Quant]

    def output_quant(self, node: Node, least_scale: float = 0.0) -> Quant:
        given = self.graph.given.get(node.output)
        if given is not None and given.scale >= least_scale:
            return given
        low, high = self.calibration.ranges[node.output]
        return affine(low, high, least_scale)


def quantise(graph: Graph, calibration: Calibration, options: CompileOptions) -> QGraph:
    """Turn a folded float graph into integers.

    Args:
        graph: Folded: no BatchNorm, Flatten or Softmax.
        calibration: Ranges of every tensor, moments and peak of every site.
        options: Input form, targets, sites and adaptation.

    Returns:
        The network that ``refoldc.reference`` defines and the device runs.

    Raises:
        RefoldcError: A layer's accumulator could overflow int32; a site choice
            names no site.
    """
    options = options.for_input(graph.sample_shape)
    spec, input_quants = _inputs(graph, calibration, options)
    nodes = site_nodes(graph) if options.adapt != "none" else ()
    context = _Context(
        graph=graph,
        calibration=calibration,
        options=options,
        sites=frozenset(node.name for node in nodes[:MAX_SITES]),
        quants=input_quants,
    )
    layers = []
    for node in graph.nodes:
        layer, quant = RULES[type(node)](node, context)
        context.quants[node.output] = quant
        layers.append(layer)
    return QGraph(
        name=graph.name,
        inputs=graph.inputs,
        outputs=graph.outputs,
        layers=_with_selected_sites(tuple(layers), options.sites),
        shapes={name: graph.shapes[name] for name in context.quants},
        quants=context.quants,
        input_spec=spec,
        notices=(
            *graph.notices,
            *_notices(options.adapt, len(nodes)),
            *_given_notices(graph, context.quants),
        ),
    )


def _inputs(
    graph: Graph, calibration: Calibration, options: CompileOptions
) -> tuple[InputSpec, dict[str, Quant]]:
    channels = graph.sample_shape[-1]
    mean = options.mean or (0.0,) * channels
    std = options.std or (1.0,) * channels
    if options.input == "pixels":
        spec, quant = pixel_input(mean, std, graph.given.get(graph.input))
        return spec, {graph.input: quant}
    spec = InputSpec(mode="tensor", mean=mean, std=std, table=None)
    ranges = calibration.ranges
    found = {t.name: affine(*ranges[t.name]) for t in graph.inputs}
    return spec, {name: graph.given.get(name, quant) for name, quant in found.items()}


def _given_notices(graph: Graph, quants: Mapping[str, Quant]) -> Iterator[str]:
    """What a model that is quantised already keeps, and what it cannot."""
    asked = {name: graph.given[name] for name in quants if name in graph.given}
    if not asked:
        return
    kept = [name for name, given in asked.items() if quants[name] == given]
    layers = sum(getattr(node, "given_scale", None) is not None for node in graph.nodes)
    yield (
        f"The model is quantised already: {len(kept)} of its {len(asked)} tensor "
        f"scales and the int8 weights of {layers} layers are taken over."
    )
    for name, given in asked.items():
        if quants[name] != given:
            yield (
                f"Tensor '{name}' has scale {quants[name].scale:.4g}, not the model's "
                f"{given.scale:.4g}: a max pool or move keeps that of its input, "
                "logits are int32, and a multiplier must stay below 1/2."
            )


def _notices(adapt: str, sites: int) -> tuple[str, ...]:
    if adapt != "none" and sites == 0:
        return (
            "The model has no recalibration sites (convolutions that a BatchNorm "
            "follows), so it is compiled without adaptation.",
        )
    if sites > MAX_SITES:
        return (
            f"The model has {sites} recalibration sites; the first {MAX_SITES} adapt, "
            "the others keep their static tables.",
        )
    return ()


def _with_selected_sites(layers: tuple[QLayer, ...], choice: str) -> tuple[QLayer, ...]:
    """Set ``default_on`` of the sites from ``--sites``."""
    sites = [s.site for s in layers if isinstance(s, QConv) and s.site is not None]
    chosen = {site.layer: site for site in select_sites(tuple(sites), choice)}
    return tuple(
        replace(layer, site=chosen[layer.name])
        if isinstance(layer, QConv) and layer.site is not None
        else layer
        for layer in layers
    )


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
        **_identity(node),
        "weights": weights,
        "weight_scale": weight_scale,
        "bias": bias,
        "offset": accumulator_offset(weights, source.zero_point, node.name),
        "requant": channel_requant(units, bias, out, limits),
    }
    return fields, out


def _conv(node: Conv, context: _Context) -> tuple[QLayer, Quant]:
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


def _site(node: Conv, layer: QConv, context: _Context, out: Quant) -> Site:
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


def _dense(node: Dense, context: _Context) -> tuple[QLayer, Quant]:
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


def _add(node: Add, context: _Context) -> tuple[QLayer, Quant]:
    a, b = (context.quants[name] for name in node.inputs)
    out = context.output_quant(node, max(a.scale, b.scale) / MULTIPLIER_MAX)
    zeros = np.array([a.zero_point, b.zero_point])

    def bias(m: I16, shift: int) -> F64:
        constant = round_half_up((out.zero_point + 0.5) * 2.0**shift)
        return np.asarray([constant - (m.astype(np.int64) * zeros).sum()])

    factors = np.array([a.scale, b.scale]) / out.scale
    m, total, shift = fixed_point(factors, bias, shifts=(0, 23))
    lo, hi = clamp_bounds(node.bounds, out)
    layer = QAdd(
        **_identity(node),
        m1=int(m[0]),
        m2=int(m[1]),
        bias=int(total[0]),
        shift=shift,
        lo=lo,
        hi=hi,
    )
    return layer, out


def _mul(node: Mul, context: _Context) -> tuple[QLayer, Quant]:
    a, b = (context.quants[name] for name in node.inputs)
    unit = a.scale * b.scale
    out = context.output_quant(node, unit / MULTIPLIER_MAX)

    def bias(_m: I16, shift: int) -> F64:
        return round_half_up([(out.zero_point + 0.5) * 2.0**shift])

    factor = np.array([unit / out.scale])
    m, constant, shift = fixed_point(factor, bias, shifts=(0, 31))
    lo, hi = clamp_bounds(node.bounds, out)
    layer = QMul(
        **_identity(node),
        m=int(m[0]),
        bias=int(constant[0]),
        shift=shift,
        lo=lo,
        hi=hi,
    )
    return layer, out


def _pool(node: Pool, context: _Context) -> tuple[QLayer, Quant]:
    source = context.quants[node.inputs[0]]
    if node.kind == "max":
        counts: tuple[int, ...] = ()
        out = source
        none = np.zeros(0, np.int64)
        lo, hi = clamp_bounds(node.bounds, out)
        requant = Requant(m=none.astype(np.int16), b=none, shift=0, lo=lo, hi=hi)
    else:
        shapes = context.graph.shapes
        covered = window_counts(
            shapes[node.inputs[0]],
            shapes[node.output],
            kernel=node.kernel,
            stride=node.stride,
            pads=node.pads,
            include_pad=node.include_pad,
        )
        counts = tuple(int(n) for n in np.unique(covered))
        out = context.output_quant(node, source.scale / min(counts) / MULTIPLIER_MAX)
        requant = average_requant(counts, source, out, node.bounds)
    layer = QPool(
        **_identity(node),
        kind=node.kind,
        kernel=node.kernel,
        stride=node.stride,
        pads=node.pads,
        include_pad=node.include_pad,
        counts=counts,
        requant=requant,
    )
    return layer, out


def _concat(node: Concat, context: _Context) -> tuple[QLayer, Quant]:
    sources = [context.quants[name] for name in node.inputs]
    least = max(source.scale for source in sources) / MULTIPLIER_MAX
    out = context.output_quant(node, least)
    parts = tuple(_rescale(source, out) for source in sources)
    return QConcat(**_identity(node), axis=node.axis, parts=parts), out


def _rescale(source: Quant, out: Quant) -> ConcatPart:
    """From one scale to another; the identity where they are equal."""

    def bias(m: I16, shift: int) -> F64:
        constant = round_half_up((out.zero_point + 0.5) * 2.0**shift)
        return np.asarray(constant - m.astype(np.int64) * source.zero_point)

    factor = np.array([source.scale / out.scale])
    m, constant, shift = fixed_point(factor, bias, shifts=(0, 23))
    return ConcatPart(m=int(m[0]), bias=int(constant[0]), shift=shift)


def _pick(node: Pick, context: _Context) -> tuple[QLayer, Quant]:
    """In the scale of its input, in which the fill must be a stored value."""
    out = context.quants[node.inputs[0]]
    fill = out.zero_point + round(node.fill / out.scale)
    if any((positions < 0).any() for positions in node.index) and abs(fill) > 128:
        low, high = (out.scale * (q - out.zero_point) for q in (-128, 127))
        raise UnsupportedOp(
            f"node '{node.name}': pads with {node.fill:g}, outside the range of what "
            f"it pads, {low:g} to {high:g}: pad with a value that the tensor takes"
        )
    stored = int(np.clip(fill, -128, 127))
    return QPick(**_identity(node), index=node.index, fill=stored, view=node.view), out


def _stored(node: Stored, context: _Context) -> tuple[QLayer, Quant]:
    out = context.output_quant(node)
    return QStored(**_identity(node), values=encode_tensor(node.values, out)), out


def _clamp(node: Clamp, context: _Context) -> tuple[QLayer, Quant]:
    real = _table_inputs(context.quants[node.inputs[0]])
    bounded = np.clip(real, node.bounds.low, node.bounds.high)
    return _table(node, np.asarray(bounded[np.newaxis], np.float64), context)


def _pointwise(node: Pointwise, context: _Context) -> tuple[QLayer, Quant]:
    real = _table_inputs(context.quants[node.inputs[0]])
    return _table(node, evaluate(node.formula, real), context)


def _table_inputs(source: Quant) -> F64:
    """The real value of each int8 one."""
    stored = np.arange(-128, 128, dtype=np.float64)
    return np.asarray(source.scale * (stored - source.zero_point))


def _table(
    node: Clamp | Pointwise, real: F64, context: _Context
) -> tuple[QLayer, Quant]:
    """Real results [C, 256] as a table; undefined ones are stored as zero."""
    out = context.output_quant(node)
    steps = np.clip(np.nan_to_num(real / out.scale, nan=0.0), -1e6, 1e6)
    stored = np.clip(out.zero_point + round_half_up(steps), -128, 127)
    return QTable(**_identity(node), table=stored.astype(np.int8)), out


def _identity(node: Node) -> dict[str, Any]:
    """The fields that a layer takes over from its node."""
    return {
        "name": node.name,
        "inputs": node.inputs,
        "output": node.output,
        "onnx_nodes": node.onnx_nodes,
    }


RULES: Mapping[type[Node], Callable[[Any, _Context], tuple[QLayer, Quant]]] = {
    Conv: _conv,
    Dense: _dense,
    Add: _add,
    Mul: _mul,
    Pool: _pool,
    Concat: _concat,
    Pick: _pick,
    Clamp: _clamp,
    Pointwise: _pointwise,
    Stored: _stored,
}
