"""Hypothesis strategies for random small ONNX networks."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import strategies as st
from models import ModelBuilder

MAX_CHANNELS = 40
MAX_LAYERS = 5
LARGEST_TO_GROW = 200
"""Pixels."""
FUNCTIONS = ["Sigmoid", "Tanh", "LeakyRelu", "HardSigmoid", "Swish", "Scale"]


@st.composite
def onnx_models(draw: st.DrawFn) -> onnx.ModelProto:
    """A network of convolutions, sums, pools and activations, then a head."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(5, 13), st.integers(5, 13)))
    builder = ModelBuilder(
        shape,
        opset=draw(st.integers(7, 23)),
        batch=draw(st.sampled_from(["N", 1, 3])),
        seed=draw(st.integers(0, 2**16)),
    )
    x = "x"
    for _ in range(draw(st.integers(1, MAX_LAYERS))):
        x = draw(
            st.sampled_from(
                [
                    *(conv, conv, residual, pool, activation, gated, joined, moved),
                    *(deconv, rearranged),
                ]
            )
        )(draw, builder, x)
    return builder.model(draw(st.sampled_from([head, image_head]))(draw, builder, x))


def conv(draw: st.DrawFn, b: ModelBuilder, x: str) -> str:
    """Any convolution, perhaps normalised, perhaps padded by a Pad node."""
    channels, height, width = b.dims(x)
    groups = draw(
        st.sampled_from([g for g in (1, 1, 2, 3, channels) if channels % g == 0])
    )
    outputs = groups * draw(st.integers(1, max(1, MAX_CHANNELS // groups)))
    if draw(st.booleans()) and groups == channels:
        outputs = channels
    kernel = draw(st.integers(1, min(4, height))), draw(st.integers(1, min(4, width)))
    attributes: dict[str, object] = {"strides": draw(_pairs(1, 3))}
    if draw(st.booleans()):
        attributes["pads"] = draw(st.lists(st.integers(0, 3), min_size=4, max_size=4))
        # ONNX Runtime refuses dilation together with auto_pad.
        if draw(st.booleans()) and 2 * (max(kernel) - 1) < min(height, width):
            attributes["dilations"] = [2, 2]
    else:
        attributes["auto_pad"] = draw(
            st.sampled_from(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
        )
    bias = draw(st.booleans())
    y = b.conv(x, outputs, kernel, groups=groups, bias=bias, **attributes)
    return b.batch_norm(y) if draw(st.booleans()) else y


def deconv(draw: st.DrawFn, b: ModelBuilder, x: str) -> str:
    """A transposed convolution of an image that is small enough to grow."""
    channels, height, width = b.dims(x)
    if height * width > LARGEST_TO_GROW:
        return x
    groups = draw(st.sampled_from([g for g in (1, 2, channels) if channels % g == 0]))
    stride, kernel = draw(_pairs(1, 3)), draw(_pairs(1, 3))
    pads = [draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4)]
    extra = [draw(st.integers(0, s - 1)) for s in stride]
    weights = b.random(channels, draw(st.integers(1, 3)), *kernel)
    attributes = {"strides": stride, "pads": pads, "output_padding": extra}
    return b.op("ConvTranspose", x, weights, group=groups, **attributes)


def rearranged(draw: st.DrawFn, b: ModelBuilder, x: str) -> str:
    """Shuffled channels, exchanged axes, or a constant at each position."""
    channels, height, width = b.dims(x)
    kind = draw(st.sampled_from(["shuffle", "exchange", "constant"]))
    if kind == "constant":
        return b.op("Mul", x, b.random(channels, height, width))
    if kind == "exchange":
        return b.op("Transpose", x, perm=[0, *draw(st.permutations([1, 2, 3]))])
    parts = 2 if channels % 2 == 0 else 1
    split = b.const([0, parts, channels // parts, height, width], np.int64)
    y = b.op("Transpose", b.op("Reshape", x, split), perm=[0, 2, 1, 3, 4])
    return b.op("Reshape", y, b.const([0, channels, height, width], np.int64))


def residual(draw: st.DrawFn, b: ModelBuilder, x: str) -> str:
    """A sum of the tensor and a convolution of it."""
    channels = b.dims(x)[0]
    y = b.conv(x, channels, pads=[1, 1, 1, 1])
    y = b.batch_norm(y) if draw(st.booleans()) else y
    return b.op("Add", *draw(st.permutations([x, y])))


def pool(draw: st.DrawFn, b: ModelBuilder, x: str) -> str:
    """A maximum or an average over windows."""
    _, height, width = b.dims(x)
    kernel = draw(st.integers(1, min(3, height))), draw(st.integers(1, min(3, width)))
    attributes: dict[str, object] = {
        "kernel_shape": kernel,
        "strides": draw(_pairs(1, 3)),
        "pads": [draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4)],
    }
    if draw(st.booleans()):
        return b.op("MaxPool", x, **attributes)
    counted = draw(st.integers(0, 1))
    return b.op("AveragePool", x, count_include_pad=counted, **attributes)


def activation(draw: st.DrawFn, b: ModelBuilder, x: str) -> str:
    """A function of each element, a normalisation of its own, or nothing at all."""
    kinds = ["Relu", "Clip", "BatchNormalization", "Identity", *FUNCTIONS]
    kind = draw(st.sampled_from(kinds))
    if kind == "Clip":
        return b.clip(x, 0.0, draw(st.sampled_from([1.0, 6.0])))
    if kind == "Swish":
        return b.op("Mul", b.op("Sigmoid", x), x)
    if kind == "Scale":
        return b.op("Mul", x, b.random(b.dims(x)[0], 1, 1))
    return b.batch_norm(x) if kind == "BatchNormalization" else b.op(kind, x)


def gated(draw: st.DrawFn, b: ModelBuilder, x: str) -> str:
    """The tensor times a number a channel, an element or a position."""
    channels = b.dims(x)[0]
    source = draw(st.sampled_from([x, b.op("GlobalAveragePool", x)]))
    outputs = draw(st.sampled_from([1, channels]))
    factor = b.op(draw(st.sampled_from(FUNCTIONS[:2])), b.conv(source, outputs, 1))
    return b.op("Mul", *draw(st.permutations([x, factor])))


def joined(draw: st.DrawFn, b: ModelBuilder, x: str) -> str:
    """The tensor beside convolutions of it, along any axis."""
    axis = draw(st.sampled_from([1, 1, 2, 3]))
    channels = b.dims(x)[0]
    others = [b.conv(x, channels, 1) for _ in range(draw(st.integers(1, 2)))]
    return b.op("Concat", *draw(st.permutations([x, *others])), axis=axis)


def moved(draw: st.DrawFn, b: ModelBuilder, x: str) -> str:
    """Positions of one axis in any order, or padding around all."""
    axis = draw(st.integers(1, 3))
    size = b.dims(x)[axis - 1]
    if b.opset < 11 or draw(st.booleans()):
        places = draw(st.lists(st.integers(0, size - 1), min_size=4, max_size=8))
        return b.op("Gather", x, b.const(places, np.int64), axis=axis)
    pads = [0, *(draw(st.integers(-1, 2)) if size > 2 else 0 for _ in range(3))]
    sides = b.const(pads + pads if min(b.dims(x)) > 2 else [0] * 8, np.int64)
    return b.op("Pad", x, sides, mode=draw(st.sampled_from(["constant", "edge"])))


def head(draw: st.DrawFn, b: ModelBuilder, x: str) -> str:
    """Flatten and one or two Gemm layers, perhaps a Softmax."""
    if draw(st.booleans()):
        x = b.op("GlobalAveragePool", x)
    x = b.op("Flatten", x)
    if draw(st.booleans()):
        x = b.op("Relu", b.gemm(x, draw(st.integers(1, 9))))
    x = b.gemm(x, draw(st.integers(1, 10)))
    return b.op("Softmax", x, axis=1) if draw(st.booleans()) else x


def image_head(draw: st.DrawFn, b: ModelBuilder, x: str) -> str:
    """The image itself, behind one more layer."""
    return b.conv(x, draw(st.integers(1, 4)), 1)


def _pairs(low: int, high: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(low, high), min_size=2, max_size=2)
