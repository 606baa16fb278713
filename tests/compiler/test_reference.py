"""The NumPy reference against plain int64 arithmetic."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from graphs import GraphBuilder, calibrated, make_images, quantised, small_cnn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from refoldc.accumulate import exact_dtype, make_sums
from refoldc.adapt import AdaptConfig
from refoldc.calibrate import calibrate, real_input
from refoldc.float_export import channels_first, float_model, open_session
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.ir import QAdd, QConv, QGraph, QPool
from refoldc.operators import add, pool
from refoldc.options import CompileOptions
from refoldc.quantise import quantise
from refoldc.reference import Reference, statistics

I64 = NDArray[np.int64]


def convolve(layer: QConv, x: NDArray[np.int8], zero: int, out: tuple[int, int]) -> I64:
    """acc = sum(w * (x - z)) in int64, one product at a time: [H, W, C_OUT]."""
    count, high, wide, depth = layer.weights.shape
    filters = count // layer.groups
    acc = np.zeros((*out, count), np.int64)
    for oy, ox, c, ky, kx in np.ndindex(*out, count, high, wide):
        y = oy * layer.stride[0] - layer.pads[0] + ky * layer.dilation[0]
        z = ox * layer.stride[1] - layer.pads[1] + kx * layer.dilation[1]
        if 0 <= y < x.shape[0] and 0 <= z < x.shape[1]:
            first = c // filters * depth
            seen = x[y, z, first : first + depth].astype(np.int64) - zero
            acc[oy, ox, c] += int(layer.weights[c, ky, kx].astype(np.int64) @ seen)
    return acc


def conv_graph(
    *, channels: int, groups: int, depth: int, kernel: int, stride: int, seed: int
) -> QGraph:
    """One convolution of random weights."""
    b = GraphBuilder((6, 5, depth), seed)
    b.conv(
        "t0",
        channels,
        kernel=(kernel, kernel),
        stride=(stride, 1),
        dilation=(1, 2),
        pads=(1, 2, 0, 2),
        groups=groups,
    )
    return quantised(b.graph(), CompileOptions(input="tensor"))


@settings(max_examples=25, deadline=None)
@given(
    groups=st.integers(1, 3),
    depth=st.integers(1, 5),
    filters=st.integers(1, 4),
    kernel=st.integers(1, 3),
    stride=st.integers(1, 2),
    seed=st.integers(0, 999),
)
def test_accumulators_equal_int64(
    groups: int, depth: int, filters: int, kernel: int, stride: int, seed: int
) -> None:
    """Plain, grouped and depthwise sums are exact for inputs of full range."""
    graph = conv_graph(
        channels=groups * filters,
        groups=groups,
        depth=groups * depth,
        kernel=kernel,
        stride=stride,
        seed=seed,
    )
    layer = graph.layers[0]
    assert isinstance(layer, QConv)
    rng = np.random.default_rng(seed)
    x = rng.choice([-128, -127, 0, 127], graph.shapes["t0"]).astype(np.int8)
    out = graph.shapes["t1"][:2]
    zero = graph.quants["t0"].zero_point
    expected = convolve(layer, x, zero, (out[0], out[1]))
    actual = make_sums(layer, graph)(x).reshape(expected.shape)
    np.testing.assert_array_equal(expected, actual)


def test_float32_is_left_where_it_would_round() -> None:
    """At 2**24 and beyond, sums are formed in float64."""
    fits = np.full((1, 660), 100, np.int8)
    assert np.float32 is exact_dtype(fits, -127)  # 660 * 100 * 254 < 2**24
    assert np.float64 is exact_dtype(fits, -128)  # 660 * 100 * 255 > 2**24


def test_sums_beyond_float32_are_exact() -> None:
    """A layer of 40,000 products keeps its last bit."""
    b = GraphBuilder((40000,))
    b.dense("t0", 2)
    graph = quantised(b.graph())
    layer = graph.layers[0]
    x = np.full(40000, 127, np.int8)
    x[-1] = 126
    zero = graph.quants["t0"].zero_point
    weights = layer.weights.astype(np.int64)  # type: ignore[attr-defined]
    expected = weights @ (x.astype(np.int64) - zero)
    np.testing.assert_array_equal(expected, make_sums(layer, graph)(x))  # type: ignore[arg-type]


def test_add_is_integer_arithmetic() -> None:
    """Floor of the shifted sum, clamped; checked against Python's integers."""
    layer = QAdd(
        name="a",
        inputs=("x", "y"),
        output="z",
        m1=32767,
        m2=1234,
        bias=-77,
        shift=15,
        lo=-100,
        hi=90,
    )
    a = np.arange(-128, 128).astype(np.int8)
    b = a[::-1].copy()
    expected = [
        min(max((int(p) * 32767 + int(q) * 1234 - 77) >> 15, -100), 90)
        for p, q in zip(a, b, strict=True)
    ]
    assert expected == add(layer, small_quantised(), a, b).tolist()


