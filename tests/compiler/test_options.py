"""Compile options: what means nothing is refused before any work."""

from __future__ import annotations

from typing import Any

import pytest

from refoldc.errors import BadOptions
from refoldc.options import CompileOptions


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("input", "video", "expected one of 'pixels', 'tensor'"),
        ("adapt", "magic", "expected one of 'none', 'forge'"),
        ("targets", "best", "expected one of 'mix', 'bn'"),
        ("sites", "14,6", "14\\+6\\+5"),
        ("sites", "auto:0", "auto:K"),
        ("moved_sites", "auto:3", "'first', 'last', or site numbers"),
        ("moved_sites", "last", "adapt is 'forge', which moves no site"),
        ("calibration", "percentile:x", "percentile:99.99"),
        ("calibration", "percentile:0.5", "above 50"),
        ("calibration", "entropy", "'minmax'"),
        ("std", (0.0, 1.0, 1.0), "positive"),
        ("std", (float("nan"), 1.0, 1.0), "finite"),
        ("mean", (123.7, 116.3, 103.5), "divide it"),
    ],
)
def test_bad_values(option: str, value: Any, message: str) -> None:
    """The message gives the value and what was expected."""
    with pytest.raises(BadOptions, match=message):
        CompileOptions(**{option: value})


def test_equalisation_needs_least_and_largest_values() -> None:
    """Percentiles of a tensor do not say where its channels end."""
    with pytest.raises(BadOptions, match="choose minmax or no equalisation"):
        CompileOptions(calibration="percentile:99.9", equalise=True)


@pytest.mark.parametrize(
    ("shape", "mode"),
    [
        ((8, 8, 1), "pixels"),
        ((8, 8, 3), "pixels"),
        ((8, 8, 16), "tensor"),
        ((12,), "tensor"),
    ],
)
def test_default_input(shape: tuple[int, ...], mode: str) -> None:
    """Grey and colour images are pixels, anything else a tensor."""
    assert mode == CompileOptions().for_input(shape).input


def test_defaults_for_an_image() -> None:
    """Pixels are scaled to [0, 1], and the user is told."""
    options = CompileOptions().for_input((8, 8, 3))
    assert (0.0, 0.0, 0.0) == options.mean
    assert (1.0, 1.0, 1.0) == options.std
    assert 1 == len(CompileOptions().notices(pixels=True))
    assert () == CompileOptions(mean=(0.5,)).notices(pixels=True)
    assert () == CompileOptions(input="tensor").notices(pixels=False)


def test_normalisation_must_fit_the_channels() -> None:
    """One number a channel."""
    with pytest.raises(BadOptions, match=r"mean has 3 numbers.* 1 channels"):
        CompileOptions(mean=(0.1, 0.2, 0.3)).for_input((8, 8, 1))


def test_pixels_need_an_image() -> None:
    """A vector is no image."""
    with pytest.raises(BadOptions, match="choose input 'tensor'"):
        CompileOptions(input="pixels").for_input((12,))


def test_percentile_is_read() -> None:
    """minmax has none."""
    assert CompileOptions().percentile is None
    assert 99.99 == CompileOptions(calibration="percentile:99.99").percentile
