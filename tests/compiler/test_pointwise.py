"""Element-wise operators: tables, affine functions and products of tensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from agreement import check
from models import ModelBuilder

from refoldc.fold import fold
from refoldc.formula import Call, X, as_affine, constant, evaluate
from refoldc.importer import import_proto
from refoldc.ir import Conv, Dense, Graph, Mul, Pointwise, QTable

CLOSE = 0.04
"""int8 against float, of the largest output: a few steps of 1/255 a layer."""
EXPORT = 0.012
"""The QDQ export against the integers: one step in an int8 output, or two."""

Build = Callable[[ModelBuilder], str]


def builder(*shape: int) -> ModelBuilder:
    """A builder on images of 3 x 7 x 6 unless told otherwise."""
    return ModelBuilder(shape or (3, 7, 6), opset=20)


def folded(b: ModelBuilder, output: str) -> Graph:
    """The float graph that is left to quantise."""
    return fold(import_proto(b.model(output), "net"))


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("Abs", {}),
        ("Celu", {"alpha": 0.7}),
        ("Elu", {"alpha": 0.6}),
        ("Erf", {}),
        ("Exp", {}),
        ("Gelu", {}),
        ("Gelu", {"approximate": "tanh"}),
        ("HardSigmoid", {"alpha": 0.3}),
        ("HardSwish", {}),
        ("LeakyRelu", {"alpha": 0.2}),
        ("LeakyRelu", {}),
        ("Mish", {}),
        ("Selu", {}),
        ("Sigmoid", {}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("Tanh", {}),
    ],
)
def test_functions(op: str, attributes: dict[str, object], tmp_path: Path) -> None:
    """Each is one table, near the float function, equal in C and export."""
    b = builder()
    model = b.model(b.op(op, b.conv("x", 5), **attributes))
    found = check(model, tmp_path)
    assert [Conv, Pointwise] == [type(node) for node in found.folded.nodes]
    assert found.int8 <= CLOSE
    assert found.exported <= EXPORT


def silu(b: ModelBuilder) -> str:
    """x * sigmoid(x)."""
    x = b.conv("x", 5)
    return b.op("Mul", x, b.op("Sigmoid", x))


def hard_swish(b: ModelBuilder) -> str:
    """x * relu6(x + 3) / 6 as exporters before opset 14 write it."""
    x = b.conv("x", 5)
    gate = b.clip(b.op("Add", x, b.const(3.0, np.float32)), 0.0, 6.0)
    return b.op("Div", b.op("Mul", x, gate), b.const(6.0, np.float32))


def gelu(b: ModelBuilder) -> str:
    """x * (1 + erf(x / sqrt(2))) / 2 in five nodes."""
    x = b.conv("x", 5)
    erf = b.op("Erf", b.op("Div", x, b.const(np.sqrt(2), np.float32)))
    total = b.op("Add", erf, b.const(1.0, np.float32))
    return b.op("Mul", b.op("Mul", x, total), b.const(0.5, np.float32))


def square(b: ModelBuilder) -> str:
    """x * x."""
    x = b.conv("x", 5)
    return b.op("Mul", x, x)


def prelu(b: ModelBuilder) -> str:
    """A slope a channel."""
    return b.op("PRelu", b.conv("x", 5), b.random(5, 1, 1))


@pytest.mark.parametrize("build", [silu, hard_swish, gelu, square, prelu])
def test_expressions_of_one_tensor(build: Build, tmp_path: Path) -> None:
    """However many nodes spell it, a function of one tensor is one table."""
    b = builder()
    found = check(b.model(build(b)), tmp_path)
    assert [Conv, Pointwise] == [type(node) for node in found.folded.nodes]
    assert found.int8 <= CLOSE
    assert found.exported <= EXPORT


def test_a_slope_a_channel_makes_a_table_a_channel(tmp_path: Path) -> None:
    """Five channels, five tables; a common slope, one."""
    b = builder()
    y = b.op("PRelu", prelu(b), b.const([0.25], np.float32))
    found = check(b.model(b.conv(y, 2)), tmp_path)
    (table,) = [n for n in found.graph.layers if isinstance(n, QTable)]
    assert (5, 256) == table.table.shape


def scaled_conv(b: ModelBuilder) -> str:
    """A batch normalisation that an exporter spelled as Mul and Add."""
    y = b.op("Mul", b.conv("x", 4), b.random(4, 1, 1))
    return b.op("Relu", b.op("Add", y, b.random(1, 4, 1, 1)))


def shifted_conv(b: ModelBuilder) -> str:
    """Constants on either side of the operators."""
    y = b.op("Sub", b.const(2.0, np.float32), b.conv("x", 4))
    return b.op("Div", y, b.const([[[1.0]], [[2.0]], [[-4.0]], [[0.5]]], np.float32))


def scaled_dense(b: ModelBuilder) -> str:
    """A matrix product, a bias and a scale."""
    weights = b.random(126, 4)
    y = b.op("MatMul", b.op("Flatten", "x"), weights)
    return b.op("Mul", b.op("Add", y, b.random(4)), b.random(1, 4))


@pytest.mark.parametrize("build", [scaled_conv, shifted_conv, scaled_dense])
def test_affine_functions_go_into_the_layer_before(
    build: Build, tmp_path: Path
) -> None:
    """Nothing but the convolution or matrix product is left."""
    b = builder()
    found = check(b.model(build(b)), tmp_path)
    assert 1 == len(found.folded.nodes)
    assert isinstance(found.folded.nodes[0], (Conv, Dense))
    assert found.int8 <= CLOSE
    assert found.exported <= EXPORT


def test_affine_function_moves_exact_targets() -> None:
    """Behind y = 2x - 1, BatchNorm's mean and deviation are those of y."""
    b = builder()
    y = b.op("Mul", b.batch_norm(b.conv("x", 4)), b.const(-2.0, np.float32))
    graph = folded(b, b.conv(b.op("Sub", y, b.const(1.0, np.float32)), 2))
    site = graph.nodes[0]
    gamma, beta = (onnx.numpy_helper.to_array(w) for w in b.weights[2:4])
    assert isinstance(site, Conv)
    assert site.bn is not None
    np.testing.assert_allclose(-2 * beta - 1, site.bn.beta, rtol=1e-6)
    np.testing.assert_allclose(2 * np.abs(gamma), site.bn.sigma, rtol=1e-6)


