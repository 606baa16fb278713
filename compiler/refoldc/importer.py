"""ONNX to the float graph: NHWC, batch 1, static shapes.

The operators are in ``importers``; here is the walk over the graph. Shapes are
computed on the way, never taken from ONNX shape inference.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from refoldc.constants import FOLDABLE, fold_constant
from refoldc.errors import BadModel, RefoldcError, UnsupportedOp
from refoldc.importers import OPERATORS, Importer, unsupported
from refoldc.importers.builder import Builder, OnnxNode, Value
from refoldc.ir import Graph
from refoldc.loading import COMMON_IR_VERSION, load_onnx, opset_version
from refoldc.verify import check_sizes

LARGEST_BATCH = 1024
"""That a model may fix: it is imported as 1, but the original runs with it."""


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
        first, *others = attempt.problems
        more = f" (and {len(others)} more: refold inspect lists all)" if others else ""
        raise type(first)(f"{first}{more}")
    output = _output(attempt.builder, model.graph.output[0].name)
    return Graph(
        name=name,
        input=attempt.input.name,
        output=output.name,
        nodes=tuple(attempt.builder.nodes),
        shapes=dict(attempt.builder.shapes),
        onnx_input=attempt.input.name,
        onnx_output=model.graph.output[0].name,
        input_axes=attempt.input.layout,
        output_axes=output.layout,
    )


@dataclass(frozen=True, eq=False)
class Attempt:
    """What could be imported, and one error for each node that could not."""

    builder: Builder
    input: Value
    problems: tuple[RefoldcError, ...]


def try_import(model: onnx.ModelProto) -> Attempt:
    """Import as much as possible.

    A node behind one that failed is looked at for its operator only.

    Raises:
        BadModel: The graph as a whole is malformed, or has no single fixed
            input and output.
    """
    graph = model.graph
    try:
        batch, source = _input(graph)
    except RefoldcError as problem:
        raise type(problem)(f"{problem}{_never_compiled(graph)}") from None
    if len(source.dims) > 1 and _is_channels_last(graph, source.name):
        source = replace(source, axes=CHANNELS_LAST[len(source.dims)])
    initializers = _initializers(graph)
    nodes = _live(_in_order(graph, {source.name, *initializers}), graph)
    builder = Builder(opset_version(model), batch)
    builder.constants.update(initializers)
    builder.values[source.name] = source
    builder.shapes[source.name] = source.shape
    problems = _convert(builder, nodes)
    return Attempt(builder, source, tuple(problems))


def _convert(builder: Builder, nodes: Iterable[OnnxNode]) -> list[RefoldcError]:
    problems: list[RefoldcError] = []
    unknown: set[str] = set()
    for node in nodes:
        try:
            _check(node, builder.opset)
            if not unknown.isdisjoint(node.inputs):
                unknown.update(node.outputs)
            elif not fold_constant(builder, node):
                _importer(node)(builder, node)
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
    arrays = {}
    for tensor in graph.initializer:
        try:
            onnx.checker.check_tensor(tensor)
            arrays[tensor.name] = onnx.numpy_helper.to_array(tensor)
        except _MALFORMED as error:
            reason = str(error).splitlines()[0]
            raise BadModel(f"tensor '{tensor.name}' is malformed: {reason}") from None
    return arrays


def _input(graph: onnx.GraphProto) -> tuple[int, Value]:
    """The batch written in the model (1 where symbolic) and the input."""
    names = [str(i.name) for i in graph.input]  # bytes where it is no UTF-8
    outputs = [str(o.name) for o in graph.output]
    for what, found in (("input", names), ("output", outputs)):
        if len(found) != 1:
            raise UnsupportedOp(
                f"the model has {len(found)} {what}s ({', '.join(found)}); refold "
                f"compiles networks with one {what}: export only the part needed"
            )
    kind = _kind(graph.input[0].type)
    if kind != "FLOAT":
        raise UnsupportedOp(
            f"input '{names[0]}' has type {kind}; refold compiles float32 models: "
            "export it in float32 (model.float())"
        )
    return _dimensions(names[0], graph.input[0].type.tensor_type)


def _kind(proto: onnx.TypeProto) -> str:
    """Element type of a tensor, or what else the type is."""
    variant = proto.WhichOneof("value")
    if variant != "tensor_type":
        return variant.removesuffix("_type") if variant else "none"
    number = proto.tensor_type.elem_type
    known = onnx.TensorProto.DataType
    return known.Name(number) if number in known.values() else f"number {number}"


def _never_compiled(graph: onnx.GraphProto) -> str:
    """What else stands in the way of a model whose input is refused."""
    kinds = {node.op_type for node in graph.node} - OPERATORS.keys() - FOLDABLE
    return f". Nor does refold compile {', '.join(sorted(kinds))}" if kinds else ""


def _dimensions(name: str, tensor: onnx.TypeProto.Tensor) -> tuple[int, Value]:
    dims = [
        d.dim_value if d.WhichOneof("value") == "dim_value" else d.dim_param or "?"
        for d in tensor.shape.dim
    ]
    spelled = " x ".join(map(str, dims)) or "no shape"
    if len(dims) not in (2, 3, 4):
        raise UnsupportedOp(
            f"input '{name}' has shape {spelled}; refold compiles networks on "
            "N x C x H x W images, N x C x L signals or N x F vectors"
        )
    batch, *rest = dims
    fixed = tuple(d for d in rest if isinstance(d, int) and d > 0)
    if len(fixed) != len(rest):
        raise BadModel(
            f"input '{name}' has shape {spelled}: only the batch may be dynamic; "
            "export with a fixed size (leave height and width out of dynamic_axes), "
            "or fix it with python -m onnxruntime.tools.make_dynamic_shape_fixed"
        )
    batch = batch if isinstance(batch, int) else 1
    if not 1 <= batch <= LARGEST_BATCH:
        raise BadModel(
            f"input '{name}' has shape {spelled}: a batch of {batch}, expected 1 to "
            f"{LARGEST_BATCH} or a dynamic one: export it again with a batch of 1"
        )
    value = Value(name, fixed)
    check_sizes(f"input '{name}'", value.shape, (batch, *value.shape))
    return batch, value


CHANNELS_LAST = {2: (1, 2), 3: (0, 1, 2)}
_SHAPE_KEEPING = frozenset({"Add", "Sub", "Mul", "Div", "Identity"})


def _is_channels_last(graph: onnx.GraphProto, source: str) -> bool:
    """Whether all that happens to the input first is a move of its last axis."""
    names, found = {source}, False
    for node in graph.node:
        if names.isdisjoint(node.input):
            continue
        if node.op_type in _SHAPE_KEEPING:
            names.update(node.output)
            continue
        attributes = {a.name: list(a.ints) for a in node.attribute}
        perm = attributes.get("perm", [])
        if node.op_type != "Transpose" or perm[:2] != [0, len(perm) - 1]:
            return False
        found = True
    return found


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


def _output(builder: Builder, name: str) -> Value:
    if name not in builder.values or not builder.nodes:
        raise BadModel(
            f"output '{name}' does not depend on the input through any layer: there "
            "is nothing to compile"
        )
    return builder.in_order(builder.without_pads(builder.values[name], name))
