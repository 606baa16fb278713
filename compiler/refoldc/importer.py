"""ONNX to the float graph: NHWC, batch 1, static shapes.

The operators are in ``importers``; here is the walk over the graph. Shapes are
computed on the way, never taken from ONNX shape inference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from refoldc.constants import FOLDABLE, fold_constant
from refoldc.errors import BadModel, RefoldcError, UnknownOp, UnsupportedOp
from refoldc.importers import OPERATORS, Importer, unsupported
from refoldc.importers.builder import Builder
from refoldc.importers.quantised import note_weights
from refoldc.importers.values import OnnxNode, Value
from refoldc.importers.views import LAYOUTS
from refoldc.input_ports import read_inputs
from refoldc.ir import Graph
from refoldc.loading import COMMON_IR_VERSION, load_onnx, opset_version
from refoldc.ports import Input, Output


def import_model(path: Path) -> Graph:
    """Read an ONNX file into a float graph.

    Args:
        path: The .onnx file; external data is looked for beside it.

    Returns:
        One node an operator; BatchNorm, Flatten, Clamp and Softmax are still
        nodes of their own, for ``fold``.

    Raises:
        BadModel: The file cannot be read or contradicts itself.
        UnsupportedOp: It needs an operator that refold does not compile.
    """
    return import_proto(load_onnx(path), path.stem)


def import_proto(model: onnx.ModelProto, name: str) -> Graph:
    """As :func:`import_model`, from a model that ``load_onnx`` returned."""
    attempt = try_import(model)
    if attempt.problems:
        first, *others = sorted(attempt.problems, key=_is_use)
        more = f" (and {len(others)} more: refold inspect lists all)" if others else ""
        raise type(first)(f"{first}{more}")
    outputs = tuple(_output(attempt.builder, o.name) for o in model.graph.output)
    return Graph(
        name=name,
        inputs=tuple(Input(value.name, value.layout) for value in attempt.inputs),
        outputs=outputs,
        nodes=tuple(attempt.builder.nodes),
        shapes=dict(attempt.builder.shapes),
        given=dict(attempt.builder.given),
        notices=tuple(_ignored(attempt.builder)),
    )


def _is_use(problem: RefoldcError) -> bool:
    """Not of an operator as such: those say most about what to do."""
    return not isinstance(problem, UnknownOp)


def _ignored(builder: Builder) -> Iterator[str]:
    """What of a quantised model cannot be kept."""
    for name, reason in builder.ignored.items():
        yield (
            f"The int8 scale at node '{name}' is not taken over: {reason}; refold "
            "chooses one from the calibration images."
        )


@dataclass(frozen=True, eq=False)
class Attempt:
    """What could be imported, and one error for each node that could not."""

    builder: Builder
    inputs: tuple[Value, ...]
    problems: tuple[RefoldcError, ...]


def try_import(model: onnx.ModelProto) -> Attempt:
    """Import as much as possible.

    A node behind one that failed is looked at for its operator only.

    Raises:
        BadModel: The graph as a whole is malformed, or an input has no fixed
            shape.
    """
    graph = model.graph
    try:
        batch, inputs = read_inputs(graph)
    except RefoldcError as problem:
        raise type(problem)(f"{problem}{_never_compiled(graph)}") from None
    _check_names(graph)
    initializers = _initializers(graph)
    known = {*initializers, *(value.name for value in inputs)}
    nodes = _live(_in_order(graph, known), graph)
    builder = Builder(opset_version(model), batch)
    builder.constants.update(initializers)
    for value in inputs:
        builder.values[value.name] = value
        builder.shapes[value.name] = value.shape
    problems = _convert(builder, nodes)
    return Attempt(builder, inputs, tuple(problems))


def _convert(builder: Builder, nodes: Iterable[OnnxNode]) -> list[RefoldcError]:
    problems: list[RefoldcError] = []
    unknown: set[str] = set()
    for node in nodes:
        try:
            _check(node, builder.opset)
            if not unknown.isdisjoint(node.inputs):
                unknown.update(node.outputs)
                _importer(node)
            elif not fold_constant(builder, node):
                _importer(node)(builder, node)
            elif node.op == "DequantizeLinear":
                note_weights(builder, node)
        except (UnsupportedOp, BadModel) as problem:
            problems.append(problem)
            unknown.update(node.outputs)
    return problems


def _importer(node: OnnxNode) -> Importer:
    if node.domain or node.op not in OPERATORS:
        raise unsupported(node)
    return OPERATORS[node.op]


def _check(node: OnnxNode, opset: int) -> None:
    """Judge the operator; let the onnx package judge attributes and arity."""
    if node.domain or node.op not in FOLDABLE:
        _importer(node)
    context = onnx.checker.C.CheckerContext()
    context.ir_version = COMMON_IR_VERSION
    context.opset_imports = {"": opset}
    try:
        onnx.checker.check_node(node.proto, context)
    except (onnx.checker.ValidationError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise BadModel(f"{node.where} is malformed: {reason}") from None


_MALFORMED = (onnx.checker.ValidationError, ValueError, TypeError, KeyError)
"""What the onnx package raises on a tensor that it cannot decode."""


def _initializers(graph: onnx.GraphProto) -> dict[str, NDArray[Any]]:
    for sparse in graph.sparse_initializer:
        raise UnsupportedOp(
            f"tensor '{sparse.values.name}' is sparse; refold reads dense weights: "
            "export the model without sparse initializers"
        )
    arrays = {}
    for tensor in graph.initializer:
        try:
            onnx.checker.check_tensor(tensor)
            arrays[tensor.name] = onnx.numpy_helper.to_array(tensor)
        except _MALFORMED as error:
            reason = str(error).splitlines()[0]
            raise BadModel(f"tensor '{tensor.name}' is malformed: {reason}") from None
    return arrays


def _check_names(graph: onnx.GraphProto) -> None:
    """No two inputs, nor two weights, share a name; runtimes disagree otherwise.

    An input may have a weight's name: it is the input's default (IR 3 lists all).
    """
    inputs = Counter(tensor.name for tensor in graph.input)
    weights = Counter(tensor.name for tensor in graph.initializer)
    for name, count in (inputs | weights).items():
        if count > 1:
            raise BadModel(
                f"{count} inputs or weights are called '{name}': the model contradicts "
                "itself, export it again"
            )


def _never_compiled(graph: onnx.GraphProto) -> str:
    """What else stands in the way of a model whose input is refused."""
    kinds = {node.op_type for node in graph.node} - OPERATORS.keys() - FOLDABLE
    return f". Nor does refold compile {', '.join(sorted(kinds))}" if kinds else ""


def _in_order(graph: onnx.GraphProto, known: set[str]) -> list[OnnxNode]:
    """Nodes so that each follows those it reads; the file's order where it can."""
    pending = [OnnxNode.unpack(proto) for proto in graph.node]
    ordered: list[OnnxNode] = []
    done = {"", *known}
    while pending:
        waiting = []
        for node in pending:
            if done.issuperset(node.inputs):
                _check_single_assignment(node, done)
                ordered.append(node)
                done.update(node.outputs)
            else:
                waiting.append(node)
        if len(waiting) == len(pending):
            raise _unordered(waiting, done)
        pending = waiting
    return ordered


