"""Concat."""

from __future__ import annotations

from refoldc.importers.builder import Builder
from refoldc.importers.registry import operator
from refoldc.importers.values import UNSTORED, VECTOR, OnnxNode, Value
from refoldc.importers.views import LAYOUTS
from refoldc.ir import MAX_INPUTS, Concat


@operator("Concat")
def import_concat(builder: Builder, node: OnnxNode) -> None:
    """Along any axis but the batch; ranges may differ."""
    values = [builder.ordered(node, i) for i in range(len(node.inputs))]
    rank = len(values[0].dims) + 1
    axis = int(node.attributes.get("axis", 1)) % rank
    shapes = [v.dims[: axis - 1] + v.dims[axis:] for v in values]
    if axis == 0 or any(s != shapes[0] or len(s) + 2 != rank for s in shapes):
        raise node.refuse(
            f"joins {[list(v.dims) for v in values]} along axis {axis}",
            "refold keeps the batch apart, and joins tensors that differ in one axis",
        )
    values = _alike(builder, values, axis - 1)
    while len(values) > MAX_INPUTS:
        first = _join(builder, node, values[:MAX_INPUTS], axis - 1, inner=True)
        values = [first, *values[MAX_INPUTS:]]
    _join(builder, node, values, axis - 1)


def _alike(builder: Builder, values: list[Value], axis: int) -> list[Value]:
    """The tensors in one layout, in which ``axis`` is stored."""
    layout = values[0].layout
    if all(value.layout == layout for value in values) and layout[axis] != UNSTORED:
        return values
    rank = len(values[0].dims)
    full = (v.layout for v in values if rank == 1 or UNSTORED not in v.layout)
    common = VECTOR if rank == 1 else next(full, LAYOUTS[rank][0])
    return [builder.settled(value, (common,)) for value in values]


def _join(
    builder: Builder,
    node: OnnxNode,
    values: list[Value],
    axis: int,
    *,
    inner: bool = False,
) -> Value:
    name = builder.node_name(node)
    output = f"{node.outputs[0]}:{len(builder.nodes)}" if inner else node.outputs[0]
    dims = list(values[0].dims)
    dims[axis] = sum(value.dims[axis] for value in values)
    made = Concat(
        name=name,
        inputs=tuple(value.name for value in values),
        output=output,
        onnx_nodes=(node.name,),
        axis=values[0].layout[axis],
    )
    builder.emit(made, output, tuple(dims), axes=values[0].axes)
    return builder.values[output]
