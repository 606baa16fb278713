"""Gemm and MatMul with constant weights."""

from __future__ import annotations

import numpy as np

from refoldc.errors import BadModel
from refoldc.importers.builder import Builder, reorder
from refoldc.importers.registry import operator
from refoldc.importers.values import OnnxNode
from refoldc.ir import F32, Dense


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
    """x @ B; an Add of a constant behind it becomes the bias."""
    weights = _matrix(builder, node).T
    _emit(builder, node, weights, np.zeros(weights.shape[0], np.float32))


def _matrix(builder: Builder, node: OnnxNode) -> F32:
    if node.input(1) in builder.values:
        raise node.refuse(
            "multiplies two computed tensors",
            "refold compiles products with constant weights only",
        )
    weights = builder.weights(node, 1, "weight matrix")
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
    if inputs != value.dims[0]:
        raise BadModel(
            f"{node.where}: weights for {inputs} inputs, but its input has "
            f"{value.dims[0]}: the model contradicts itself"
        )
    dense = Dense(
        name=builder.node_name(node),
        inputs=(value.name,),
        output=node.outputs[0],
        onnx_nodes=(node.name,),
        weights=np.ascontiguousarray(reorder(weights, value.order), np.float32),
        bias=bias.astype(np.float32),
    )
    builder.emit(dense, node.outputs[0], (outputs,))
