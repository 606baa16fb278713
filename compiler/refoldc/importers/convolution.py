"""Conv, the Pad before it and the BatchNormalization behind it."""

from __future__ import annotations

import numpy as np

from refoldc.errors import BadModel
from refoldc.importers.builder import Builder, OnnxNode, Value, per_channel, reorder
from refoldc.importers.geometry import window
from refoldc.importers.registry import operator
from refoldc.ir import F32, BatchNorm, Conv, Pads


@operator("Conv")
def import_conv(builder: Builder, node: OnnxNode) -> None:
    """Two-dimensional, any groups, dilation and pads."""
    value = builder.image(node, padded=True)
    weights = builder.weights(node, 1, "weight tensor")
    if weights.ndim != 4:
        raise node.refuse(
            f"its weights have {weights.ndim} dimensions",
            "refold compiles two-dimensional convolutions only",
        )
    groups = int(node.attributes.get("group", 1))
    _check_channels(node, weights, value, groups)
    frame = window(node, value.spatial, (weights.shape[2], weights.shape[3]))
    bias = builder.optional_weights(node, 2, "bias")
    channels = weights.shape[0]
    if bias is None:
        bias = np.zeros(channels, np.float32)
    conv = Conv(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
        weights=np.ascontiguousarray(weights.transpose(0, 2, 3, 1)),
        bias=per_channel(node, bias, channels, "bias").astype(np.float32),
        stride=frame.stride,
        dilation=frame.dilation,
        pads=_sum(value.pads, frame.pads),
        groups=groups,
    )
    builder.emit(conv, node.outputs[0], (channels, *frame.output(value.spatial)))


def _check_channels(node: OnnxNode, weights: F32, value: Value, groups: int) -> None:
    outputs, inputs = weights.shape[:2]
    kernel = tuple(node.attributes.get("kernel_shape", weights.shape[2:]))
    fits = groups > 0 and outputs % groups == 0 and inputs * groups == value.dims[0]
    if not fits or kernel != weights.shape[2:] or not weights.size:
        raise BadModel(
            f"{node.where}: weights {list(weights.shape)}, group {groups} and "
            f"kernel_shape {list(kernel)} do not fit an input of {value.dims[0]} "
            "channels: the model contradicts itself"
        )


@operator("Pad")
def import_pad(builder: Builder, node: OnnxNode) -> None:
    """Leave constant zero padding to the convolution behind it."""
    value = builder.image(node, padded=True)
    mode = node.attributes.get("mode", "constant")
    fill = _pad_value(builder, node)
    if mode != "constant" or fill:
        raise node.refuse(
            f"pads with mode '{mode}', value {fill:g}",
            "refold compiles constant padding with zero only",
        )
    pads = _sum(value.pads, _pad_amounts(builder, node))
    pending = Value(value.name, value.dims, value.order, pads, node.name)
    builder.alias(node, pending)


def _pad_value(builder: Builder, node: OnnxNode) -> float:
    if builder.opset < 11:
        return float(node.attributes.get("value", 0.0))
    fill = builder.constant(node, 2, "padding value")
    return 0.0 if fill is None or not fill.size else float(fill.reshape(-1)[0])


def _pad_amounts(builder: Builder, node: OnnxNode) -> Pads:
    """H and W pads of a Pad node; negative, batch and channel pads are refused."""
    if builder.opset < 11:
        pads = list(node.attributes.get("pads", ()))
    else:
        given = builder.constant(node, 1, "pads")
        pads = [] if given is None else given.reshape(-1).tolist()
    axes = builder.constant(node, 3, "axes")
    which = list(range(4)) if axes is None else [int(a) % 4 for a in axes.reshape(-1)]
    begin, end = [0] * 4, [0] * 4
    if len(pads) != 2 * len(which):
        raise BadModel(f"{node.where}: {len(pads)} pads for {len(which)} axes")
    for axis, before, after in zip(which, pads, pads[len(which) :], strict=False):
        begin[axis], end[axis] = int(before), int(after)
    if any(begin[:2] + end[:2]) or min(begin + end) < 0:
        raise node.refuse(
            f"its pads are {pads}", "refold pads height and width only, never crops"
        )
    return begin[2], begin[3], end[2], end[3]


def _sum(a: Pads, b: Pads) -> Pads:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


@operator("BatchNormalization")
def import_batch_norm(builder: Builder, node: OnnxNode) -> None:
    """In inference mode; the folding is ``fold``'s work."""
    value = builder.value(node)
    training = node.flag("training_mode") or any(node.outputs[1:])
    if training:
        raise node.refuse(
            "is in training mode",
            "call model.eval() and export again with "
            "training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False",
        )
    if not node.flag("spatial", default=True):
        raise node.refuse("has spatial=0", "refold needs one statistic a channel")
    gamma, beta, mean, variance = (
        reorder(
            per_channel(node, builder.weights(node, i, what), value.dims[0], what),
            value.order,
        )
        for i, what in enumerate(("scale", "bias", "mean", "variance"), start=1)
    )
    epsilon = float(node.attributes.get("epsilon", 1e-5))
    if not (np.isfinite(epsilon) and (variance + epsilon > 0).all()):
        raise BadModel(
            f"{node.where}: divides by the root of variance + epsilon, which is not "
            f"positive (least variance {variance.min():g}, epsilon {epsilon:g}): the "
            "file is damaged, or a channel is dead and epsilon 0: give it an epsilon"
        )
    norm = BatchNorm(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
        gamma=gamma,
        beta=beta,
        mean=mean,
        variance=variance,
        epsilon=epsilon,
    )
    builder.emit(norm, node.outputs[0], value.dims, order=value.order)
