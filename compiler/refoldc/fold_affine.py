"""BatchNorm, and every other affine function, into the layers around it.

The folding is that of the FORGE paper: ``W' = W * gamma / sqrt(var + eps)``,
``b' = beta + (b - mean) * gamma / sqrt(var + eps)``. What BatchNorm gave each
channel, mean ``beta`` and deviation ``|gamma|``, is recorded: it is the clean
target that the device adapts towards.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from refoldc.errors import BadModel, UnsupportedOp
from refoldc.formula import Affine, as_affine, channels, substitute
from refoldc.graph_edit import producer_of, readers_of, replace_nodes
from refoldc.ir import (
    F64,
    BatchNorm,
    BnShape,
    Bounds,
    Conv,
    Dense,
    Graph,
    Node,
    Pointwise,
)

LEAST_SIGMA = 1e-5

Weighted = TypeVar("Weighted", bound=Conv | Dense)


def fold_batch_norm(graph: Graph) -> Graph:
    """Replace every BatchNorm, and every other affine function a layer can take."""
    for node in graph.nodes:
        if isinstance(node, BatchNorm):
            graph = _fold_one(graph, node)
        elif isinstance(node, Pointwise):
            graph = _fold_affine(graph, node)
    return graph


def _inference(norm: BatchNorm) -> Affine:
    """``y = scale * x + offset``, per channel."""
    scale = norm.gamma / np.sqrt(norm.variance + norm.epsilon)
    return Affine(scale, norm.beta - norm.mean * scale)


def _fold_affine(graph: Graph, node: Pointwise) -> Graph:
    """Into the layer before it or behind it; what remains becomes a table."""
    graph, node = _joined(graph, node)
    affine = as_affine(node.formula)
    if affine is None:
        return graph
    producer = producer_of(graph, node.inputs[0])
    width = graph.shapes[node.output][-1:]
    scale, offset = (np.broadcast_to(a, width) for a in (affine.scale, affine.offset))
    affine = Affine(scale, offset)
    if (
        isinstance(producer, (Conv, Dense))
        and producer.bounds == Bounds()
        and readers_of(graph, producer.output) == 1
    ):
        merged = _scaled(producer, node, affine, _moved(producer.bn, affine))
        return replace_nodes(graph, {producer.name: (), node.name: (merged,)})
    if channels(node.formula) == 1:
        return graph
    if len(graph.shapes[node.output]) == 3:
        return replace_nodes(graph, {node.name: (_depthwise(node, affine),)})
    return _forward(graph, node, affine) if _feeds_dense(graph, node) else graph


def _joined(graph: Graph, node: Pointwise) -> tuple[Graph, Pointwise]:
    """With the affine function before it, which nothing else reads."""
    first = producer_of(graph, node.inputs[0])
    if (
        not isinstance(first, Pointwise)
        or as_affine(first.formula) is None
        or readers_of(graph, first.output) != 1
    ):
        return graph, node
    joined = replace(
        node,
        inputs=first.inputs,
        onnx_nodes=(*first.onnx_nodes, *node.onnx_nodes),
        formula=substitute(node.formula, first.formula),
    )
    return replace_nodes(graph, {first.name: (), node.name: (joined,)}), joined


def _moved(bn: BnShape | None, affine: Affine) -> BnShape | None:
    """What BatchNorm gave each channel, seen behind an affine function."""
    if bn is None:
        return None
    sigma = np.maximum(np.abs(affine.scale) * bn.sigma, LEAST_SIGMA)
    return BnShape(affine.scale * bn.beta + affine.offset, sigma, bn.origin)


def _fold_one(graph: Graph, norm: BatchNorm) -> Graph:
    producer = producer_of(graph, norm.inputs[0])
    if isinstance(producer, (Conv, Dense)) and producer.bounds == Bounds():
        merged = _into(producer, norm)
        if readers_of(graph, producer.output) == 1:
            return replace_nodes(graph, {producer.name: (), norm.name: (merged,)})
        # Others read the plain output: this BatchNorm gets a convolution of its own.
        merged = replace(merged, name=norm.name)
        return replace_nodes(graph, {norm.name: (merged,)})
    if len(graph.shapes[norm.output]) == 3:
        return _standalone(graph, norm)
    return _forward_norm(graph, norm)


def _into(layer: Weighted, norm: BatchNorm) -> Weighted:
    sigma = np.maximum(np.abs(norm.gamma), LEAST_SIGMA)
    bn = BnShape(norm.beta, sigma, "exact")
    return _scaled(layer, norm, _inference(norm), bn)


def _scaled(
    layer: Weighted, node: Node, affine: Affine, bn: BnShape | None
) -> Weighted:
    """``layer`` with the affine function of the node behind it."""
    per_output = (-1, *(1,) * (layer.weights.ndim - 1))
    weights = layer.weights.astype(np.float64) * affine.scale.reshape(per_output)
    bias = layer.bias.astype(np.float64) * affine.scale + affine.offset
    given = layer.given_scale
    if given is not None:  # int8 weights stay as they are, but for their signs
        given = given * np.abs(affine.scale) if affine.scale.all() else None
    merged = _with_weights(
        replace(
            layer,
            output=node.output,
            onnx_nodes=(*layer.onnx_nodes, *node.onnx_nodes),
            bn=bn,
        ),
        weights,
        bias,
    )
    return replace(merged, given_scale=given)


def _with_weights(layer: Weighted, weights: F64, bias: F64) -> Weighted:
    """Set float64 weights, stored in float32."""
    with np.errstate(over="ignore"):
        narrow = weights.astype(np.float32), bias.astype(np.float32)
    if not all(np.isfinite(array).all() for array in narrow):
        merged = " and ".join(layer.onnx_nodes[1:])
        raise BadModel(
            f"node '{layer.name}': its weights or bias become NaN or infinite once "
            f"{merged} is folded in; the file is damaged, or a channel's running "
            "variance is all but zero: prune that channel"
        )
    return replace(layer, weights=narrow[0], bias=narrow[1], given_scale=None)


def _standalone(graph: Graph, norm: BatchNorm) -> Graph:
    """A convolution of its own; never folded forward across zero padding."""
    conv = _depthwise(norm, _inference(norm))
    notice = (
        f"BatchNormalization '{norm.name}' does not follow a convolution directly, so "
        "none can take it in: it is computed as a scale and offset per channel and "
        "is no recalibration site."
    )
    graph = replace_nodes(graph, {norm.name: (conv,)})
    return replace(graph, notices=(*graph.notices, notice))


def _depthwise(node: Node, affine: Affine) -> Conv:
    """An affine function of each channel as a depthwise 1x1 convolution."""
    width = affine.scale.size
    blank = Conv(
        name=node.name,
        inputs=node.inputs,
        output=node.output,
        onnx_nodes=node.onnx_nodes,
        weights=np.zeros((width, 1, 1, 1), np.float32),
        bias=np.zeros(width, np.float32),
        groups=width,
    )
    return _with_weights(blank, affine.scale.reshape(-1, 1, 1, 1), affine.offset)


def _feeds_dense(graph: Graph, node: Node) -> bool:
    behind = [other for other in graph.nodes if node.output in other.inputs]
    dense = all(isinstance(other, Dense) for other in behind)
    return dense and node.output not in graph.output_tensors


def _forward_norm(graph: Graph, norm: BatchNorm) -> Graph:
    if not _feeds_dense(graph, norm):
        raise UnsupportedOp(
            f"node '{norm.name}' (BatchNormalization): normalises a vector that is no "
            "layer's own output; refold folds it into the layer before it, or into "
            "Gemm layers directly behind it: move it there"
        )
    return _forward(graph, norm, _inference(norm))


def _forward(graph: Graph, norm: Node, affine: Affine) -> Graph:
    """Into the Dense layers behind, which have no padding to disturb."""
    changes: dict[str, tuple[Node, ...]] = {norm.name: ()}
    for layer in graph.nodes:
        if not isinstance(layer, Dense) or norm.output not in layer.inputs:
            continue
        weights = layer.weights.astype(np.float64)
        bias = layer.bias + weights @ affine.offset
        merged = _with_weights(layer, weights * affine.scale, bias)
        names = (*norm.onnx_nodes, *layer.onnx_nodes)
        changes[layer.name] = (replace(merged, inputs=norm.inputs, onnx_nodes=names),)
    return replace_nodes(graph, changes)
