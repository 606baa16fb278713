"""What a model consists of, and what of it will not compile, without compiling."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from refoldc.errors import BadModel, UnsupportedOp
from refoldc.fold import fold
from refoldc.importer import import_proto, try_import
from refoldc.ir import BatchNorm, Conv, Dense, Graph, Node, Pool, Shape
from refoldc.loading import load_onnx
from refoldc.sites import feeds_output
from refoldc.verify_import import open_original


@dataclass(frozen=True)
class LayerInfo:
    """One layer.

    Attributes:
        name, op: As in the compiled model.
        onnx_nodes: Names of the ONNX nodes it stands for.
        shape: Of its output, (H, W, C) or (F,).
        macs: Multiplications and additions of one image, in pairs.
        parameters: Weights and biases.
        site: Number among the recalibration sites; None where it is none.
        targets: ``exact`` or ``estimated`` for a site, else None.
        default_on: A site that adapts unless told otherwise; not one with a single
            position an image.
        reason: Why it is a site, or why not, in a word or two; empty where the
            question does not arise. BN is BatchNormalization.
    """

    name: str
    op: str
    onnx_nodes: tuple[str, ...]
    shape: Shape
    macs: int
    parameters: int
    site: int | None = None
    targets: str | None = None
    default_on: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Inspection:
    """A model taken apart.

    Attributes:
        name: Of the file, without its ending.
        input_shape: (H, W, C) or (F,).
        layers: In execution order; only those that could be imported where
            there are ``problems``.
        problems: Why it does not compile, one message a node; empty if it does.
        notices: What the user should know, one sentence each.
    """

    name: str
    input_shape: Shape
    layers: tuple[LayerInfo, ...]
    problems: tuple[str, ...]
    notices: tuple[str, ...]

    @property
    def macs(self) -> int:
        """Of one image."""
        return sum(layer.macs for layer in self.layers)

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def sites(self) -> tuple[LayerInfo, ...]:
        """The layers that can be recalibrated."""
        return tuple(layer for layer in self.layers if layer.site is not None)


def inspect_model(path: Path, shapes: Sequence[str] = ()) -> Inspection:
    """Take a model apart, compilable or not.

    Args:
        path: The .onnx file.
        shapes: Of inputs that the model leaves open, such as ``x:1x3x224x224``.

    Raises:
        BadModel: The file cannot be read, or its graph is malformed.
        UnsupportedOp: It has not one input and one output.
    """
    model = load_onnx(path, shapes)
    attempt = try_import(model)
    imported = tuple(attempt.builder.nodes)
    problems = tuple(map(str, attempt.problems))
    layers = tuple(_layer(node, attempt.builder.shapes) for node in imported)
    notices: tuple[str, ...] = ()
    if not problems:
        try:
            graph = fold(import_proto(model, path.stem))
            layers, notices = _with_sites(graph, imported), graph.notices
            open_original(model)
        except (BadModel, UnsupportedOp) as problem:
            problems = (str(problem),)
    return Inspection(path.stem, attempt.inputs[0].shape, layers, problems, notices)


def _layer(node: Node, shapes: Mapping[str, Shape]) -> LayerInfo:
    shape = shapes[node.output]
    parameters = macs = 0
    if isinstance(node, (Conv, Dense)):
        parameters = node.weights.size + node.bias.size
        positions = math.prod(shape[:-1]) if isinstance(node, Conv) else 1
        macs = positions * node.weights.size
    return LayerInfo(
        name=node.name,
        op=_operator(node),
        onnx_nodes=node.onnx_nodes,
        shape=shape,
        macs=macs,
        parameters=parameters,
    )


def _operator(node: Node) -> str:
    if isinstance(node, Conv) and node.depthwise:
        return "DepthwiseConv"
    if isinstance(node, Pool):
        return "MaxPool" if node.kind == "max" else "AveragePool"
    return type(node).__name__


def _with_sites(graph: Graph, imported: tuple[Node, ...]) -> tuple[LayerInfo, ...]:
    barred = feeds_output(graph)
    norms = frozenset(node.name for node in imported if isinstance(node, BatchNorm))
    layers = []
    count = 0
    for node in graph.nodes:
        layer = _layer(node, graph.shapes)
        if isinstance(node, (Conv, Dense)):
            is_site, reason = _judge(node, norms, node.output in barred)
            layer = replace(layer, reason=reason)
            if is_site:
                layer = replace(
                    layer,
                    site=count,
                    targets="estimated" if node.bn is None else "exact",
                    default_on=layer.shape[:2] != (1, 1),
                )
                count += 1
        layers.append(layer)
    return tuple(layers)


def _judge(node: Conv | Dense, norms: frozenset[str], barred: bool) -> tuple[bool, str]:
    """Whether a layer is a recalibration site, and why."""
    if barred:
        return False, "feeds the output"
    if isinstance(node, Dense):
        if node.bn is None:
            return False, "dense"
        return False, "BN folded, dense"
    if node.bn is None and not node.estimate:
        if node.name in norms:
            return False, "standalone BN"
        return False, "no BN"
    return True, "no BN" if node.bn is None else "BN folded"
