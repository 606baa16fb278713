"""Float graph to integer graph: each formula on a case worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from graphs import RELU, GraphBuilder, calibrated, quantised, small_cnn

from refoldc.calibrate import Calibration
from refoldc.errors import BadOptions, RefoldcError
from refoldc.ir import (
    Bounds,
    Conv,
    QAdd,
    QConv,
    QDense,
    QGraph,
    QPool,
    QTable,
    Quant,
)
from refoldc.options import CompileOptions
from refoldc.quantise import quantise
from refoldc.quantise_weighted import logits_quant
from refoldc.weights import accumulator_offset

TENSOR = CompileOptions(input="tensor")


def one_layer(builder: GraphBuilder, ranges: dict[str, tuple[float, float]]) -> QGraph:
    """Quantise a graph with given ranges, for tensor input."""
    graph = builder.graph()
    peak = {n.name: np.ones(len(n.weights)) for n in graph.nodes if isinstance(n, Conv)}
    spans = {name: (-p, p) for name, p in peak.items()}
    moments = {name: (p * 0, p) for name, p in peak.items()}
    calibration = Calibration(ranges, moments, spans, peak, images=1)
    return quantise(graph, calibration, TENSOR)


def test_weights_use_the_whole_range_and_one_scale_a_channel() -> None:
    """Each channel's largest weight is +-127, but for the exact multiplier's slack."""
    graph = quantised(small_cnn())
    conv = graph.layers[0]
    assert isinstance(conv, QConv)
    peaks = np.abs(conv.weights.reshape(8, -1).astype(int)).max(axis=1)
    assert np.all(peaks >= 126)
    assert np.all(peaks <= 127)


def test_weights_are_within_half_a_step() -> None:
    """scale * stored is the float weight, rounded."""
    float_graph = small_cnn()
    graph = quantised(float_graph)
    node, conv = float_graph.nodes[0], graph.layers[0]
    assert isinstance(node, Conv)
    assert isinstance(conv, QConv)
    scale = conv.weight_scale.reshape(-1, 1, 1, 1)
    assert np.all(np.abs(conv.weights * scale - node.weights) <= 0.501 * scale)


def test_multipliers_and_biases_are_exact() -> None:
    """m = s_x s_w / s_y 2^s and b = (z + 1/2) 2^s + m * bias are integers."""
    graph = quantised(small_cnn())
    for layer in graph.layers:
        if isinstance(layer, (QConv, QDense)):
            units = graph.quants[layer.inputs[0]].scale * layer.weight_scale
            out, r = graph.quants[layer.output], layer.requant
            np.testing.assert_allclose(units / out.scale * 2.0**r.shift, r.m, rtol=1e-9)
            steps = np.rint(layer.bias / units).astype(np.int64)
            half = int((out.zero_point + 0.5) * 2**r.shift)
            np.testing.assert_array_equal(half + steps * r.m, r.b)


def test_an_all_zero_channel_is_constant() -> None:
    """It takes the layer's largest scale and stores zeros."""
    b = GraphBuilder((4, 4, 2))
    b.conv("t0", 3)
    node = b.nodes[0]
    assert isinstance(node, Conv)
    weights = node.weights.copy()
    weights[1] = 0
    b.nodes[0] = replace(node, weights=weights)
    layer = one_layer(b, {"t0": (-1.0, 1.0), "t1": (-2.0, 2.0)}).layers[0]
    assert isinstance(layer, QConv)
    assert not layer.weights[1].any()
    assert layer.weight_scale.max() == pytest.approx(layer.weight_scale[1], rel=1e-3)


def test_a_scale_too_fine_for_the_multiplier_is_enlarged() -> None:
    """An output range far below the products' gets max M = 32767/65536."""
    b = GraphBuilder((4, 4, 2))
    b.conv("t0", 3)
    graph = one_layer(b, {"t0": (-1.0, 1.0), "t1": (-1e-4, 1e-4)})
    layer = graph.layers[0]
    assert isinstance(layer, QConv)
    assert (16, 32767) == (layer.requant.shift, layer.requant.m.max())
    assert graph.quants["t1"].scale > 2e-4 / 255


def test_accumulators_that_could_overflow_are_refused_by_name() -> None:
    """66,312 products of 255 * 127 pass the int32 limit."""
    weights = np.full((1, 66312), 127, np.int8)
    with pytest.raises(RefoldcError, match=r"wide_layer: .* can reach 21475"):
        accumulator_offset(weights, 0, "wide_layer")
    assert [-127 * 66309 * 2] == accumulator_offset(weights[:, :66309], 2, "x").tolist()


def test_max_pool_keeps_its_input_scale() -> None:
    """Scale and zero point pass through, and a fused ReLU cuts at the zero point."""
    b = GraphBuilder((4, 4, 2))
    b.pool("t0", "max", kernel=(2, 2), stride=(2, 2))
    b.nodes[0] = replace(b.nodes[0], bounds=RELU)  # type: ignore[call-arg]
    graph = one_layer(b, {"t0": (-1.0, 1.0), "t1": (0.0, 1.0)})
    layer = graph.layers[0]
    assert isinstance(layer, QPool)
    assert graph.quants["t0"] == graph.quants["t1"]
    assert graph.quants["t0"].zero_point == layer.requant.lo


