"""Merge BatchNorm and activations into the layers before them.

The folding is that of the FORGE paper: ``W' = W * gamma / sqrt(var + eps)``,
``b' = beta + (b - mean) * gamma / sqrt(var + eps)``. What BatchNorm gave each
channel, mean ``beta`` and deviation ``|gamma|``, is recorded: it is the clean
target that the device adapts towards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from refoldc.errors import BadModel, UnsupportedOp
from refoldc.formula import Affine, as_affine, channels, substitute
from refoldc.fuse import fuse_pointwise
from refoldc.ir import (
    F64,
    Add,
    BatchNorm,
    BnShape,
    Bounds,
    Clamp,
    Conv,
    Dense,
    Final,
    Flatten,
    Graph,
    Mul,
    Node,
    Pointwise,
    Pool,
)
from refoldc.sites import feeds_output

LEAST_SIGMA = 1e-5

Weighted = TypeVar("Weighted", bound=Conv | Dense)


def fold(graph: Graph) -> Graph:
    """Rewrite an imported graph until only layers are left.

    Args:
        graph: From ``import_model``.

    Returns:
        The same function; convolutions that took a BatchNorm carry ``bn``, and
        in a graph without any BatchNorm those with an activation behind them
        are marked ``estimate``.

    Raises:
        UnsupportedOp: A BatchNorm, Softmax or Flatten stands where nothing can
            take it.
        BadModel: Folding overflows float32, or leaves nothing.
    """
    had_batch_norm = any(isinstance(node, BatchNorm) for node in graph.nodes)
    graph = fold_batch_norm(graph)
    graph = drop_flatten(graph)
    graph = drop_dead(fuse_pointwise(graph))
    graph = merge_clamps(graph)
    graph = take_endings(graph)
    graph = drop_dead(graph)
    if not graph.nodes:
        raise BadModel(
            "the graph computes nothing but a softmax or another order of its input: "
            "there is nothing to compile"
        )
    _check_outputs(graph)
    return graph if had_batch_norm else mark_estimated(graph)


def _check_outputs(graph: Graph) -> None:
    inputs = {tensor.name for tensor in graph.inputs}
    for output in graph.outputs:
        if output.tensor in inputs:
            raise UnsupportedOp(
                f"output '{output.onnx}' is the input '{output.tensor}' as it is: "
                "export the model without it"
            )


# --- BatchNorm ---------------------------------------------------------------


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
    producer = _producer(graph, node.inputs[0])
    width = graph.shapes[node.output][-1:]
    scale, offset = (np.broadcast_to(a, width) for a in (affine.scale, affine.offset))
    affine = Affine(scale, offset)
    if (
        isinstance(producer, (Conv, Dense))
        and producer.bounds == Bounds()
        and _readers(graph, producer.output) == 1
    ):
        merged = _scaled(producer, node, affine, _moved(producer.bn, affine))
        return _replace_nodes(graph, {producer.name: (), node.name: (merged,)})
    if channels(node.formula) == 1:
        return graph
    if len(graph.shapes[node.output]) == 3:
        return _replace_nodes(graph, {node.name: (_depthwise(node, affine),)})
    return _forward(graph, node, affine) if _feeds_dense(graph, node) else graph


def _joined(graph: Graph, node: Pointwise) -> tuple[Graph, Pointwise]:
    """With the affine function before it, which nothing else reads."""
    first = _producer(graph, node.inputs[0])
    if (
        not isinstance(first, Pointwise)
        or as_affine(first.formula) is None
        or _readers(graph, first.output) != 1
    ):
        return graph, node
    joined = replace(
        node,
        inputs=first.inputs,
        onnx_nodes=(*first.onnx_nodes, *node.onnx_nodes),
        formula=substitute(node.formula, first.formula),
    )
    return _replace_nodes(graph, {first.name: (), node.name: (joined,)}), joined


def _moved(bn: BnShape | None, affine: Affine) -> BnShape | None:
    """What BatchNorm gave each channel, seen behind an affine function."""
    if bn is None:
        return None
    sigma = np.maximum(np.abs(affine.scale) * bn.sigma, LEAST_SIGMA)
    return BnShape(affine.scale * bn.beta + affine.offset, sigma, bn.origin)


def _fold_one(graph: Graph, norm: BatchNorm) -> Graph:
    producer = _producer(graph, norm.inputs[0])
    if isinstance(producer, (Conv, Dense)) and producer.bounds == Bounds():
        merged = _into(producer, norm)
        if _readers(graph, producer.output) == 1:
            return _replace_nodes(graph, {producer.name: (), norm.name: (merged,)})
        # Others read the plain output: this BatchNorm gets a convolution of its own.
        merged = replace(merged, name=norm.name)
        return _replace_nodes(graph, {norm.name: (merged,)})
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
    graph = _replace_nodes(graph, {norm.name: (conv,)})
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
    return _replace_nodes(graph, changes)


# --- Flatten, activations, endings -------------------------------------------


def drop_flatten(graph: Graph) -> Graph:
    """Let readers see the image; a Dense reads it in (H, W, C) order anyway."""
    source: dict[str, str] = {}
    shapes = dict(graph.shapes)
    nodes = []
    for node in graph.nodes:
        inputs = tuple(source.get(name, name) for name in node.inputs)
        if isinstance(node, Flatten):
            source[node.output] = inputs[0]
            continue
        if isinstance(node, (Add, Mul, Clamp, Pointwise, Final)):
            _check_same_rank(node, [shapes[name] for name in inputs])
            shapes[node.output] = shapes[inputs[0]]
        nodes.append(replace(node, inputs=inputs))
    outputs = tuple(
        replace(output, tensor=source.get(output.tensor, output.tensor))
        for output in graph.outputs
    )
    return replace(graph, nodes=tuple(nodes), shapes=shapes, outputs=outputs)


def _check_same_rank(node: Node, shapes: list[tuple[int, ...]]) -> None:
    fits = len({len(shape) for shape in shapes}) == 1
    if isinstance(node, Add):
        fits = len(set(shapes)) == 1
    if isinstance(node, Pointwise):
        fits = channels(node.formula) in (1, shapes[0][-1])
    if not fits:
        raise UnsupportedOp(
            f"node '{node.name}' ({type(node).__name__}): combines a flattened image "
            "with a vector; refold combines tensors of one rank: flatten behind it"
        )


def merge_clamps(graph: Graph) -> Graph:
    """Fuse each activation into its producer where nobody else reads that."""
    for node in graph.nodes:
        if not isinstance(node, Clamp):
            continue
        producer = _producer(graph, node.inputs[0])
        if producer is None or _readers(graph, producer.output) != 1:
            continue
        if isinstance(producer, (Conv, Dense, Add, Mul, Pool, Clamp)):
            merged = replace(
                producer,
                output=node.output,
                onnx_nodes=(*producer.onnx_nodes, *node.onnx_nodes),
                bounds=_compose(producer.bounds, node.bounds),
            )
            graph = _replace_nodes(graph, {producer.name: (merged,), node.name: ()})
    return graph


def _compose(first: Bounds, then: Bounds) -> Bounds:
    def clip(x: float) -> float:
        return min(max(x, then.low), then.high)

    return Bounds(clip(first.low), clip(first.high))


def take_endings(graph: Graph) -> Graph:
    """Leave a final Softmax, LogSoftmax or ArgMax to the reports."""
    for node in graph.nodes:
        if not isinstance(node, Final):
            continue
        ends = [o for o in graph.outputs if o.tensor == node.output]
        if _readers(graph, node.output) != len(ends):
            raise UnsupportedOp(
                f"node '{node.name}' ({node.kind}): is not the last operator; refold "
                f"computes {node.kind} only at the end: end the model before it"
            )
        outputs = tuple(
            replace(o, tensor=node.inputs[0], ending=node.kind, ending_axis=node.axis)
            if o in ends
            else o
            for o in graph.outputs
        )
        graph = replace(_replace_nodes(graph, {node.name: ()}), outputs=outputs)
    return graph


def drop_dead(graph: Graph) -> Graph:
    """Remove what the output does not depend on, nodes and tensors."""
    wanted = set(graph.output_tensors)
    live = []
    for node in reversed(graph.nodes):
        if node.output in wanted:
            wanted.update(node.inputs)
            live.append(node)
    wanted.update(tensor.name for tensor in graph.inputs)
    shapes = {name: shape for name, shape in graph.shapes.items() if name in wanted}
    return replace(graph, nodes=tuple(reversed(live)), shapes=shapes)


# --- sites without BatchNorm -------------------------------------------------

_HOW_TO_KEEP_BN = (
    "The model contains no BatchNormalization (its exporter folded it), so the "
    "targets of adaptation are estimated from the calibration images. To keep the "
    "exact ones, export with torch.onnx.export(model.eval(), ..., "
    "training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False); with "
    "tf2onnx, convert the Keras model before any graph optimisation."
)


def mark_estimated(graph: Graph) -> Graph:
    """Mark the convolutions an activation follows, directly or behind a sum."""
    barred = feeds_output(graph)
    nodes = tuple(
        replace(node, estimate=True)
        if isinstance(node, Conv)
        and node.output not in barred
        and _is_activated(graph, node)
        else node
        for node in graph.nodes
    )
    if not any(isinstance(node, Conv) and node.estimate for node in nodes):
        return graph
    return replace(graph, nodes=nodes, notices=(*graph.notices, _HOW_TO_KEEP_BN))


def _is_activated(graph: Graph, conv: Conv) -> bool:
    behind = [node for node in graph.nodes if conv.output in node.inputs]
    if any(isinstance(node, Pointwise) for node in behind):
        return True
    activated = [node for node in behind if isinstance(node, (Add, Mul, Pool, Clamp))]
    return any(node.bounds != Bounds() for node in (conv, *activated))


# --- graph helpers -----------------------------------------------------------


def _producer(graph: Graph, tensor: str) -> Node | None:
    return next((node for node in graph.nodes if node.output == tensor), None)


def _readers(graph: Graph, tensor: str) -> int:
    """How often a tensor is read; being an output counts as once."""
    reads = sum(node.inputs.count(tensor) for node in graph.nodes)
    return reads + sum(tensor == output.tensor for output in graph.outputs)


def _replace_nodes(graph: Graph, changes: Mapping[str, Iterable[Node]]) -> Graph:
    """Replace nodes, by name, with none or some."""
    nodes = [new for old in graph.nodes for new in changes.get(old.name, (old,))]
    return replace(graph, nodes=tuple(nodes))
