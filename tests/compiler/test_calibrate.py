"""Calibration: ranges and moments are those of the data, bad data are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from models import ModelBuilder, small_classifier
from numpy.typing import NDArray

from refoldc.calibrate import calibrate, estimate_targets, real_input
from refoldc.channel_stats import ChannelStats, histogram, percentile_range
from refoldc.errors import BadCalibration
from refoldc.fold import fold
from refoldc.importer import import_proto
from refoldc.ir import Conv, Graph
from refoldc.options import CompileOptions

OPTIONS = CompileOptions(mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.4))


def pixels(count: int = 40, size: tuple[int, ...] = (8, 8, 3)) -> NDArray[np.uint8]:
    """Return random images."""
    return np.random.default_rng(1).integers(0, 256, (count, *size), np.uint8)


@pytest.fixture(scope="module")
def pointwise() -> Graph:
    """Return y = 2 r - g + 1, clamped at 0, then an unused-looking second layer."""
    b = ModelBuilder((3, 8, 8))
    weights = b.const(np.array([2, -1, 0]).reshape(1, 3, 1, 1), np.float32)
    y = b.op("Conv", "x", weights, b.const([1.0], np.float32))
    return fold(import_proto(b.model(b.conv(b.op("Relu", y), 2, 1)), "net"))


def test_statistics_are_those_before_the_activation(pointwise: Graph) -> None:
    """Mean, deviation and peak of the convolution's output, from its formula."""
    images = pixels()
    found = calibrate(pointwise, images, OPTIONS)
    conv = pointwise.nodes[0]
    x = (images / 255 - OPTIONS.mean) / OPTIONS.std
    y = 2 * x[..., 0] - x[..., 1] + 1
    mean, deviation = found.moments[conv.name]
    np.testing.assert_allclose(mean, [y.mean()], rtol=1e-5)
    np.testing.assert_allclose(deviation, [y.std()], rtol=1e-5)
    np.testing.assert_allclose(found.peak[conv.name], [abs(y - 1).max()], rtol=1e-5)


def test_ranges_are_those_after_the_activation(pointwise: Graph) -> None:
    """The clamp shows in the range; the input's range is normalised."""
    images = pixels()
    found = calibrate(pointwise, images, OPTIONS)
    x = (images / 255 - OPTIONS.mean) / OPTIONS.std
    y = 2 * x[..., 0] - x[..., 1] + 1
    output = pointwise.nodes[0].output
    np.testing.assert_allclose(found.ranges[output], (0, y.max()), rtol=1e-5)
    np.testing.assert_allclose(found.ranges["x"], (x.min(), x.max()), rtol=1e-5)
    assert set(pointwise.shapes) == set(found.ranges)


def test_percentile_leaves_out_the_tail(pointwise: Graph) -> None:
    """The upper end is numpy's percentile, within a bin."""
    images = pixels()
    options = CompileOptions(
        mean=OPTIONS.mean, std=OPTIONS.std, calibration="percentile:99"
    )
    found = calibrate(pointwise, images, options)
    x = (images / 255 - OPTIONS.mean) / OPTIONS.std
    y = 2 * x[..., 0] - x[..., 1] + 1
    low, high = found.ranges[pointwise.nodes[0].output]
    assert 0.0 == low
    assert pytest.approx(np.percentile(y, 99), abs=(y.max() - y.min()) / 500) == high


def test_repeated_runs_agree_exactly() -> None:
    """Nothing depends on chance."""
    graph = fold(import_proto(small_classifier(), "net"))
    first, second = (calibrate(graph, pixels(), OPTIONS) for _ in range(2))
    assert first.ranges == second.ranges
    for name, pair in first.moments.items():
        np.testing.assert_array_equal(pair, second.moments[name])


def test_tensor_input_is_taken_as_it_is() -> None:
    """float32 values of the input tensor are not normalised."""
    graph = fold(import_proto(small_classifier(), "net"))
    x = np.random.default_rng(2).standard_normal((300, 8, 8, 3), np.float32)
    found = calibrate(graph, x, CompileOptions(input="tensor"))
    assert (float(x.min()), float(x.max())) == found.ranges["x"]
    assert () == found.notices