def test_affine_function_that_no_layer_can_take(tmp_path: Path) -> None:
    """Per channel it is a depthwise convolution, for a vector tables."""
    b = builder()
    y = b.op("Mul", b.op("Relu", b.conv("x", 4)), b.random(4, 1, 1))
    found = check(b.model(y), tmp_path)
    last = found.folded.nodes[-1]
    assert isinstance(last, Conv)
    assert last.depthwise
    v = builder(6)
    z = v.op("Add", v.op("Relu", v.gemm("x", 5)), v.random(1, 5))
    found = check(v.model(z), tmp_path)
    assert [Dense, Pointwise] == [type(node) for node in found.folded.nodes]
    assert found.int8 <= CLOSE


def test_affine_function_before_a_matrix_product() -> None:
    """A scale for each feature of a flattened image goes into the next layer."""
    b = builder()
    y = b.op("Flatten", b.op("Tanh", b.conv("x", 4, pads=[1, 1, 1, 1])))
    graph = folded(b, b.gemm(b.op("Mul", y, b.random(1, 168)), 3))
    assert [Conv, Pointwise, Dense] == [type(node) for node in graph.nodes]


def gate(pixels: bool) -> Build:
    """Squeeze and excite over channels, or attention over positions."""

    def build(b: ModelBuilder) -> str:
        x = b.op("Relu", b.conv("x", 5))
        source = x if pixels else b.op("GlobalAveragePool", x)
        factor = b.op("Sigmoid", b.conv(source, 1 if pixels else 5, 1))
        return b.op("Mul", factor, x)

    return build


def product(b: ModelBuilder) -> str:
    """Two convolutions of one shape, and a clamp behind."""
    return b.op("Relu", b.op("Mul", b.conv("x", 5), b.conv("x", 5)))


def difference(b: ModelBuilder) -> str:
    """Two convolutions, the second negated in its weights."""
    return b.op("Sub", b.conv("x", 5), b.conv("x", 5))


@pytest.mark.parametrize(
    "build",
    [gate(False), gate(True), product, difference],
    ids=["channel gate", "pixel gate", "product", "difference"],
)
def test_two_tensors(build: Build, tmp_path: Path) -> None:
    """Products, broadcast or not, and differences agree at every stage."""
    b = builder()
    found = check(b.model(build(b)), tmp_path)
    assert found.int8 <= CLOSE
    assert found.exported <= EXPORT


def test_the_product_is_one_layer() -> None:
    """Its activation is fused."""
    b = builder()
    graph = folded(b, product(b))
    last = graph.nodes[-1]
    assert isinstance(last, Mul)
    assert 0.0 == last.bounds.low


def test_as_affine_knows_its_limits() -> None:
    """A product of the variable with itself is not affine, nor is a quotient by it."""
    assert as_affine(Call("Mul", (X, X))) is None
    assert as_affine(Call("Div", (constant(1), X))) is None
    assert as_affine(Call("Div", (X, constant([1, 0])))) is None
    assert as_affine(Call("Sigmoid", (X,))) is None


def test_formulas_are_evaluated_per_channel() -> None:
    """A constant a channel gives a row a channel."""
    formula = Call("Pow", (Call("Sub", (X, constant([0.0, 1.0]))), constant(2)))
    values = evaluate(formula, np.array([1.0, 3.0]))
    np.testing.assert_array_equal([[1.0, 9.0], [0.0, 4.0]], values)
