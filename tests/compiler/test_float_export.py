"""The float graph as ONNX: any tensor can be asked for, before its activation too."""

from __future__ import annotations

import numpy as np
from models import ModelBuilder, small_classifier

from refoldc.float_export import (
    before_activation,
    channels_first,
    float_model,
    open_session,
)
from refoldc.fold import fold
from refoldc.importer import import_proto


def test_extra_outputs_equal_the_original_tensors() -> None:
    """A tensor before and after its activation is that of the original model."""
    model = small_classifier()
    graph = fold(import_proto(model, "net"))
    conv = graph.nodes[0]
    names = [before_activation(conv), conv.output]
    x = np.random.default_rng(0).standard_normal((5, 3, 8, 8), np.float32)
    session = open_session(float_model(graph, names))
    linear, active = session.run(names, {"x": x})
    np.testing.assert_array_equal(np.maximum(linear, 0), active)
    model.graph.output[0].name = conv.output
    (want,) = open_session(model).run([conv.output], {"x": x})
    np.testing.assert_allclose(active, want, rtol=1e-4, atol=1e-5)


def test_a_tensor_without_activation_has_one_name() -> None:
    """There is nothing before it."""
    b = ModelBuilder((1, 3, 3))
    graph = fold(import_proto(b.model(b.conv("x", 2)), "net"))
    assert graph.output == before_activation(graph.nodes[0])


def test_channels_first() -> None:
    """Images are transposed, vectors are not."""
    assert (2, 5, 3, 4) == channels_first(np.zeros((2, 3, 4, 5))).shape
    assert (2, 5) == channels_first(np.zeros((2, 5))).shape
