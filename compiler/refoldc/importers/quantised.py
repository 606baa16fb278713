"""QuantizeLinear and DequantizeLinear: their scales are kept for ``quantise``."""

from __future__ import annotations

from refoldc.given_scales import activation_quant, weight_scale
from refoldc.importers.builder import Builder
from refoldc.importers.registry import operator
from refoldc.importers.values import OnnxNode


@operator("QuantizeLinear", "DequantizeLinear")
def import_pair(builder: Builder, node: OnnxNode) -> None:
    """Scale and zero point of the int8 network; the pair itself computes nothing."""
    value = builder.view(node)
    scale = builder.constant(node, 1, "scale")
    found = activation_quant(scale, builder.constant(node, 2, "zero point"))
    if found is not None:
        builder.given.setdefault(value.name, found)
    elif value.name not in builder.given:
        builder.ignored[node.name] = "its scale is not one 8-bit scale for the tensor"
    builder.alias(node, value)


def note_weights(builder: Builder, node: OnnxNode) -> None:
    """Remember the scale of weights that a node dequantises at compile time."""
    operands = [builder.constants[name] for name in node.inputs if name]
    zero_point = operands[2] if len(operands) > 2 else None
    builder.weight_scales[node.outputs[0]] = weight_scale(operands[1], zero_point)