def _check_single_assignment(node: OnnxNode, done: set[str]) -> None:
    for name in node.outputs:
        if name and name in done:
            raise BadModel(
                f"{node.where} produces '{name}', which exists already: the model "
                "contradicts itself"
            )


def _unordered(waiting: list[OnnxNode], done: set[str]) -> BadModel:
    made = {name for node in waiting for name in node.outputs}
    for node in waiting:
        for name in node.inputs:
            if name not in done and name not in made:
                return BadModel(
                    f"{node.where} reads '{name}', which nothing produces: the model "
                    "is incomplete, export it again"
                )
    return BadModel(
        f"{waiting[0].where} depends on its own output: the graph has a cycle"
    )


def _live(nodes: list[OnnxNode], graph: onnx.GraphProto) -> list[OnnxNode]:
    """Only the nodes that the output depends on."""
    wanted = {output.name for output in graph.output}
    live = []
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outputs):
            wanted.update(node.inputs)
            live.append(node)
    return live[::-1]


def _output(builder: Builder, name: str) -> Output:
    if name not in builder.values or not builder.nodes:
        raise BadModel(
            f"output '{name}' does not depend on the input through any layer: there "
            "is nothing to compile"
        )
    value = builder.without_pads(builder.values[name], name)
    if value.positions is not None and len(value.dims) not in LAYOUTS:
        flat = value.places().reshape(-1)
        value = replace(value, dims=flat.shape, positions=flat)
    value = builder.in_order(builder.settled(value))
    return Output(value.name, name, value.layout)
