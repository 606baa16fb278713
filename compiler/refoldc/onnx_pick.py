"""A Pick as ONNX nodes, for the float graph and the QDQ export alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from refoldc.ir import I64


def pick_nodes(
    source: str,
    output: str,
    index: Sequence[I64],
    sizes: Sequence[int],
    fill: float,
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Gather along every axis that changes, over a tensor one element longer.

    Args:
        source, output: Names; channels first.
        index: Positions for each channel-last axis, -1 for ``fill``.
        sizes: Of the source, channel-last.
        fill: Real.

    Returns:
        Nodes of opset 13 or later, and their constants.
    """
    rank = len(index)
    if len(sizes) < rank:
        return _pick_view(source, output, index)
    axes = [1 + (i + 1) % rank for i in range(rank)]
    constants = []

    def constant(name: str, values: object, kind: type) -> str:
        constants.append(numpy_helper.from_array(np.array(values, kind), name))
        return name

    steps: list[tuple[str, list[str], dict[str, Any]]] = []
    longer = [0] * (rank + 1)
    for axis, positions, size in zip(axes, index, sizes, strict=True):
        longer[axis] = int((positions < 0).any())
        if not np.array_equal(positions, np.arange(size)):
            taken = np.where(positions < 0, size, positions)
            name = constant(f"{output}:index{axis}", taken, np.int64)
            steps.append(("Gather", [name], {"axis": axis}))
    if any(longer):
        pads = constant(f"{output}:pads", [0] * (rank + 1) + longer, np.int64)
        steps.insert(
            0, ("Pad", [pads, constant(f"{output}:fill", fill, np.float32)], {})
        )
    nodes = []
    for number, (op, operands, attributes) in enumerate(
        steps or [("Identity", [], {})]
    ):
        result = output if number + 1 >= len(steps) else f"{output}:step{number}"
        nodes.append(helper.make_node(op, [source, *operands], [result], **attributes))
        source = result
    return nodes, constants


def _pick_view(
    source: str, output: str, index: Sequence[I64]
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """A vector in (H, W, C) order as an image, which is all that it can become."""
    shape = np.array([0, *map(len, index)], np.int64)
    constant = numpy_helper.from_array(shape, f"{output}:shape")
    last = f"{output}:nhwc"
    nodes = [
        helper.make_node("Reshape", [source, constant.name], [last]),
        helper.make_node("Transpose", [last], [output], perm=[0, 3, 1, 2]),
    ]
    return nodes, [constant]
