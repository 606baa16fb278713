"""From each kind of float node to its integer layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from refoldc.errors import UnsupportedOp
from refoldc.formula import evaluate
from refoldc.input_spec import encode_tensor
from refoldc.ir import (
    F64,
    I16,
    Add,
    Clamp,
    Concat,
    ConcatPart,
    Conv,
    Dense,
    Mul,
    Node,
    Pick,
    Pointwise,
    Pool,
    QAdd,
    QConcat,
    QLayer,
    QMul,
    QPick,
    QPool,
    QStored,
    QTable,
    Quant,
    Requant,
    Stored,
)
from refoldc.pooling import average_requant, window_counts
from refoldc.quantise_context import Context, identity
from refoldc.quantise_weighted import quantise_conv, quantise_dense
from refoldc.requant import MULTIPLIER_MAX, clamp_bounds, fixed_point, round_half_up


def _add(node: Add, context: Context) -> tuple[QLayer, Quant]:
    a, b = (context.quants[name] for name in node.inputs)
    out = context.output_quant(node, max(a.scale, b.scale) / MULTIPLIER_MAX)
    zeros = np.array([a.zero_point, b.zero_point])

    def bias(m: I16, shift: int) -> F64:
        constant = round_half_up((out.zero_point + 0.5) * 2.0**shift)
        return np.asarray([constant - (m.astype(np.int64) * zeros).sum()])

    factors = np.array([a.scale, b.scale]) / out.scale
    m, total, shift = fixed_point(factors, bias, shifts=(0, 23))
    lo, hi = clamp_bounds(node.bounds, out)
    layer = QAdd(
        **identity(node),
        m1=int(m[0]),
        m2=int(m[1]),
        bias=int(total[0]),
        shift=shift,
        lo=lo,
        hi=hi,
    )
    return layer, out


def _mul(node: Mul, context: Context) -> tuple[QLayer, Quant]:
    a, b = (context.quants[name] for name in node.inputs)
    unit = a.scale * b.scale
    out = context.output_quant(node, unit / MULTIPLIER_MAX)

    def bias(_m: I16, shift: int) -> F64:
        return round_half_up([(out.zero_point + 0.5) * 2.0**shift])

    factor = np.array([unit / out.scale])
    m, constant, shift = fixed_point(factor, bias, shifts=(0, 31))
    lo, hi = clamp_bounds(node.bounds, out)
    layer = QMul(
        **identity(node),
        m=int(m[0]),
        bias=int(constant[0]),
        shift=shift,
        lo=lo,
        hi=hi,
    )
    return layer, out


def _pool(node: Pool, context: Context) -> tuple[QLayer, Quant]:
    source = context.quants[node.inputs[0]]
    if node.kind == "max":
        counts: tuple[int, ...] = ()
        out = source
        none = np.zeros(0, np.int64)
        lo, hi = clamp_bounds(node.bounds, out)
        requant = Requant(m=none.astype(np.int16), b=none, shift=0, lo=lo, hi=hi)
    else:
        shapes = context.graph.shapes
        covered = window_counts(
            shapes[node.inputs[0]],
            shapes[node.output],
            kernel=node.kernel,
            stride=node.stride,
            pads=node.pads,
            include_pad=node.include_pad,
        )
        counts = tuple(int(n) for n in np.unique(covered))
        out = context.output_quant(node, source.scale / min(counts) / MULTIPLIER_MAX)
        requant = average_requant(counts, source, out, node.bounds)
    layer = QPool(
        **identity(node),
        kind=node.kind,
        kernel=node.kernel,
        stride=node.stride,
        pads=node.pads,
        include_pad=node.include_pad,
        counts=counts,
        requant=requant,
    )
    return layer, out


def _concat(node: Concat, context: Context) -> tuple[QLayer, Quant]:
    sources = [context.quants[name] for name in node.inputs]
    least = max(source.scale for source in sources) / MULTIPLIER_MAX
    out = context.output_quant(node, least)
    parts = tuple(_rescale(source, out) for source in sources)
    return QConcat(**identity(node), axis=node.axis, parts=parts), out


def _rescale(source: Quant, out: Quant) -> ConcatPart:
    """From one scale to another; the identity where they are equal."""

    def bias(m: I16, shift: int) -> F64:
        constant = round_half_up((out.zero_point + 0.5) * 2.0**shift)
        return np.asarray(constant - m.astype(np.int64) * source.zero_point)

    factor = np.array([source.scale / out.scale])
    m, constant, shift = fixed_point(factor, bias, shifts=(0, 23))
    return ConcatPart(m=int(m[0]), bias=int(constant[0]), shift=shift)


def _pick(node: Pick, context: Context) -> tuple[QLayer, Quant]:
    """In the scale of its input, in which the fill must be a stored value."""
    out = context.quants[node.inputs[0]]
    fill = out.zero_point + round(node.fill / out.scale)
    if any((positions < 0).any() for positions in node.index) and abs(fill) > 128:
        low, high = (out.scale * (q - out.zero_point) for q in (-128, 127))
        raise UnsupportedOp(
            f"node '{node.name}': pads with {node.fill:g}, outside the range of what "
            f"it pads, {low:g} to {high:g}: pad with a value that the tensor takes"
        )
    stored = int(np.clip(fill, -128, 127))
    return QPick(**identity(node), index=node.index, fill=stored, view=node.view), out


def _stored(node: Stored, context: Context) -> tuple[QLayer, Quant]:
    out = context.output_quant(node)
    return QStored(**identity(node), values=encode_tensor(node.values, out)), out


def _clamp(node: Clamp, context: Context) -> tuple[QLayer, Quant]:
    real = _table_inputs(context.quants[node.inputs[0]])
    bounded = np.clip(real, node.bounds.low, node.bounds.high)
    return _table(node, np.asarray(bounded[np.newaxis], np.float64), context)


def _pointwise(node: Pointwise, context: Context) -> tuple[QLayer, Quant]:
    real = _table_inputs(context.quants[node.inputs[0]])
    return _table(node, evaluate(node.formula, real), context)


def _table_inputs(source: Quant) -> F64:
    """The real value of each int8 one."""
    stored = np.arange(-128, 128, dtype=np.float64)
    return np.asarray(source.scale * (stored - source.zero_point))


def _table(
    node: Clamp | Pointwise, real: F64, context: Context
) -> tuple[QLayer, Quant]:
    """Real results [C, 256] as a table; undefined ones are stored as zero."""
    out = context.output_quant(node)
    steps = np.clip(np.nan_to_num(real / out.scale, nan=0.0), -1e6, 1e6)
    stored = np.clip(out.zero_point + round_half_up(steps), -128, 127)
    return QTable(**identity(node), table=stored.astype(np.int8)), out


RULES: Mapping[type[Node], Callable[[Any, Context], tuple[QLayer, Quant]]] = {
    Conv: quantise_conv,
    Dense: quantise_dense,
    Add: _add,
    Mul: _mul,
    Pool: _pool,
    Concat: _concat,
    Pick: _pick,
    Clamp: _clamp,
    Pointwise: _pointwise,
    Stored: _stored,
}
