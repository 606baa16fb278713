"""Which function imports which operator, and what to say of all others."""

from __future__ import annotations

from collections.abc import Callable

from refoldc.errors import UnsupportedOp
from refoldc.importers.builder import Builder
from refoldc.importers.values import OnnxNode

Importer = Callable[[Builder, OnnxNode], None]

OPERATORS: dict[str, Importer] = {}
"""By ONNX operator name, default domain."""

REMEDIES = {
    "LSTM": "recurrent networks are out of scope",
    "GRU": "recurrent networks are out of scope",
    "RNN": "recurrent networks are out of scope",
    "If": "export without control flow (torch.jit.trace, or a fixed branch)",
    "Loop": "export without control flow (unroll the loop)",
    "Scan": "export without control flow (unroll the loop)",
    "STFT": "compute the spectrogram before the network and give it as input",
    "DFT": "compute the spectrum before the network and give it as input",
    "QuantizeLinear": "compile the float model; refold quantises it itself",
    "DequantizeLinear": "compile the float model; refold quantises it itself",
    "QLinearConv": "compile the float model; refold quantises it itself",
    "QLinearMatMul": "compile the float model; refold quantises it itself",
    "ConvInteger": "compile the float model; refold quantises it itself",
    "MatMulInteger": "compile the float model; refold quantises it itself",
}
"""What to do about operators that nothing imports."""
_GENERAL_REMEDY = "replace it before exporting, or end the model before it"


def operator(*names: str) -> Callable[[Importer], Importer]:
    """Register the function that imports these operators."""

    def register(function: Importer) -> Importer:
        OPERATORS.update(dict.fromkeys(names, function))
        return function

    return register


def unsupported(node: OnnxNode) -> UnsupportedOp:
    """The error for an operator that nothing imports."""
    if node.domain:
        return node.refuse(
            f"operator {node.op} of domain '{node.domain}' is not standard ONNX",
            "export with standard operators only",
        )
    remedy = REMEDIES.get(node.op, _GENERAL_REMEDY)
    return node.refuse(f"operator {node.op} is not supported", remedy)
