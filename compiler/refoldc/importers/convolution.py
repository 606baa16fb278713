"""Conv and the BatchNormalization behind it."""

from __future__ import annotations

import numpy as np

from refoldc.errors import BadModel
from refoldc.importers.builder import Builder
from refoldc.importers.geometry import window
from refoldc.importers.registry import operator
from refoldc.importers.values import OnnxNode, Value, per_channel, reorder
from refoldc.ir import F32, BatchNorm, Conv, Pads


@operator("Conv")
def import_conv(builder: Builder, node: OnnxNode) -> None:
    """One- or two-dimensional, any groups, dilation and pads."""
    value = builder.image(node, padded=True)
    weights = builder.weights(node, 1, "weight tensor")
    if weights.ndim != len(value.dims) + 1:
        raise node.refuse(
            f"its weights have {weights.ndim} dimensions",
            "refold compiles one- and two-dimensional convolutions only",
        )
    if weights.ndim == 3:
        weights = weights[:, :, np.newaxis]
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
        given_scale=builder.given_scale(node, 1, channels),
    )
    dims = value.like(channels, frame.output(value.spatial))
    builder.emit(conv, node.outputs[0], dims, axes=value.axes)


def _check_channels(node: OnnxNode, weights: F32, value: Value, groups: int) -> None:
    outputs, inputs = weights.shape[:2]
    kernel = (1, *node.attributes.get("kernel_shape", weights.shape[2:]))[-2:]
    fits = groups > 0 and outputs % groups == 0 and inputs * groups == value.channels
    if not fits or kernel != weights.shape[2:] or not weights.size:
        raise BadModel(
            f"{node.where}: weights {list(weights.shape)}, group {groups} and "
            f"kernel_shape {list(kernel)} do not fit an input of {value.channels} "
            "channels: the model contradicts itself"
        )


def _sum(a: Pads, b: Pads) -> Pads:
    return a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]


@operator("BatchNormalization")
def import_batch_norm(builder: Builder, node: OnnxNode) -> None:
    """Part of the layer before it, else a scale and offset a channel."""
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
    if value.channel_dim != 0:
        raise node.refuse(
            "normalises another axis than the channels",
            "export the model channels-first throughout",
        )
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
    builder.emit(norm, node.outputs[0], value.dims, order=value.order, axes=value.axes)