def test_average_pool_has_one_multiplier_a_count() -> None:
    """A padded 3x3 window over 4x4 covers 4, 6 or 9 positions."""
    b = GraphBuilder((4, 4, 1))
    b.pool("t0", "average", kernel=(3, 3), stride=(1, 1), pads=(1, 1, 1, 1))
    layer = one_layer(b, {"t0": (-1.0, 1.0), "t1": (-1.0, 1.0)}).layers[0]
    assert isinstance(layer, QPool)
    assert (4, 6, 9) == layer.counts
    assert 16 == layer.requant.shift  # round(2**16 / 4) = 16384, 2**17 / 4 = 32768
    assert [16384, 10923, 7282] == layer.requant.m.tolist()


def test_add_has_one_shift_for_both_operands() -> None:
    """M1 = 1, M2 = 1/2: shift 14, multipliers 16384 and 8192."""
    b = GraphBuilder((2, 2, 1))
    b.clamp("t0", Bounds(-0.5, 0.5))
    b.add("t0", "t1")
    ranges = {"t0": (-1.0, 1.0), "t1": (-0.5, 0.5), "t2": (-1.0, 1.0)}
    graph = one_layer(b, ranges)
    layer = graph.layers[1]
    assert isinstance(layer, QAdd)
    assert (16384, 8192, 14) == (layer.m1, layer.m2, layer.shift)
    z0, z1, z2 = (graph.quants[f"t{i}"].zero_point for i in range(3))
    assert (2 * z2 + 1) * 2**13 - 16384 * z0 - 8192 * z1 == layer.bias


def test_a_clamp_of_its_own_becomes_a_table() -> None:
    """ReLU from [-1, 1] to [0, 1]: negative inputs give the least stored value."""
    b = GraphBuilder((2, 2, 1))
    b.clamp("t0", RELU)
    graph = one_layer(b, {"t0": (-1.0, 1.0), "t1": (0.0, 1.0)})
    layer = graph.layers[0]
    assert isinstance(layer, QTable)
    zero = graph.quants["t0"].zero_point + 128
    (table,) = layer.table
    assert np.all(table[: zero + 1] == -128)
    assert 126 == table[255]  # the largest input is 127 * 2 / 255, below 1
    assert np.all(np.diff(table[zero:].astype(int)) == 2)


def test_the_last_dense_gives_fine_int32_logits() -> None:
    """Their scale has up to 8 more bits than an int8 output; z is 0."""
    graph = quantised(small_cnn())
    last = graph.layers[-1]
    assert isinstance(last, QDense)
    assert last.logits
    assert 0 == graph.quants[graph.output].zero_point
    assert last.requant.m.max() >= 16384


def test_logits_take_the_finest_scale_that_fits() -> None:
    """Each halving doubles M; it stops before M passes 32767/65536."""
    units = np.array([0.01])
    assert Quant(1.0 / 32, 0) == logits_quant(1.0, units, 0.0)
    assert Quant(1.0 / 2, 0) == logits_quant(1.0, units, 0.3)
    assert Quant(1.0 / 256, 0) == logits_quant(1.0, units / 100, 0.0)


def test_a_bounded_or_reused_dense_output_stays_int8() -> None:
    """ReLU behind the last layer needs the clamp that logits lack."""
    b = GraphBuilder((6,))
    b.dense("t0", 4, bounds=RELU)
    layer = quantised(b.graph()).layers[0]
    assert isinstance(layer, QDense)
    assert not layer.logits


def test_pixels_go_through_an_exact_table() -> None:
    """Entries are the stored values of (p/255 - mean)/std, ends saturating nothing."""
    options = CompileOptions(mean=(0.5, 0.4, 0.3), std=(0.25, 0.5, 0.2))
    graph, _ = calibrated(small_cnn(), options)
    table, quant = graph.input_spec.table, graph.quants["t0"]
    assert table is not None
    assert (3, 256) == table.shape
    real = (np.arange(256) / 255 - 0.3) / 0.2
    stored = np.floor(real / quant.scale + quant.zero_point + 0.5)
    np.testing.assert_array_equal(stored, table[2])
    assert (-128, 127) == (table.min(), table.max())


def test_no_adaptation_means_no_sites() -> None:
    """adapt none leaves every layer static."""
    graph = quantised(small_cnn(), CompileOptions(adapt="none"))
    assert () == graph.sites


def test_site_choice_sets_the_default() -> None:
    """1+3 turns those two on and the others off."""
    graph = quantised(small_cnn(), CompileOptions(sites="1+3"))
    assert [False, True, False, True] == [s.default_on for s in graph.sites]


@pytest.mark.parametrize(
    ("choice", "message"),
    [("9", "site 9 does not exist.* 4 sites"), ("1+4", "site 4 does not exist")],
)
def test_impossible_site_choices(choice: str, message: str) -> None:
    """A number beyond the last site is refused."""
    with pytest.raises(BadOptions, match=message):
        quantised(small_cnn(), CompileOptions(sites=choice))
