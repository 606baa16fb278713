"""Import: each operator equals ONNX Runtime, each refusal names node and remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from models import ModelBuilder, small_classifier
from onnx import TensorProto, helper

from refoldc.errors import BadModel, RefoldcError, UnsupportedOp
from refoldc.fold import fold
from refoldc.importer import import_model, import_proto
from refoldc.ir import Conv, Dense, Graph
from refoldc.loading import OPSETS
from refoldc.verify_import import TOLERANCE, verify_import


def check(model: onnx.ModelProto) -> Graph:
    """Import, compare with ONNX Runtime before and after folding, return folded."""
    graph = import_proto(model, "net")
    folded = fold(graph)
    assert verify_import(model, graph) <= TOLERANCE
    assert verify_import(model, folded) <= TOLERANCE
    return folded


Build = Callable[[ModelBuilder], str]


def _pad(b: ModelBuilder) -> str:
    pads = b.const([0, 0, 1, 2, 0, 0, 3, 0], np.int64)
    return b.conv(b.op("Pad", "x", pads), 4, auto_pad="SAME_UPPER")


def _reshape_chain(b: ModelBuilder) -> str:
    """Flatten as old PyTorch wrote x.view(x.size(0), -1)."""
    shape = b.op("Shape", b.conv("x", 4))
    batch = b.op("Gather", shape, b.const(0, np.int64), axis=0)
    rows = b.op("Unsqueeze", batch, b.const([0], np.int64))
    target = b.op("Concat", rows, b.const([-1], np.int64), axis=0)
    return b.gemm(b.op("Reshape", "conv0", target), 5)


def _matmul_bias(b: ModelBuilder) -> str:
    flat = b.op("Flatten", "x")
    product = b.op("MatMul", flat, b.random(b.dims(flat)[0], 5))
    return b.op("Add", b.random(5), product)


def _gemm(b: ModelBuilder) -> str:
    flat = b.op("Flatten", b.conv("x", 3))
    weights = b.random(b.dims(flat)[0], 6)
    return b.op("Gemm", flat, weights, b.random(1, 6), alpha=0.5, beta=2.0)


def _conv_bias(b: ModelBuilder) -> str:
    offset = b.const(b.rng.normal(size=(1, 4, 1, 1)), np.float32)
    return b.op("Add", b.conv("x", 4, bias=False), offset)


def _shared(b: ModelBuilder) -> str:
    weights = b.random(3, 3, 1, 1)
    first = b.batch_norm(b.op("Conv", "x", weights))
    return b.conv(b.batch_norm(b.op("Conv", first, weights)), 2)


def _behind_identity(b: ModelBuilder) -> str:
    array = b.rng.normal(size=(4, 3, 1, 1)).astype(np.float32)
    weights = b.op("Constant", value=onnx.numpy_helper.from_array(array))
    y = b.op("Conv", b.op("Identity", "x"), b.op("Identity", weights))
    return b.op("Relu", b.op("Dropout", y))


def _mean(keepdims: int) -> Build:
    def build(b: ModelBuilder) -> str:
        y = b.op("ReduceMean", b.conv("x", 4), axes=[-1, 2], keepdims=keepdims)
        return b.gemm(b.op("Flatten", y), 3)

    return build


def _mean_input(b: ModelBuilder) -> str:
    y = b.op("ReduceMean", "x", b.const([2, 3], np.int64), keepdims=0)
    return b.gemm(y, 3)


def _softmax(b: ModelBuilder) -> str:
    return b.op("Softmax", b.gemm(b.op("Flatten", "x"), 7), axis=-1)


def _ceil(b: ModelBuilder) -> str:
    y = b.op("MaxPool", "x", kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1)
    average = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0]}
    return b.op("AveragePool", y, ceil_mode=1, **average)


def _reshape(*target: int) -> Build:
    def build(b: ModelBuilder) -> str:
        return b.gemm(b.op("Reshape", "x", b.const(target, np.int64)), 4)

    return build


GOOD: dict[str, tuple[Build, dict[str, Any]]] = {
    "conv bias by Add": (_conv_bias, {}),
    "Pad before SAME": (_pad, {}),
    "shape chain": (_reshape_chain, {}),
    "shape chain, fixed batch": (_reshape_chain, {"batch": 4}),
    "MatMul and Add": (_matmul_bias, {}),
    "Gemm with alpha, beta, transB=0": (_gemm, {}),
    "shared weights": (_shared, {}),
    "Constant, Identity, Dropout": (_behind_identity, {}),
    "mean keepdims": (_mean(1), {}),
    "mean": (_mean(0), {}),
    "mean, axes as input": (_mean_input, {"opset": 18}),
    "Softmax": (_softmax, {}),
    "ceil_mode": (_ceil, {}),
    "reshape 1,-1": (_reshape(1, -1), {}),
    "reshape -1,F": (_reshape(-1, 3 * 6 * 7), {}),
    "reshape 0,-1": (_reshape(0, -1), {}),
    "reshape with batch 5 baked in": (_reshape(5, -1), {"batch": 5}),
    "GlobalMaxPool": (lambda b: b.op("GlobalMaxPool", b.conv("x", 2)), {}),
    "even kernel SAME_LOWER": (
        lambda b: b.conv("x", 2, (2, 4), auto_pad="SAME_LOWER", strides=[2, 3]),
        {},
    ),
    "stride > kernel, SAME_UPPER": (
        lambda b: b.conv("x", 2, 2, strides=[3, 3], auto_pad="SAME_UPPER"),
        {},
    ),
}


@pytest.mark.parametrize("name", GOOD)
def test_operator_equals_onnx_runtime(name: str) -> None:
    """The imported operator computes what the original does."""
    build, options = GOOD[name]
    b = ModelBuilder((3, 6, 7), **options)
    check(b.model(build(b)))


@pytest.mark.parametrize("opset", OPSETS)
def test_opsets(opset: int) -> None:
    """The same network imports in every opset."""
    b = ModelBuilder((3, 8, 8), opset=opset)
    y = b.clip(b.batch_norm(b.conv("x", 8)), 0.0, 6.0)
    y = b.op("Flatten", b.op("GlobalAveragePool", b.op("Dropout", y)))
    check(b.model(b.op("Softmax", b.gemm(y, 4), axis=1)))


def test_gemm_behind_flatten_is_in_device_order() -> None:
    """Column (h*W + w)*C + c of the weights meets element (c, h, w) of ONNX."""
    b = ModelBuilder((2, 1, 3))
    flat = b.op("Flatten", "x")
    weights = b.const([[0, 1, 2, 10, 11, 12]], np.float32)
    dense = check(b.model(b.op("Gemm", flat, weights, transB=1))).nodes[0]
    assert isinstance(dense, Dense)
    assert [[0, 10, 1, 11, 2, 12]] == dense.weights.tolist()


def test_dimensions_are_channel_last() -> None:
    """Shapes and weights leave the batch out and put channels last."""
    b = ModelBuilder((3, 8, 5), batch=2)
    graph = check(b.model(b.conv("x", 4, (3, 1), name="y")))
    conv = graph.nodes[0]
    assert isinstance(conv, Conv)
    assert (8, 5, 3) == graph.shapes["x"]
    assert (6, 5, 4) == graph.shapes[graph.output]
    assert (4, 3, 1, 3) == conv.weights.shape


def test_nodes_out_of_order_are_sorted() -> None:
    """A reversed file gives the same network."""
    model = small_classifier()
    nodes = list(model.graph.node)
    reversed_model = onnx.ModelProto()
    reversed_model.CopyFrom(model)
    del reversed_model.graph.node[:]
    reversed_model.graph.node.extend(reversed(nodes))
    graph = import_proto(reversed_model, "net")
    assert verify_import(model, graph) <= TOLERANCE


def test_dead_nodes_are_ignored() -> None:
    """An unsupported operator that the output does not need is no obstacle."""
    b = ModelBuilder((3, 6, 6))
    y = b.conv("x", 2)
    b.op("Erf", y)
    assert ["Conv"] == [type(n).__name__ for n in check(b.model(y)).nodes]


def _unknown(b: ModelBuilder) -> str:
    return b.op("Cos", b.op("Sin", "x"))


def _sub_batch(b: ModelBuilder) -> str:
    return b.gemm(b.op("Reshape", "x", b.const([-1, 6], np.int64)), 4)


def _training(b: ModelBuilder) -> str:
    return b.batch_norm(b.conv("x", 4), training_mode=1)


def _computed_weights(b: ModelBuilder) -> str:
    return b.op("MatMul", b.op("Flatten", "x"), b.op("Flatten", "x"))


def _reflect(b: ModelBuilder) -> str:
    pads = b.const([0, 0, 6, 0, 0, 0, 0, 0], np.int64)
    return b.op("Conv", b.op("Pad", "x", pads, mode="reflect"), b.random(2, 3, 3, 3))


def _two_softmax(b: ModelBuilder) -> str:
    y = b.op("Softmax", b.op("Flatten", b.op("GlobalAveragePool", "x")))
    return b.gemm(y, 3)


def _nan(b: ModelBuilder) -> str:
    return b.op("Conv", "x", b.const(np.full((2, 3, 1, 1), np.nan), np.float32))


def _half(b: ModelBuilder) -> str:
    flat = b.op("Flatten", "x")
    return b.op("MatMul", flat, b.const(np.ones((126, 2)), np.float64))


def _conv(**attributes: Any) -> Build:
    return lambda b: b.conv("x", 2, 1, **attributes)


def _far_pad(b: ModelBuilder) -> str:
    """Each Pad fits, both together do not."""
    pads = b.const([0, 0, 40000, 0, 0, 0, 0, 0], np.int64)
    return b.op("Conv", b.op("Pad", b.op("Pad", "x", pads), pads), b.random(2, 3, 1, 1))


def _normalised_by(variance: float, epsilon: float) -> Build:
    def build(b: ModelBuilder) -> str:
        one = b.const(np.ones(3), np.float32)
        spread = b.const(np.full(3, variance), np.float32)
        statistics = ("x", one, one, one, spread)
        return b.op("BatchNormalization", *statistics, epsilon=epsilon)

    return build


def _scaled(**factors: float) -> Build:
    return lambda b: b.gemm(b.op("Flatten", "x"), 2, **factors)


def _bias_overflow(b: ModelBuilder) -> str:
    y = b.op("Conv", "x", b.random(2, 3, 1, 1), b.const([3e38, 0], np.float32))
    return b.op("Add", y, b.const(np.full((2, 1, 1), 3e38), np.float32))


def _empty_limit(b: ModelBuilder) -> str:
    limits = b.const(np.zeros(0), np.float32), b.const(6.0, np.float32)
    return b.op("Clip", "x", *limits)


def _bomb(kind: str) -> Build:
    """A few constants that grow without end if they are computed."""

    def concat(b: ModelBuilder, y: str) -> str:
        return b.op("Concat", *[y] * 64, axis=0)

    def gather(b: ModelBuilder, y: str) -> str:
        return b.op("Gather", y, b.const(np.zeros((64, 64)), np.int64), axis=0)

    def broadcast(b: ModelBuilder, y: str) -> str:
        return b.op("Mul", b.op("Unsqueeze", y, b.const([-1], np.int64)), y)

    def build(b: ModelBuilder) -> str:
        y = b.const(np.ones(64), np.float32)
        for _ in range(6):
            y = {"Concat": concat, "Gather": gather, "Mul": broadcast}[kind](b, y)
        return b.op("Add", "x", y)

    return build


def _repeated(kind: str) -> Build:
    """A tensor of 8 million million elements: copies of one pixel."""
    shape = [1, 1, 10**6, 10**6]

    def build(b: ModelBuilder) -> str:
        pixel = b.op("GlobalAveragePool", b.conv("x", 8, 1))
        return b.op(kind, pixel, b.const(shape, np.int64), name=f"{kind.lower()}1")

    return build


BAD: dict[str, tuple[Build, type[RefoldcError], str]] = {
    "operator": (
        _unknown,
        UnsupportedOp,
        r"node '/sin0' \(Sin\): operator Sin is not supported.*and 1 more",
    ),
    "domain": (
        lambda b: b.op("Relu", "x", domain="com.microsoft"),
        UnsupportedOp,
        "domain 'com.microsoft'",
    ),
    "batch mixed": (_sub_batch, UnsupportedOp, "mixes images"),
    "training BatchNormalization": (_training, UnsupportedOp, r"model\.eval\(\)"),
    "two computed operands": (_computed_weights, UnsupportedOp, "two computed"),
    "large reflection": (_reflect, UnsupportedOp, "mode 'reflect'.*smaller pad"),
    "Softmax inside": (_two_softmax, UnsupportedOp, "only at the end"),
    "NaN weights": (_nan, BadModel, "contains NaN"),
    "float64 weights": (_half, UnsupportedOp, "type float64.*float32"),
    "quotient": (
        lambda b: b.op("Div", "x", b.op("Relu", "x")),
        UnsupportedOp,
        "combines two computed tensors",
    ),
    "shapes": (
        lambda b: b.op("Add", "x", b.conv("x", 3)),
        UnsupportedOp,
        r"combines tensors of shapes \[3, 4, 5\] and \[3, 6, 7\]",
    ),
    "constant image": (
        lambda b: b.op("Max", "x", b.random(3, 6, 7)),
        UnsupportedOp,
        r"constant of shape \[3, 6, 7\].*one a channel",
    ),
    "constant batch": (
        lambda b: b.op("Add", "x", b.random(2, 3, 6, 7)),
        UnsupportedOp,
        r"constant of shape \[2, 3, 6, 7\].*over one image",
    ),
    "zero in a divisor": (
        lambda b: b.op("Div", "x", b.const(np.zeros((3, 6, 7)), np.float32)),
        UnsupportedOp,
        "divides by zero",
    ),
    "attention": (
        lambda b: b.op("MatMul", "x", b.op("Transpose", "x", perm=[0, 1, 3, 2])),
        UnsupportedOp,
        "multiplies two computed tensors",
    ),
    "normalised by each image": (
        lambda b: b.op("InstanceNormalization", "x", b.random(3), b.random(3)),
        UnsupportedOp,
        "statistics of each image; train with BatchNorm",
    ),
    "integers": (
        lambda b: b.op("Cast", b.conv("x", 2), to=onnx.TensorProto.INT32),
        UnsupportedOp,
        "another type than float32",
    ),
    "QLinearConv": (
        lambda b: b.op("QLinearConv", "x", *[b.random(1)] * 7),
        UnsupportedOp,
        "QDQ",
    ),
    "LSTM": (
        lambda b: b.op("LSTM", b.op("Transpose", "x", perm=[1, 0, 2, 3])),
        UnsupportedOp,
        "node '/lstm1' .*recurrent networks are out of scope",
    ),
    "STFT": (
        lambda b: b.op("STFT", "x", b.const(4, np.int64)),
        UnsupportedOp,
        "spectrogram before the network",
    ),
    "window too large": (lambda b: b.conv("x", 2, 9), BadModel, "too small"),
    "no layer": (lambda b: b.op("Identity", "x"), BadModel, "nothing to compile"),
    "unknown attribute": (
        lambda b: b.op("Relu", "x", slope=2.0),
        BadModel,
        "is malformed",
    ),
    "missing tensor": (lambda b: b.op("Add", "x", "y"), BadModel, "nothing produces"),
    "cycle": (lambda b: b.op("Add", "x", "y", name="y"), BadModel, "has a cycle"),
    "pads": (_conv(pads=[2**62] * 4), UnsupportedOp, "exceeds 65535"),
    "two Pads": (_far_pad, UnsupportedOp, "80006 exceeds 65535"),
    "flag": (
        lambda b: b.op("MaxPool", "x", kernel_shape=[2, 2], ceil_mode=18),
        BadModel,
        "ceil_mode is 18, expected 0 or 1",
    ),
    "SAME, dilated": (
        _conv(auto_pad="SAME_UPPER", dilations=[2, 2]),
        UnsupportedOp,
        "SAME_UPPER with dilations",
    ),
    "strides": (_conv(strides=[2**31, 1]), UnsupportedOp, "exceeds 65535"),
    "large tensor": (_conv(pads=[30000] * 4), UnsupportedOp, "elements exceeds"),
    "epsilon NaN": (_normalised_by(1.0, np.nan), BadModel, "epsilon nan"),
    "epsilon 0": (_normalised_by(0.0, 0.0), BadModel, "variance 0, epsilon 0"),
    "variance": (_normalised_by(-1.0, 1e-5), BadModel, "variance -1, "),
    "alpha NaN": (_scaled(alpha=np.nan), BadModel, "become NaN or infinite"),
    "beta infinite": (_scaled(beta=np.inf), BadModel, "become NaN or infinite"),
    "bias overflow": (_bias_overflow, BadModel, "become NaN or infinite"),
    "Tile": (_repeated("Tile"), UnsupportedOp, "tile1.* elements exceeds"),
    "Expand": (_repeated("Expand"), UnsupportedOp, "expand1.* elements exceeds"),
    "empty limit": (_empty_limit, BadModel, r"min limit has shape \[0\]"),
    "Concat bomb": (_bomb("Concat"), BadModel, "constants computed up to here"),
    "Gather bomb": (_bomb("Gather"), BadModel, "constants computed up to here"),
    "Mul bomb": (_bomb("Mul"), BadModel, "constants computed up to here"),
}


@pytest.mark.parametrize("name", BAD)
def test_refusal_names_node_and_remedy(name: str) -> None:
    """What cannot be compiled is refused with one message."""
    build, error, message = BAD[name]
    b = ModelBuilder((3, 6, 7))
    model = b.model(build(b))
    with pytest.raises(error, match=message):
        fold(import_proto(model, "net"))


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (["N", 3, "height", "width"], "height x width.*--shape x:1x3x224x224"),
        (["N", 3, None, 8], "--shape x:1x3x224x8"),
        ([-1, 3, 8, 8], "a batch of -1"),
        ([0, 3, 8, 8], "a batch of 0"),
        ([2**60, 3, 8, 8], "expected 1 to 1024"),
        ([1, 3, 0, 8], "only the batch may be dynamic"),
        ([1, 3, 70000, 8], "70000 exceeds 65535"),
        ([1, 3, 60000, 60000], "elements exceeds"),
    ],
)
def test_sizes_of_the_input(dims: list[Any], message: str) -> None:
    """One known only at run time, or beyond reason, is refused with a remedy."""
    model = small_classifier()
    info = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, dims)
    model.graph.input[0].CopyFrom(info)
    with pytest.raises(RefoldcError, match=message):
        import_proto(model, "net")


def _sequence(info: onnx.ValueInfoProto) -> None:
    info.type.sequence_type.elem_type.tensor_type.elem_type = 1


def _unknown_type(info: onnx.ValueInfoProto) -> None:
    info.type.tensor_type.elem_type = 99


def _integers(info: onnx.ValueInfoProto) -> None:
    info.type.tensor_type.elem_type = onnx.TensorProto.INT64


def _untyped(info: onnx.ValueInfoProto) -> None:
    info.type.Clear()


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (_sequence, "sequence"),
        (_unknown_type, "number 99"),
        (_integers, "INT64"),
        (_untyped, "none"),
    ],
)
def test_types_of_the_input(
    change: Callable[[onnx.ValueInfoProto], None], kind: str
) -> None:
    """What is no float32 tensor is called by its name."""
    model = small_classifier()
    change(model.graph.input[0])
    with pytest.raises(UnsupportedOp, match=f"input 'x' has type {kind};"):
        import_proto(model, "net")


def test_names_fit_a_zip_archive() -> None:
    """Those of two nodes differ even where a NUL or 64 KiB would end them."""
    b = ModelBuilder((3, 6, 6))
    model = b.model(b.conv(b.conv(b.conv("x", 2), 2), 2, 1))
    for node, name in zip(model.graph.node, ("a\0b", "a\0c", "n" * 70000), strict=True):
        node.name = name
    names = [node.name for node in import_proto(model, "net").nodes]
    assert ["a_b", "a_c"] == names[:2]
    assert len(names[2]) <= 1000


@pytest.mark.parametrize("kind", ["input", "initializer"])
def test_two_of_one_name(kind: str) -> None:
    """Two inputs or weights of one name are refused: which is meant is anyone's."""
    model = small_classifier()
    tensors = getattr(model.graph, kind)
    tensors.append(tensors[0])
    with pytest.raises(BadModel, match=f"2 inputs or weights .*'{tensors[0].name}'"):
        import_proto(model, "net")


