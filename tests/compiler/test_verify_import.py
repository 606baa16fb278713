"""The check of an import notices what differs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from models import ModelBuilder, small_classifier

from refoldc.errors import BadModel
from refoldc.fold import fold
from refoldc.importer import import_proto
from refoldc.ir import Conv
from refoldc.verify_import import verify_import


def test_a_changed_weight_is_noticed() -> None:
    """One bias that is wrong raises as a bug, not as a user's error."""
    model = small_classifier()
    graph = fold(import_proto(model, "net"))
    first = graph.nodes[0]
    assert isinstance(first, Conv)
    wrong = replace(first, bias=first.bias + np.float32(0.1))
    with pytest.raises(RuntimeError, match="bug of refold"):
        verify_import(model, replace(graph, nodes=(wrong, *graph.nodes[1:])))


def test_another_output_shape_is_noticed() -> None:
    """Results of different sizes raise rather than broadcast."""
    b = ModelBuilder((1, 4, 4))
    two = b.conv("x", 2)
    graph = import_proto(b.model(two), "net")
    other = b.model(b.conv("x", 3))
    output = replace(graph.main, onnx=other.graph.output[0].name)
    with pytest.raises(RuntimeError, match="shape"):
        verify_import(other, replace(graph, outputs=(output,)))


def test_a_model_that_does_not_run() -> None:
    """What ONNX Runtime refuses is the model's fault, in one line."""
    same, padded = (ModelBuilder((1, 8, 8)) for _ in range(2))
    model = same.model(same.conv("x", 2, auto_pad="SAME_UPPER", dilations=[2, 2]))
    y = padded.conv("x", 2, pads=[2] * 4, dilations=[2, 2])
    with pytest.raises(BadModel, match="ONNX Runtime does not"):
        verify_import(model, import_proto(padded.model(y), "net"))


def test_a_model_that_overflows() -> None:
    """NaN equals nothing; the model is at fault, not its import."""
    b = ModelBuilder((1, 8, 8))
    model = b.model(b.op("Conv", "x", b.const(np.full((2, 1, 3, 3), 3e38), np.float32)))
    with pytest.raises(BadModel, match="answers NaN or infinity"):
        verify_import(model, import_proto(model, "net"))
