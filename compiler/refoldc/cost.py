"""What a layer costs to run, and how many parameters it has."""

from __future__ import annotations

from math import prod

from refoldc.ir import QConv, QDense, QGraph, QLayer, Site


def layer_macs(layer: QLayer, graph: QGraph) -> int:
    """Multiply-accumulate operations of one image; 0 without weights."""
    if isinstance(layer, QConv):
        positions = prod(graph.shapes[layer.output][:2])
        return positions * layer.weights.size
    return layer.weights.size if isinstance(layer, QDense) else 0


def model_macs(graph: QGraph) -> int:
    """Of all layers."""
    return sum(layer_macs(layer, graph) for layer in graph.layers)


def parameters(graph: QGraph) -> int:
    """Weights and biases."""
    return sum(
        layer.weights.size + layer.bias.size
        for layer in graph.layers
        if isinstance(layer, (QConv, QDense))
    )


def site_instructions(site: Site) -> int:
    """Of its statistics, about one a value on the ESP32-S3 (docs/kernels.md)."""
    return site.pixels * len(site.mean)
