"""Which function imports which operator, and what to say of all others."""

from __future__ import annotations

from collections.abc import Callable

from refoldc.errors import UnknownOp
from refoldc.importers.builder import Builder
from refoldc.importers.values import OnnxNode

Importer = Callable[[Builder, OnnxNode], None]

OPERATORS: dict[str, Importer] = {}
"""By ONNX operator name, default domain."""

_AS_PAIRS = (
    "compile the float model, or one quantised with QuantizeLinear and "
    "DequantizeLinear pairs (QDQ)"
)
_NOT_STATIC = "it normalises by statistics of each image; train with BatchNorm instead"

REMEDIES = {
    "LSTM": "recurrent networks are out of scope",
    "GRU": "recurrent networks are out of scope",
    "RNN": "recurrent networks are out of scope",
    "If": "export without control flow (torch.jit.trace, or a fixed branch)",
    "Loop": "export without control flow (unroll the loop)",
    "Scan": "export without control flow (unroll the loop)",
    "STFT": "compute the spectrogram before the network and give it as input",
    "DFT": "compute the spectrum before the network and give it as input",
    "QLinearConv": _AS_PAIRS,
    "QLinearMatMul": _AS_PAIRS,
    "ConvInteger": _AS_PAIRS,
    "MatMulInteger": _AS_PAIRS,
    "DynamicQuantizeLinear": _AS_PAIRS,
    "InstanceNormalization": _NOT_STATIC,
    "LayerNormalization": _NOT_STATIC,
    "GroupNormalization": _NOT_STATIC,
    "RMSNormalization": _NOT_STATIC,
    "LpNormalization": _NOT_STATIC,
    "ReduceL2": _NOT_STATIC,
    "NonMaxSuppression": "end the model at the boxes and choose among them after it",
    "TopK": "end the model before it and choose after it",
    "Attention": "refold compiles networks of convolutions and constant products",
}
"""What to do about operators that nothing imports."""
_GENERAL_REMEDY = "replace it before exporting, or end the model before it"


def operator(*names: str) -> Callable[[Importer], Importer]:
    """Register the function that imports these operators."""

    def register(function: Importer) -> Importer:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


def unsupported(node: OnnxNode) -> UnknownOp:
    """The error for an operator that nothing imports."""
    if node.domain:
        found = f"operator {node.op} of domain '{node.domain}' is not standard ONNX"
        return UnknownOp(f"{node.where}: {found}; export with standard operators only")
    remedy = REMEDIES.get(node.op, _GENERAL_REMEDY)
    return UnknownOp(f"{node.where}: operator {node.op} is not supported; {remedy}")
