"""The inputs of an ONNX model, and the sizes that ``--shape`` fixes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import onnx

from refoldc.errors import BadModel, BadOptions, UnsupportedOp
from refoldc.importers.values import Value
from refoldc.verify import check_sizes

LARGEST_BATCH = 1024
"""That a model may fix: it is imported as 1, but the original runs with it."""


@dataclass(frozen=True)
class FixedShape:
    """``name:1x3x224x224``; the name may be left out where there is one input."""

    name: str
    dims: tuple[int, ...]

    @staticmethod
    def parse(text: str) -> FixedShape:
        """Read one ``--shape``.

        >>> FixedShape.parse("input:0:1x80x100")
        FixedShape(name='input:0', dims=(1, 80, 100))

        Raises:
            BadOptions: It is no list of positive numbers.
        """
        name, _, sizes = text.rpartition(":")
        numbers = sizes.split("x")
        if not all(n.isdecimal() and n.isascii() and int(n) for n in numbers):
            raise BadOptions(
                f"shape is '{text}', expected the batch and all sizes of an input, "
                "such as input:1x3x224x224"
            )
        return FixedShape(name, tuple(map(int, numbers)))


def fix_shapes(model: onnx.ModelProto, texts: Sequence[str]) -> None:
    """Write sizes into a model's inputs, which may leave them open.

    Raises:
        BadOptions: A shape names no input, or contradicts what the model says.
    """
    inputs = {str(source.name): source for source in model.graph.input}
    for shape in map(FixedShape.parse, texts):
        name = shape.name or (next(iter(inputs)) if len(inputs) == 1 else "")
        if name not in inputs:
            raise BadOptions(
                f"shape names '{name}', the model's inputs are {', '.join(inputs)}: "
                "write NAME:1x3x224x224"
            )
        dims = inputs[name].type.tensor_type.shape.dim
        fits = len(dims) in (0, len(shape.dims)) and all(
            old.dim_value in (0, -1, new)
            for old, new in zip(dims, shape.dims, strict=False)
        )
        if not fits:
            raise BadOptions(
                f"shape of input '{name}' is {_spell(shape.dims)}, the model says "
                f"{_spell(_read_dims(inputs[name].type.tensor_type))}: change only "
                "sizes that it leaves open"
            )
        del dims[:]
        for size in shape.dims:
            dims.add().dim_value = size
    if texts:
        del model.graph.value_info[:]


def read_inputs(graph: onnx.GraphProto) -> tuple[int, tuple[Value, ...]]:
    """The batch written in the model (1 where symbolic) and its inputs.

    Raises:
        UnsupportedOp: There is none, or one of another type or rank.
        BadModel: One has no fixed shape, or batches differ.
    """
    if not graph.input:
        raise BadModel("the model has no input: there is nothing to compile")
    found = [_read_input(source) for source in graph.input]
    batches = {batch for batch, _ in found}
    if len(batches) != 1:
        raise BadModel(
            f"the inputs {', '.join(value.name for _, value in found)} have batches of "
            f"{', '.join(map(str, sorted(batches)))}: expected one batch"
        )
    values = (_with_layout(graph, value) for _, value in found)
    return batches.pop(), tuple(values)


def _with_layout(graph: onnx.GraphProto, value: Value) -> Value:
    if len(value.dims) > 1 and _is_channels_last(graph, value.name):
        return replace(value, axes=CHANNELS_LAST[len(value.dims)])
    return value


def _read_input(source: onnx.ValueInfoProto) -> tuple[int, Value]:
    name, kind = str(source.name), _kind(source.type)  # bytes where it is no UTF-8
    if kind != "FLOAT":
        raise UnsupportedOp(
            f"input '{name}' has type {kind}; refold compiles float32 models: "
            "export it in float32 (model.float())"
        )
    return _dimensions(name, source.type.tensor_type)


def _kind(proto: onnx.TypeProto) -> str:
    """Element type of a tensor, or what else the type is."""
    variant = proto.WhichOneof("value")
    if variant != "tensor_type":
        return variant.removesuffix("_type") if variant else "none"
    number = proto.tensor_type.elem_type
    known = onnx.TensorProto.DataType
    return known.Name(number) if number in known.values() else f"number {number}"


def _dimensions(name: str, tensor: onnx.TypeProto.Tensor) -> tuple[int, Value]:
    dims = _read_dims(tensor)
    spelled = _spell(dims)
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
            f"fix the size with --shape {name}:{_example(dims)}, or export with one "
            "(leave height and width out of dynamic_axes)"
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


def _read_dims(tensor: onnx.TypeProto.Tensor) -> list[int | str]:
    return [
        d.dim_value if d.WhichOneof("value") == "dim_value" else d.dim_param or "?"
        for d in tensor.shape.dim
    ]


def _spell(dims: Sequence[int | str]) -> str:
    return " x ".join(map(str, dims)) or "no shape"


def _example(dims: Sequence[int | str]) -> str:
    """The shape with a size for each that is open."""
    sizes = [d if isinstance(d, int) and d > 0 else 224 for d in dims[1:]]
    return "x".join(map(str, (1, *sizes)))


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
