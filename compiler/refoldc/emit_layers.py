"""One operator each: the arrays and the parameter struct in model.c."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from refoldc.ctext import c_array, c_struct
from refoldc.ir import (
    I8,
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
    Requant,
    Shape,
)
from refoldc.packing import packed_weights

NO_POSITION = 2**16 - 1
"""REFOLD_NO_POSITION of kernels.h."""

Lines = Iterator[str]
Field = tuple[str, str]


def render_conv(name: str, layer: QConv, graph: QGraph) -> Lines:
    """refold_conv2d_params."""
    yield c_array("int8_t", f"{name}_weights", stored_weights(layer), "REFOLD_ALIGNED ")
    yield from render_packed(name, layer)
    yield c_array("int32_t", f"{name}_offset", layer.offset, "REFOLD_ALIGNED ")
    yield from render_requant_arrays(name, layer.requant)
    kernel = layer.weights.shape[1:3]
    fields = (
        ("in", c_shape(graph.shapes[layer.inputs[0]])),
        ("out", c_shape(graph.shapes[layer.output])),
        *pair("kernel", "h", "w", kernel),
        *pair("stride", "h", "w", layer.stride),
        *pair("dilation", "h", "w", layer.dilation),
        *pair("pad", "top", "left", layer.pads[:2]),
        ("groups", str(layer.groups)),
        ("zero_point", str(graph.quants[layer.inputs[0]].zero_point)),
        ("weights", f"{name}_weights"),
        ("offset", f"{name}_offset"),
        ("requant", c_requant(name, layer.requant)),
        *packed_field(name, layer),
    )
    yield render_struct("refold_conv2d_params", name, fields)


def stored_weights(layer: QConv) -> I8:
    """As the kernels read them: depthwise has its channels side by side."""
    if layer.depthwise:
        return layer.weights[..., 0].transpose(1, 2, 0)
    return layer.weights


def render_dense(name: str, layer: QDense, graph: QGraph) -> Lines:
    """refold_dense_params."""
    yield c_array("int8_t", f"{name}_weights", layer.weights, "REFOLD_ALIGNED ")
    yield from render_packed(name, layer)
    yield c_array("int32_t", f"{name}_offset", layer.offset, "REFOLD_ALIGNED ")
    yield from render_requant_arrays(name, layer.requant)
    fields = (
        ("inputs", str(layer.weights.shape[1])),
        ("outputs", str(layer.weights.shape[0])),
        ("weights", f"{name}_weights"),
        ("offset", f"{name}_offset"),
        ("requant", c_requant(name, layer.requant)),
        *packed_field(name, layer),
    )
    yield render_struct("refold_dense_params", name, fields)


def render_packed(name: str, layer: QLayer) -> Lines:
    """The weights for SIMD kernels, in the builds that have those."""
    packed = packed_weights(layer)
    if packed is not None:
        place = f"REFOLD_ALIGNED REFOLD_PLACE({name}_packed) "
        array = c_array("int8_t", f"{name}_packed", packed, place)
        yield f"#if defined REFOLD_ESP32S3\n{array}\n#endif"


def packed_field(name: str, layer: QLayer) -> list[Field]:
    """Where the kernels find them; NULL unless named."""
    if packed_weights(layer) is None:
        return []
    return [("packed", f"REFOLD_PACKED({name}_packed)")]


def render_add(name: str, layer: QAdd, graph: QGraph) -> Lines:
    """refold_add_params."""
    members = ("m1", "m2", "bias", "shift", "lo", "hi")
    fields = (
        ("count", str(prod(graph.shapes[layer.output]))),
        *((member, str(getattr(layer, member))) for member in members),
    )
    yield render_struct("refold_add_params", name, fields)


def render_mul(name: str, layer: QMul, graph: QGraph) -> Lines:
    """refold_mul_params; a step of 0 broadcasts the second operand."""
    shape, other = graph.shapes[layer.output], graph.shapes[layer.inputs[1]]
    positions = prod(other[:-1]) > 1 or prod(shape[:-1]) == 1
    zeros = [graph.quants[tensor].zero_point for tensor in layer.inputs]
    members = ("m", "bias", "shift", "lo", "hi")
    fields = (
        ("positions", str(prod(shape[:-1]))),
        ("channels", str(shape[-1])),
        ("position_step", str(other[-1] if positions else 0)),
        ("channel_step", str(int(other[-1] > 1))),
        *pair("zero_point", "a", "b", tuple(zeros)),
        *((member, str(getattr(layer, member))) for member in members),
    )
    yield render_struct("refold_mul_params", name, fields)


def render_pool(name: str, layer: QPool, graph: QGraph) -> Lines:
    """refold_pool_params; a max pool has no tables."""
    tables = bool(layer.counts)
    if tables:
        counts = np.array(layer.counts, np.uint32)
        yield c_array("uint32_t", f"{name}_count", counts)
        yield from render_requant_arrays(name, layer.requant)
    fields = (
        ("in", c_shape(graph.shapes[layer.inputs[0]])),
        ("out", c_shape(graph.shapes[layer.output])),
        *pair("kernel", "h", "w", layer.kernel),
        *pair("stride", "h", "w", layer.stride),
        *pair("pad", "top", "left", layer.pads[:2]),
        *pair("pad", "bottom", "right", layer.pads[2:]),
        ("include_pad", str(int(layer.include_pad))),
        ("zero_point", str(graph.quants[layer.inputs[0]].zero_point)),
        ("entries", str(len(layer.counts))),
        ("count", f"{name}_count" if tables else "NULL"),
        ("requant", c_requant(name if tables else None, layer.requant)),
    )
    yield render_struct("refold_pool_params", name, fields)


def render_concat(name: str, layer: QConcat, graph: QGraph) -> Lines:
    """refold_concat_params: rows of what lies before the axis."""
    shape = graph.shapes[layer.output]
    rows = prod(shape[: layer.axis])
    parts = [
        f"{{{prod(graph.shapes[tensor]) // rows}, {part.m}, {part.bias}, {part.shift}}}"
        for tensor, part in zip(layer.inputs, layer.parts, strict=True)
    ]
    items = ",\n    ".join(parts)
    yield f"static const refold_concat_part {name}_parts[] = {{\n    {items}\n}};"
    fields = (
        ("rows", str(rows)),
        ("parts", str(len(parts))),
        ("part", f"{name}_parts"),
    )
    yield render_struct("refold_concat_params", name, fields)


def render_pick(name: str, layer: QPick, graph: QGraph) -> Lines:
    """refold_pick_params; a vector is one position with many channels."""
    vector = len(layer.index) == 1
    one = np.zeros(1, np.int64)
    index = (one, one, *layer.index) if vector else layer.index
    size = prod(graph.shapes[layer.inputs[0]])
    source = (1, 1, size) if vector else graph.shapes[layer.inputs[0]]
    if layer.view:
        source = tuple(map(len, index))
    axes = ("rows", "columns", "channels")
    for axis, positions in zip(axes, index, strict=True):
        stored = np.where(positions < 0, NO_POSITION, positions).astype(np.uint16)
        yield c_array("uint16_t", f"{name}_{axis}", stored)
    fields = (
        ("in", c_shape(source)),
        ("out", c_shape(tuple(map(len, index)))),
        *((axis, f"{name}_{axis}") for axis in axes),
        ("fill", str(layer.fill)),
    )
    yield render_struct("refold_pick_params", name, fields)


def render_table(name: str, layer: QTable, graph: QGraph) -> Lines:
    """refold_table_params."""
    yield c_array("int8_t", f"{name}_values", layer.table, "REFOLD_ALIGNED ")
    fields = (
        ("count", str(prod(graph.shapes[layer.output]))),
        ("channels", str(len(layer.table))),
        ("table", f"{name}_values"),
    )
    yield render_struct("refold_table_params", name, fields)


def render_stored(name: str, layer: QStored, _graph: QGraph) -> Lines:
    """refold_stored_params."""
    yield c_array("int8_t", f"{name}_values", layer.values, "REFOLD_ALIGNED ")
    fields = (("count", str(layer.values.size)), ("values", f"{name}_values"))
    yield render_struct("refold_stored_params", name, fields)


def render_requant_arrays(name: str, requant: Requant) -> Lines:
    """Multipliers and biases."""
    yield c_array("int16_t", f"{name}_m", requant.m, "REFOLD_ALIGNED ")
    yield c_array("int64_t", f"{name}_b", requant.b, "REFOLD_ALIGNED ")


def c_requant(name: str | None, requant: Requant) -> str:
    """A refold_requant; without ``name`` it has no arrays."""
    m, b = (f"{name}_m", f"{name}_b") if name else ("NULL", "NULL")
    return f"{{{m}, {b}, {requant.shift}, {requant.lo}, {requant.hi}}}"


def c_shape(shape: Shape) -> str:
    """A refold_shape, (H, W, C)."""
    return f"{{{', '.join(map(str, shape))}}}"


def pair(name: str, first: str, second: str, values: tuple[int, ...]) -> list[Field]:
    """Two members that differ in their suffix."""
    return [(f"{name}_{first}", str(values[0])), (f"{name}_{second}", str(values[1]))]


def render_struct(kind: str, name: str, fields: tuple[Field, ...]) -> str:
    """A static constant struct."""
    return c_struct(f"static const {kind} {name} = ", fields) + ";"


@dataclass(frozen=True)
class Operator:
    """How an integer layer appears in C.

    Attributes:
        kind: From a layer to the part after ``refold_run_``.
        render: From (identifier, layer, graph) to its lines.
    """

    kind: Callable[[Any], str]
    render: Callable[[str, Any, QGraph], Lines]


OPERATORS: Mapping[type[QLayer], Operator] = {
    QConv: Operator(lambda n: "dwconv2d" if n.depthwise else "conv2d", render_conv),
    QDense: Operator(lambda n: "dense_s32" if n.logits else "dense", render_dense),
    QAdd: Operator(lambda _: "add", render_add),
    QMul: Operator(lambda _: "mul", render_mul),
    QPool: Operator(
        lambda n: "max_pool" if n.kind == "max" else "avg_pool", render_pool
    ),
    QConcat: Operator(lambda _: "concat", render_concat),
    QPick: Operator(lambda _: "pick", render_pick),
    QTable: Operator(lambda _: "table", render_table),
    QStored: Operator(lambda _: "stored", render_stored),
}
