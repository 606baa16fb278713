"""The windows of the performance and the energy mode."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from numpy.typing import NDArray

from refold.errors import InfraError
from refold.mlperf.dut import Dut
from refold.mlperf.result import Window

WINDOWS = 5
WINDOW_S = 10.0
"""The rules' least length of a window."""
WARMUPS = 1
TRIES = 5
_MARGIN = 1.1
"""A window is planned so much longer than it must be."""

W = TypeVar("W", bound=Window)
Measure = Callable[[int, int], W]
"""From numbers of inferences and of warm-ups before them to what they took."""


def windows(
    dut: Dut, images: NDArray[Any], measure: Measure[W], window_s: float
) -> Iterator[W]:
    """Yield five windows, each of another image as long as there are others.

    Args:
        dut: The device, into which images are loaded.
        images: As the device takes them.
        measure: Runs the loaded image.
        window_s: Least length.

    Raises:
        InfraError: The device is lost, or its speed changes all the time.
    """
    dut.load(images[0].tobytes())
    count = _inferences(measure, window_s)
    for number in range(WINDOWS):
        dut.load(images[number % len(images)].tobytes())
        window = _window(dut, measure, count, window_s)
        count = window.inferences
        yield window


def _window(dut: Dut, measure: Measure[W], count: int, window_s: float) -> W:
    """One window; run anew with more inferences where it was too short."""
    least_us = 1e6 * window_s
    for _ in range(TRIES):
        window = measure(count, WARMUPS)
        if window.us >= least_us:
            return window
        count = math.ceil(_MARGIN * count * least_us / window.us)
    raise InfraError(
        f"port {dut.url}: {TRIES} windows in turn were shorter than the {window_s:g} s "
        "planned by the ones before: the board's speed changes; run again while "
        "nothing else uses it"
    )


def _inferences(measure: Measure[W], window_s: float) -> int:
    """How many inferences make a window, found by doubling up to a twentieth of it."""
    window = measure(1, WARMUPS)
    while window.us < 1e6 * window_s / 20:
        window = measure(2 * window.inferences, 0)
    return math.ceil(_MARGIN * window.inferences * 1e6 * window_s / window.us)
