"""Channels-last exports, one-dimensional networks, and axes that come and go."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from agreement import check
from models import ModelBuilder

from refoldc.errors import UnsupportedOp
from refoldc.fold import fold
from refoldc.importer import import_model, import_proto
from refoldc.ir import Concat, Conv, Dense, Pick

CLOSE = 0.04
EXPORT = 0.012
"""As for element-wise operators."""

TO_FIRST, TO_LAST = [0, 3, 1, 2], [0, 2, 3, 1]
Build = Callable[[ModelBuilder], str]


def integers(b: ModelBuilder, *values: int) -> str:
    """An int64 initializer."""
    return b.const(list(values), np.int64)


def keras(b: ModelBuilder) -> str:
    """As tf2onnx writes it: normalise, transpose, convolve, add a bias, flatten."""
    x = b.op("Mul", b.op("Sub", "x", b.const(0.5, np.float32)), b.random(3))
    y = b.op("Conv", b.op("Transpose", x, perm=TO_FIRST), b.random(4, 3, 3, 3))
    y = b.op("Relu", b.op("Add", y, b.random(1, 4, 1, 1)))
    y = b.op("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])
    y = b.op("Transpose", y, perm=TO_LAST)
    return b.gemm(b.op("Reshape", y, integers(b, -1, 36)), 3)


def keras_bias(b: ModelBuilder) -> str:
    """Bias and mean while the channels are last."""
    y = b.op("Conv", b.op("Transpose", "x", perm=TO_FIRST), b.random(4, 3, 3, 3))
    y = b.op("Relu", b.op("Add", b.op("Transpose", y, perm=TO_LAST), b.random(4)))
    return b.gemm(b.op("ReduceMean", y, axes=[1, 2], keepdims=0), 3)


def keras_image(b: ModelBuilder) -> str:
    """The output is channels-last too."""
    y = b.op("Conv", b.op("Transpose", "x", perm=TO_FIRST), b.random(4, 3, 3, 3))
    return b.op("Transpose", y, perm=TO_LAST)


def signal(b: ModelBuilder) -> str:
    """A causal dilated convolution, a pool, a matrix product."""
    y = b.op("Pad", "x", integers(b, 0, 0, 2, 0, 0, 0))
    y = b.op("Conv", y, b.random(6, 4, 2), b.random(6), dilations=[2])
    y = b.op("AveragePool", b.op("Tanh", y), kernel_shape=[3], strides=[2], pads=[1, 0])
    return b.gemm(b.op("Flatten", y), 3)


def signal_mean(b: ModelBuilder) -> str:
    """Batch normalisation and the mean over time, its axis squeezed away."""
    y = b.batch_norm(b.op("Conv", "x", b.random(6, 4, 3), pads=[1, 1], strides=[2]))
    pooled = b.op("GlobalAveragePool", b.op("Relu", y))
    return b.gemm(b.op("Squeeze", pooled, integers(b, 2)), 3)


def vector_to_image(b: ModelBuilder) -> str:
    """A flat input that is an image."""
    return b.conv(b.op("Reshape", "x", integers(b, -1, 2, 4, 4)), 3)


def vector_to_signal(b: ModelBuilder) -> str:
    """A flat input that is a signal of one channel."""
    y = b.op("Unsqueeze", "x", integers(b, 1))
    return b.op("Conv", y, b.random(3, 1, 5), b.random(3))


def image_to_signal(b: ModelBuilder) -> str:
    """Height and width become one axis."""
    y = b.op("Reshape", b.conv("x", 4), integers(b, 0, 4, -1))
    return b.op("Conv", y, b.random(3, 4, 2), b.random(3))


def excite(b: ModelBuilder) -> str:
    """Squeeze and excite through matrix products and a reshape."""
    x = b.conv("x", 5)
    pooled = b.op("Flatten", b.op("GlobalAveragePool", x))
    gate = b.op("Sigmoid", b.gemm(b.op("Relu", b.gemm(pooled, 3)), 5))
    return b.op("Mul", x, b.op("Reshape", gate, integers(b, -1, 5, 1, 1)))


CASES: dict[str, tuple[tuple[int, ...], Build]] = {
    "keras": ((8, 8, 3), keras),
    "keras bias": ((8, 8, 3), keras_bias),
    "keras image": ((8, 8, 3), keras_image),
    "signal": ((4, 17), signal),
    "signal mean": ((4, 17), signal_mean),
    "vector to image": ((32,), vector_to_image),
    "vector to signal": ((32,), vector_to_signal),
    "image to signal": ((3, 7, 6), image_to_signal),
    "excite": ((3, 7, 6), excite),
}


@pytest.mark.parametrize("name", CASES)
def test_agreement(name: str, tmp_path: Path) -> None:
    """C equals the reference; int8 and export are near ONNX Runtime."""
    shape, build = CASES[name]
    b = ModelBuilder(shape, opset=13)
    found = check(b.model(build(b)), tmp_path)
    assert found.int8 <= CLOSE
    assert found.exported <= EXPORT


def test_transposes_cost_nothing() -> None:
    """Of a channels-last network only convolution, pool and product are left."""
    b = ModelBuilder((8, 8, 3), opset=13)
    graph = fold(import_proto(b.model(keras(b)), "net"))
    kinds = [type(node).__name__ for node in graph.nodes]
    assert ["Conv", "Conv", "Pool", "Dense"] == kinds  # the first one normalises
    assert (8, 8, 3) == graph.shapes[graph.input]
    assert not any(isinstance(node, Pick) for node in graph.nodes)


def test_channels_first_input_stays_so() -> None:
    """A transpose somewhere behind says nothing about the input."""
    b = ModelBuilder((3, 8, 6), opset=13)
    y = b.op("Transpose", b.conv("x", 4), perm=TO_LAST)
    graph = import_proto(b.model(b.gemm(b.op("Flatten", y), 2)), "net")
    assert (8, 6, 3) == graph.shapes[graph.input]
    assert isinstance(graph.nodes[0], Conv)
    assert isinstance(graph.nodes[-1], Dense)


def moved_batch(b: ModelBuilder) -> str:
    """The batch becomes another axis."""
    return b.op("Transpose", b.conv("x", 4), perm=[1, 0, 2, 3])


REFUSED: dict[str, tuple[Build, str]] = {
    "batch": (moved_batch, "moves the batch"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_layouts(name: str) -> None:
    """What no view of the stored tensor can give is refused with its reason."""
    build, message = REFUSED[name]
    b = ModelBuilder((3, 4, 4), opset=13)
    with pytest.raises(UnsupportedOp, match=message):
        import_proto(b.model(build(b)), "net")


@pytest.mark.parametrize(
    "file", ["36_espdl_streaming_s3.onnx", "39_mesonet_bn_after_relu.onnx"]
)
def test_public_models_on_the_device(file: str, shared: Path, tmp_path: Path) -> None:
    """A streaming wake word and a Keras detector: C equals the reference."""
    model = onnx.load(shared / "models/third_party" / file)
    del model.graph.value_info[:]
    found = check(model, tmp_path, images=None)
    assert found.int8 <= 0.1
    assert found.exported <= 0.05


def test_normalisation_behind_an_activation_is_no_site(shared: Path) -> None:
    """The user is told once for each, by name."""
    path = shared / "models/third_party/39_mesonet_bn_after_relu.onnx"
    graph = fold(import_model(path))
    told = [text for text in graph.notices if "is no recalibration site" in text]
    assert 4 == len(told)
    assert not any(isinstance(node, Concat) for node in graph.nodes)
