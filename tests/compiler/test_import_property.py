"""Random networks: what is imported and folded computes what ONNX Runtime does."""

from __future__ import annotations

import onnx
from hypothesis import HealthCheck, given, settings
from strategies import onnx_models

from refoldc.fold import fold
from refoldc.importer import import_proto
from refoldc.ir import (
    Add,
    Clamp,
    Concat,
    Conv,
    Dense,
    Mul,
    Pick,
    Pointwise,
    Pool,
    Stored,
)
from refoldc.verify_import import TOLERANCE, verify_import

KINDS = (Conv, Dense, Add, Mul, Pool, Concat, Pick, Clamp, Pointwise, Stored)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(onnx_models())
def test_import_and_fold_preserve_the_function(model: onnx.ModelProto) -> None:
    """Both graphs equal the original, and the folded one has layers only."""
    graph = import_proto(model, "random")
    folded = fold(graph)
    assert verify_import(model, graph) <= TOLERANCE
    assert verify_import(model, folded) <= TOLERANCE
    assert all(isinstance(node, KINDS) for node in folded.nodes)