def test_sparse_weights() -> None:
    """Those are refused as such, not called missing."""
    model = small_classifier()
    dense = model.graph.initializer.pop(0)
    places = helper.make_tensor("places", TensorProto.INT64, [1], [0])
    one = helper.make_tensor(dense.name, TensorProto.FLOAT, [1], [1.0])
    sparse = helper.make_sparse_tensor(one, places, dense.dims)
    model.graph.sparse_initializer.append(sparse)
    with pytest.raises(UnsupportedOp, match=f"'{dense.name}' is sparse"):
        import_proto(model, "net")


def test_produced_twice() -> None:
    """A tensor with two producers is refused."""
    model = small_classifier()
    model.graph.node.append(model.graph.node[0])
    with pytest.raises(BadModel, match="exists already"):
        import_proto(model, "net")


@pytest.mark.parametrize(
    ("file", "convolutions"),
    [
        ("resnet20_cifar10_forge.onnx", 21),
        ("mobilenetv2x05_cifar10_forge.onnx", 52),
        ("third_party/25_ultraface_slim320_bn_raw.onnx", 42),
        ("third_party/20_wonnx_opt_mnist_same_upper.onnx", 2),
        ("third_party/36_espdl_streaming_s3.onnx", 8),
        ("third_party/39_mesonet_bn_after_relu.onnx", 8),
        ("third_party/48_digits_external_data/model.onnx", 3),
        ("third_party/77_qonnx_residual_block.onnx", 3),
    ],
)
def test_public_models(file: str, convolutions: int, shared: Path) -> None:
    """Networks that people published import and equal themselves."""
    path = shared / "models" / file
    folded = fold(import_model(path))
    assert convolutions == sum(isinstance(node, Conv) for node in folded.nodes)
    assert verify_import(onnx.load(path), folded) <= TOLERANCE


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("52_connxr_mnist_convinteger.onnx", r"ConvInteger.*QDQ"),
        ("56_repcnn_wakeword_stft.onnx", r"only the batch may be dynamic.*STFT"),
    ],
)
def test_public_models_refused(file: str, message: str, shared: Path) -> None:
    """Others are refused for the right reason."""
    with pytest.raises((UnsupportedOp, BadModel), match=message):
        import_model(shared / "models" / "third_party" / file)