def test_estimated_targets_are_the_moments() -> None:
    """Marked convolutions, and only they, get the measured pair."""
    graph = fold(import_proto(small_classifier(batch_norm=False), "net"))
    calibration = calibrate(graph, pixels(), OPTIONS)
    sites = [
        n for n in estimate_targets(graph, calibration).nodes if isinstance(n, Conv)
    ]
    assert 2 == len(sites)
    for conv in sites:
        assert conv.bn is not None
        assert "estimated" == conv.bn.origin
        np.testing.assert_array_equal(calibration.moments[conv.name][1], conv.bn.sigma)


BAD: dict[str, tuple[NDArray[Any], CompileOptions, str]] = {
    "empty": (pixels(0), OPTIONS, "no calibration images"),
    "size": (pixels(4, (9, 8, 3)), OPTIONS, r"uint8 \[4, 9, 8, 3\].*\[N, 8, 8, 3\]"),
    "channels first": (pixels(4, (3, 8, 8)), OPTIONS, "move the channels last"),
    "grey": (pixels(4, (8, 8)), OPTIONS, r"\[4, 8, 8\]"),
    "type": (pixels(4).astype(np.float64), OPTIONS, "float64.*expected uint8"),
    "float pixels": (pixels(4).astype(np.float32), OPTIONS, "expected uint8"),
    "NaN": (
        np.full((4, 8, 8, 3), np.nan, np.float32),
        CompileOptions(input="tensor"),
        "NaN",
    ),
    "overflow": (
        np.full((4, 8, 8, 3), 3e38, np.float32),
        CompileOptions(input="tensor"),
        "overflows",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_data_are_refused(name: str) -> None:
    """The message gives what was found and what was expected."""
    images, options, message = BAD[name]
    graph = fold(import_proto(small_classifier(), "net"))
    with pytest.raises(BadCalibration, match=message):
        calibrate(graph, images, options)


@pytest.mark.parametrize("scale", [1e20, 1e30])
def test_moments_that_overflow_are_refused(scale: float) -> None:
    """Values near the end of float32 have ranges, but no deviations."""
    b = ModelBuilder((3, 8, 8))
    weights = b.const(scale * b.rng.normal(size=(4, 3, 3, 3)), np.float32)
    graph = fold(import_proto(b.model(b.op("Conv", "x", weights)), "net"))
    with pytest.raises(BadCalibration, match="'conv0' or its deviation overflows"):
        calibrate(graph, pixels(4), OPTIONS)


def test_constant_images_are_remarked() -> None:
    """One value everywhere compiles, with a notice; so do too few images."""
    graph = fold(import_proto(small_classifier(), "net"))
    found = calibrate(graph, np.full((4, 8, 8, 3), 7, np.uint8), OPTIONS)
    assert 2 == len(found.notices)
    assert "one value 7" in found.notices[0]
    assert "Only 4 calibration images" in found.notices[1]


def test_joined_statistics_are_those_of_the_whole() -> None:
    """Batches of any sizes give the moments of all values at once."""
    values = np.random.default_rng(3).standard_normal((7, 3, 10), np.float32)
    values[:, 1] = 1000 + values[:, 1] * np.float32(1e-2)  # hardly varies
    parts = [ChannelStats.of(part) for part in np.split(values, [1, 5])]
    whole = parts[0].joined(parts[1]).joined(parts[2])
    wide = values.astype(np.float64)
    mean, deviation = whole.moments
    np.testing.assert_allclose(mean, wide.mean(axis=(0, 2)), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(deviation, wide.std(axis=(0, 2)), rtol=1e-4)
    assert (float(values.min()), float(values.max())) == whole.range


def test_histogram_counts_every_value() -> None:
    """Both ends included, also where there is only one value."""
    values = np.linspace(-1, 3, 1001, dtype=np.float32)
    assert values.size == histogram(values, (-1.0, 3.0)).sum()
    assert 5 == histogram(np.ones(5, np.float32), (1.0, 1.0)).sum()


def test_all_values_are_inside_the_whole_range() -> None:
    """A share of 1 is min-max."""
    bins = histogram(np.linspace(-1, 3, 1001, dtype=np.float32), (-1.0, 3.0))
    assert (-1.0, 3.0) == percentile_range(bins, (-1.0, 3.0), 1.0)


def test_normalised_pixels() -> None:
    """(pixel / 255 - mean) / std per channel."""
    images = np.array([[[[0, 51, 255]]]], np.uint8)
    got = real_input(images, OPTIONS.for_input((1, 1, 3)))
    np.testing.assert_allclose(got.ravel(), [-2.0, -1.0, 1.0], rtol=1e-6)
