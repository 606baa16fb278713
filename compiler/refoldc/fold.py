"""Rewrite an imported graph until only layers are left."""

from __future__ import annotations

from dataclasses import replace

from refoldc.errors import BadModel, UnsupportedOp
from refoldc.fold_affine import fold_batch_norm
from refoldc.formula import channels
from refoldc.fuse import fuse_pointwise
from refoldc.graph_edit import producer_of, readers_of, replace_nodes
from refoldc.ir import (
    Add,
    BatchNorm,
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
        producer = producer_of(graph, node.inputs[0])
        if producer is None or readers_of(graph, producer.output) != 1:
            continue
        if isinstance(producer, (Conv, Dense, Add, Mul, Pool, Clamp)):
            merged = replace(
                producer,
                output=node.output,
                onnx_nodes=(*producer.onnx_nodes, *node.onnx_nodes),
                bounds=_compose(producer.bounds, node.bounds),
            )
            graph = replace_nodes(graph, {producer.name: (merged,), node.name: ()})
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
        if readers_of(graph, node.output) != len(ends):
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
        graph = replace(replace_nodes(graph, {node.name: ()}), outputs=outputs)
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
