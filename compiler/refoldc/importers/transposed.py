"""ConvTranspose: zeros between the pixels, then a plain convolution.

Both steps are exact, and the second may be a recalibration site as any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from refoldc.errors import BadModel
from refoldc.importers.builder import Builder
from refoldc.importers.geometry import Pair, pair
from refoldc.importers.registry import operator
from refoldc.importers.values import OnnxNode, Value, per_channel
from refoldc.ir import F32, I64, Conv, Pads


@operator("ConvTranspose")
def import_conv_transpose(builder: Builder, node: OnnxNode) -> None:
    """Zeros between the pixels, then a convolution with the kernel turned round."""
    value = builder.image(node)
    weights = builder.weights(node, 1, "weight tensor")
    if weights.ndim != len(value.dims) + 1:
        raise node.refuse(
            f"its weights have {weights.ndim} dimensions",
            "refold compiles one- and two-dimensional convolutions only",
        )
    weights = weights[:, :, np.newaxis] if weights.ndim == 3 else weights
    groups = int(node.attributes.get("group", 1))
    if groups < 1 or weights.shape[0] != value.channels or weights.shape[0] % groups:
        raise BadModel(
            f"{node.where}: weights {list(weights.shape)} and group {groups} do not "
            f"fit an input of {value.channels} channels: the model contradicts itself"
        )
    kernel = (weights.shape[2], weights.shape[3])
    stretch = _stretch(node, kernel, (value.shape[0], value.shape[1]))
    spread = _spread(builder, node, value, stretch)
    turned = _turned(weights, groups)
    bias = builder.optional_weights(node, 2, "bias")
    channels = len(turned)
    bias = np.zeros(channels, np.float32) if bias is None else bias
    conv = Conv(
        name=builder.node_name(node),
        inputs=(spread.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
        weights=turned,
        bias=per_channel(node, bias, channels, "bias").astype(np.float32),
        dilation=stretch.dilation,
        pads=stretch.pads,
        groups=groups,
        given_scale=builder.given_scale(node, 1, channels if groups == 1 else 1),
    )
    builder.emit(conv, conv.output, value.like(channels, stretch.output))


def _turned(weights: F32, groups: int) -> F32:
    """[C_IN, C_OUT / groups, KH, KW] to [C_OUT, KH, KW, C_IN / groups], mirrored."""
    inputs, outputs, height, width = weights.shape
    split = weights.reshape(groups, inputs // groups, outputs, height, width)
    moved = split[..., ::-1, ::-1].transpose(0, 2, 3, 4, 1)
    shape = (groups * outputs, height, width, inputs // groups)
    return np.ascontiguousarray(moved).reshape(shape)


@dataclass(frozen=True)
class _Stretch:
    """What makes a transposed convolution a plain one of stride 1.

    Attributes:
        rows, columns: Positions of the input to read, -1 for a zero; the pads that
            are negative are cut off already.
        dilation, pads: Of the convolution.
        output: (H, W).
    """

    rows: I64
    columns: I64
    dilation: Pair
    pads: Pads
    output: Pair


def _stretch(node: OnnxNode, kernel: Pair, size: Pair) -> _Stretch:
    stride, dilation = pair(node, "strides", (1, 1)), pair(node, "dilations", (1, 1))
    extra = pair(node, "output_padding", (0, 0))
    if tuple((1, *node.attributes.get("kernel_shape", kernel))[-2:]) != kernel:
        raise BadModel(f"{node.where}: kernel_shape differs from the weights' {kernel}")
    if min(*stride, *dilation) < 1 or min(extra) < 0:
        raise BadModel(f"{node.where}: strides and dilations must be positive")
    reach = tuple((kernel[i] - 1) * dilation[i] + 1 for i in (0, 1))
    whole = tuple(stride[i] * (size[i] - 1) + reach[i] + extra[i] for i in (0, 1))
    cut = _cut(node, whole, tuple(size[i] * stride[i] for i in (0, 1)))
    lines, pads = [], []
    for i in (0, 1):
        line = np.full((size[i] - 1) * stride[i] + 1, -1)
        line[:: stride[i]] = np.arange(size[i])
        before = reach[i] - 1 - cut[i][0]
        after = reach[i] - 1 - cut[i][1] + extra[i]
        lines.append(line[max(0, -before) : len(line) - max(0, -after)])
        pads.append((max(0, before), max(0, after)))
    height, width = (whole[i] - sum(cut[i]) for i in (0, 1))
    (top, bottom), (left, right) = pads
    ends = (top, left, bottom, right)
    return _Stretch(lines[0], lines[1], dilation, ends, (height, width))


def _cut(node: OnnxNode, whole: tuple[int, ...], same: tuple[int, ...]) -> list[Pair]:
    """What is cut off the full result before and after, for height and width."""
    mode = node.attributes.get("auto_pad", "NOTSET")
    wanted = node.attributes.get("output_shape")
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise BadModel(f"{node.where}: auto_pad '{mode}' is not an ONNX value")
    if wanted is None and mode.startswith("SAME"):
        wanted = same
    if wanted is not None:
        target = (1, *wanted)[-2:] if len(wanted) < 3 else tuple(wanted[-2:])
        totals = [whole[i] - int(target[i]) for i in (0, 1)]
        # Where more is wanted than there is, ONNX Runtime adds it at the end.
        less = [total // 2 if total > 0 else total for total in totals]
        more = [total - a for total, a in zip(totals, less, strict=True)]
        if mode == "SAME_UPPER" and min(totals) >= 0:
            return list(zip(less, more, strict=True))
        return list(zip(more, less, strict=True))
    if mode == "VALID":
        return [(0, 0), (0, 0)]
    pads = [int(p) for p in node.attributes.get("pads", (0, 0, 0, 0))]
    pads = [0, pads[0], 0, pads[1]] if len(pads) == 2 else pads
    if len(pads) != 4 or min(pads) < 0:
        raise node.refuse(f"pads are {pads}", "expected four numbers, none negative")
    return [(pads[0], pads[2]), (pads[1], pads[3])]


def _spread(builder: Builder, node: OnnxNode, value: Value, stretch: _Stretch) -> Value:
    """The input with zeros between its pixels."""
    index = {
        value.layout.index(axis): line
        for axis, line in ((0, stretch.rows), (1, stretch.columns))
        if not np.array_equal(line, np.arange(value.shape[axis]))
    }
    name = f"{node.outputs[0]}:spread"
    builder.pick(node, value, index, output=name)
    return builder.values[name]
