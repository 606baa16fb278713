"""Models that are quantised already: QuantizeLinear and DequantizeLinear pairs.

Their scales and zero points become those of the integer network, so that it is
theirs. The float graph, which calibration runs, leaves the pairs out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from refoldc.ir import F64, Quant

PAIR = frozenset({"QuantizeLinear", "DequantizeLinear"})


def without_pairs(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model as floats: computed tensors pass the pairs unchanged."""
    if not any(node.op_type in PAIR for node in model.graph.node):
        return model
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    del plain.graph.value_info[:]
    known = {tensor.name for tensor in plain.graph.initializer}
    for node in plain.graph.node:
        if known.issuperset(name for name in node.input if name):
            known.update(node.output)
        elif node.op_type in PAIR:
            node.op_type = "Identity"
            del node.input[1:]
            del node.attribute[:]
    return plain


def activation_quant(
    scale: NDArray[Any] | None, zero_point: NDArray[Any] | None
) -> Quant | None:
    """As int8: uint8 is the same 128 lower. None where it is no 8-bit scale.

    >>> activation_quant(np.array(0.5), np.array(128, np.uint8))
    Quant(scale=0.5, zero_point=0)
    """
    if scale is None or scale.size != 1 or not 0 < float(scale.reshape(())) < np.inf:
        return None
    zero = np.zeros((), np.uint8) if zero_point is None else zero_point
    if zero.size != 1 or zero.dtype not in (np.int8, np.uint8):
        return None
    shift = 128 if zero.dtype == np.uint8 else 0
    return Quant(float(scale.reshape(())), int(zero.reshape(())) - shift)


def weight_scale(scale: NDArray[Any], zero_point: NDArray[Any] | None) -> F64 | None:
    """Of symmetric int8 weights, one number or one a channel; else None."""
    symmetric = zero_point is not None and zero_point.dtype == np.int8
    scales = np.ravel(scale).astype(np.float64)
    usable = bool(((scales > 0) & np.isfinite(scales)).all())
    return scales if symmetric and not np.any(zero_point) and usable else None
