"""Float graph to integer graph; the formulas are docs/numerics.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from refoldc.calibrate import Calibration
from refoldc.input_spec import pixel_input
from refoldc.ir import Graph, InputSpec, QConv, QGraph, QLayer, Quant
from refoldc.options import CompileOptions
from refoldc.quantise_context import Context
from refoldc.quantise_rules import RULES
from refoldc.requant import affine
from refoldc.sites import MAX_SITES, select_sites, site_nodes


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
    context = Context(
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