def small_quantised() -> QGraph:
    """Any graph, where a rule does not look at it."""
    return quantised(small_cnn())


@pytest.mark.parametrize("include_pad", [False, True])
def test_average_pool_divides_by_what_a_window_covers(include_pad: bool) -> None:
    """Corners average 4 of 9 positions, or all 9 with zeros where padding counts."""
    b = GraphBuilder((4, 4, 1))
    pads = (1, 1, 1, 1)
    b.pool(
        "t0",
        "average",
        kernel=(3, 3),
        stride=(3, 3),
        pads=pads,
        include_pad=include_pad,
    )
    graph = quantised(b.graph(), CompileOptions(input="tensor"))
    layer = graph.layers[0]
    assert isinstance(layer, QPool)
    x = np.full((4, 4, 1), 100, np.int8)
    source, out = graph.quants["t0"], graph.quants["t1"]
    real = source.scale * (100 - source.zero_point) * (4 / 9 if include_pad else 1)
    expected = min(127, round(real / out.scale) + out.zero_point)
    assert abs(expected - int(pool(layer, graph, x)[0, 0, 0])) <= 1


def test_max_pool_ignores_padding() -> None:
    """The least value wins over no padding, even -128."""
    b = GraphBuilder((2, 2, 1))
    b.pool("t0", "max", kernel=(2, 2), stride=(2, 2), pads=(1, 1, 1, 1))
    graph = quantised(b.graph(), CompileOptions(input="tensor"))
    x = np.array([-128, 5, -7, 127], np.int8).reshape(2, 2, 1)
    layer = graph.layers[0]
    assert isinstance(layer, QPool)
    assert [-128, 5, -7, 127] == pool(layer, graph, x).reshape(-1).tolist()


def test_statistics_saturate_and_floor() -> None:
    """a = sat16(acc >> k); sums are exact."""
    acc = np.array([[-3, 2**30], [5, -(2**30)]], np.float64)
    s1, s2 = statistics(acc, 1)
    assert [-2 + 2, 32767 - 32768] == s1.tolist()
    assert [8, 32767**2 + 32768**2] == s2.tolist()


def test_the_integer_network_follows_the_float_network() -> None:
    """Logits are near ONNX Runtime's float ones, in units of their spread."""
    options = CompileOptions()
    float_graph = small_cnn()
    graph, _ = calibrated(float_graph, options)
    images = make_images(graph.shapes["t0"], 8)
    feed = channels_first(real_input(images, options.for_input(graph.shapes["t0"])))
    expected = open_session(float_model(float_graph)).run(None, {"t0": feed})[0]
    reference = Reference(graph)
    scale = graph.quants[graph.output].scale
    actual = np.stack([reference.infer(image).logits * scale for image in images])
    assert np.abs(actual - expected).max() < 0.05 * np.ptp(expected)


def test_clean_images_change_little() -> None:
    """Targets that calibration confirms make FORGE nearly a no-op on its images."""
    graph = small_quantised()
    images = make_images(graph.shapes["t0"], 8)
    off, on = Reference(graph), Reference(graph)
    on.configure(AdaptConfig())
    for image in images:
        before, after = off.infer(image), on.infer(image)
        assert np.abs(before.logits - after.logits).max() < 0.1 * np.ptp(before.logits)
        assert (False, True) == (before.adapted, after.adapted)
        assert np.float32(0) == before.shift_score


def test_a_shift_raises_the_score() -> None:
    """Dark images are further from the targets than those of calibration."""
    graph = small_quantised()
    images = make_images(graph.shapes["t0"], 100)
    scores = []
    for stream in (images, images // 6):
        reference = Reference(graph)
        reference.configure(AdaptConfig())
        scores.append([reference.infer(image).shift_score for image in stream][-1])
    assert scores[1] > 2 * scores[0]


def least_time(shared: Path) -> float:
    """Least processor time of 30 ResNet-20 images in seconds, FORGE included."""
    with np.load(shared / "data/cifar10c_sev5_1000.npz") as data:
        images = data["clean"][:30]
    options = CompileOptions(mean=(0.4914, 0.4822, 0.4465), std=(0.247, 0.2435, 0.2616))
    folded = fold(import_model(shared / "models/resnet20_cifar10_forge.onnx"))
    reference = Reference(quantise(folded, calibrate(folded, images, options), options))
    reference.configure(AdaptConfig())
    times = []
    for image in images:
        start = time.process_time()
        reference.infer(image)
        times.append(time.process_time() - start)
    return min(times)


def test_resnet20_takes_at_most_15_ms(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one core: BLAS threads that wait for each other would count, too."""
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        assert pool.submit(least_time, shared).result() <= 0.015
