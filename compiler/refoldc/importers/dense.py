"""Gemm and MatMul with constant weights, also at each position of a sequence."""

from __future__ import annotations

import numpy as np

from refoldc.errors import BadModel
from refoldc.importers.builder import Builder
from refoldc.importers.registry import operator
from refoldc.importers.values import CHANNELS, OnnxNode, Value, reorder
from refoldc.importers.views import LAYOUTS
from refoldc.ir import F32, Conv, Dense


@operator("Gemm")
def import_gemm(builder: Builder, node: OnnxNode) -> None:
    """alpha * x @ B + beta * C; x is not transposed."""
    if node.flag("transA"):
        raise node.refuse("transposes its input", "export it with transA=0")
    alpha = np.float32(node.attributes.get("alpha", 1.0))
    beta = np.float32(node.attributes.get("beta", 1.0))
    weights = _matrix(builder, node)
    if not node.flag("transB"):
        weights = weights.T
    outputs = weights.shape[0]
    bias = builder.optional_weights(node, 2, "bias")
    bias = np.zeros(outputs, np.float32) if bias is None else bias
    try:
        spread = np.broadcast_to(bias, (1, outputs))[0]
    except ValueError:
        raise node.refuse(
            f"its bias has shape {list(bias.shape)}",
            f"expected one number for each of the {outputs} outputs",
        ) from None
    with np.errstate(over="ignore", invalid="ignore"):  # judged by builder.emit
        weights, bias = alpha * weights, beta * spread
    _emit(builder, node, weights, bias)


@operator("MatMul")
def import_matmul(builder: Builder, node: OnnxNode) -> None:
    """By constant weights; on a sequence, the same product at each position."""
    left = builder.is_constant(node.input(0))
    value = builder.settled(builder.value(node, int(left)))
    weights = _matrix(builder, node, int(not left))
    if len(value.dims) > 1:
        _at_each_position(builder, node, value, weights if left else weights.T, left)
    elif left:
        raise node.refuse(
            "multiplies a matrix by a batch of vectors",
            "expected the constant second: export x @ w",
        )
    else:
        _emit(builder, node, weights.T, np.zeros(weights.shape[1], np.float32))


def _at_each_position(
    builder: Builder, node: OnnxNode, value: Value, weights: F32, left: bool
) -> None:
    """A 1x1 convolution over the axis that is summed over; weights [OUT, IN]."""
    dim = len(value.dims) - (2 if left else 1)
    if value.layout[dim] != CHANNELS:
        ways = [axes for axes in LAYOUTS[len(value.dims)] if axes[dim] == CHANNELS]
        ways = ways or [(0, 2, 1)]  # W @ x on three axes
        value = builder.settled(value, ways)
    outputs, inputs = weights.shape
    _check_inputs(node, inputs, value.dims[dim])
    conv = Conv(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
        weights=np.ascontiguousarray(weights.reshape(outputs, 1, 1, inputs)),
        bias=np.zeros(outputs, np.float32),
        given_scale=builder.given_scale(node, int(not left), outputs),
    )
    dims = (*value.dims[:dim], outputs, *value.dims[dim + 1 :])
    builder.emit(conv, conv.output, dims, axes=value.axes)


def _check_inputs(node: OnnxNode, inputs: int, found: int) -> None:
    if inputs != found:
        raise BadModel(
            f"{node.where}: weights for {inputs} inputs, but its input has {found}: "
            "the model contradicts itself"
        )


def _matrix(builder: Builder, node: OnnxNode, index: int = 1) -> F32:
    if node.input(index) in builder.values:
        raise node.refuse(
            "multiplies two computed tensors",
            "refold compiles products with constant weights only",
        )
    weights = builder.weights(node, index, "weight matrix")
    while weights.ndim > 2 and len(weights) == 1:
        weights = weights[0]
    if weights.ndim != 2:
        raise node.refuse(
            f"its weights have shape {list(weights.shape)}", "expected a matrix"
        )
    return weights


def _emit(builder: Builder, node: OnnxNode, weights: F32, bias: F32) -> None:
    """``weights`` [OUT, IN] in ONNX element order."""
    value = builder.value(node)
    if len(value.dims) != 1:
        raise node.refuse(
            f"its input has {len(value.dims) + 1} dimensions",
            "flatten it to batch x features first",
        )
    outputs, inputs = weights.shape
    _check_inputs(node, inputs, value.dims[0])
    dense = Dense(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
        weights=np.ascontiguousarray(reorder(weights, value.order), np.float32),
        bias=bias.astype(np.float32),
        given_scale=builder.given_scale(node, 1, outputs),
    )
    builder.emit(dense, node.outputs[0], (outputs,))
