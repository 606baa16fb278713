"""Bank, window sums, fitness, shift detector and source shift of PACE."""

from __future__ import annotations

import ctypes as c
from dataclasses import dataclass

import numpy as np
import pace_model
import pytest
from ctypes_kernels import Guarded, guard
from ctypes_pace import (
    F32,
    I64,
    Bank,
    Moments,
    Shift,
    Source,
    SourceShift,
    Window,
)
from numpy.typing import NDArray


class BankTwin:
    """A bank in guarded memory."""

    def __init__(self, lib: c.CDLL, capacity: int, d: int) -> None:
        self.lib, self.capacity, self.d = lib, capacity, d
        self.memory = Guarded((capacity, d), np.float32)
        self.c = Bank(d, capacity, 0, self.memory.pointer)

    def insert(self, v: F32) -> None:
        """refold_bank_insert."""
        self.lib.refold_bank_insert(c.byref(self.c), guard(v).pointer)
        assert self.memory.is_intact()

    def pick(self, losses: F32) -> list[int | None]:
        """refold_bank_pick, as indices; None is the zero vector."""
        starts = (c.c_void_p * 5)()
        count = self.lib.refold_bank_pick(
            c.byref(self.c), guard(losses).pointer, starts
        )
        first = self.memory.array.ctypes.data
        return [
            None if starts[i] is None else (starts[i] - first) // (4 * self.d)
            for i in range(count)
        ]

    @property
    def vectors(self) -> F32:
        """What is stored, oldest first."""
        stored: F32 = self.memory.array[: self.c.count]
        return stored


def test_bank_drops_the_most_similar(pace: c.CDLL) -> None:
    """A full bank loses the vector of the highest mean cosine and keeps its order."""
    rng = np.random.default_rng(1)
    bank, expected = BankTwin(pace, 8, 32), np.zeros((0, 32), np.float32)
    for _ in range(40):
        v = rng.normal(rng.normal(size=32) * 0.5, 1).astype(np.float32)
        if len(expected) == 8:
            dropped = pace_model.most_similar(expected.astype(float))
            expected = np.delete(expected, dropped, axis=0)
        expected = np.vstack([expected, v])
        bank.insert(v)
        np.testing.assert_array_equal(expected, bank.vectors)


def test_bank_of_equals_drops_the_oldest(pace: c.CDLL) -> None:
    """Among equally similar vectors the oldest goes; zero vectors are no one's like."""
    bank = BankTwin(pace, 3, 2)
    for v in ([0, 0], [1, 0], [2, 0], [0, 3]):
        bank.insert(np.float32(v))
    np.testing.assert_array_equal(np.float32([[0, 0], [2, 0], [0, 3]]), bank.vectors)
    single = BankTwin(pace, 1, 2)
    for v in ([1, 2], [3, 4]):
        single.insert(np.float32(v))
    np.testing.assert_array_equal(np.float32([[3, 4]]), single.vectors)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([1.0], [None]),
        ([2.0, 1.0], [0, None]),
        ([1.0, 1.0, 1.0], [None, 0, 1]),
        ([3, 9, 1, np.nan, 2, 8, 0], [5, 1, 3, None, 4]),
    ],
)
def test_bank_pick(
    pace: c.CDLL, losses: list[float], expected: list[int | None]
) -> None:
    """The best comes first, ties by index, at most four follow."""
    bank = BankTwin(pace, 8, 4)
    for _ in losses[1:]:
        bank.insert(np.ones(4, np.float32))
    assert expected == bank.pick(np.float32(losses))


@dataclass
class WindowTwin:
    """Sums of integer samples [N, channels] in guarded memory."""

    lib: c.CDLL
    channels: int
    stat_shift: int = 0

    def __post_init__(self) -> None:
        """Empty sums."""
        self.s1, self.s2 = (Guarded((self.channels,), np.int64) for _ in range(2))
        self.c = Window(
            self.channels, 0, self.stat_shift, self.s1.pointer, self.s2.pointer
        )
        self.lib.refold_window_clear(c.byref(self.c))

    def add(self, samples: I64) -> None:
        """refold_window_add of one image."""
        s1, s2 = guard(samples.sum(axis=0)), guard((samples**2).sum(axis=0))
        self.lib.refold_window_add(
            c.byref(self.c), s1.pointer, s2.pointer, c.c_uint32(len(samples))
        )
        assert self.s1.is_intact()
        assert self.s2.is_intact()

    def moments(self) -> tuple[F32, F32]:
        """Mean and variance of each channel."""
        got: list[Moments] = [
            self.lib.refold_window_moments(c.byref(self.c), c.c_uint32(i))
            for i in range(self.channels)
        ]
        return np.float32([m.mean for m in got]), np.float32([m.variance for m in got])


def samples(rng: np.random.Generator, channels: int, pixels: int) -> I64:
    """Accumulators: narrow and wide, near 0 and at the ends, dead ones too."""
    centre = rng.choice([0, -1, 1, 300, -32768, 32767, 20000], channels)
    width = rng.choice([0, 0.1, 1, 50, 4000], channels)
    a = np.round(rng.normal(centre, width, (pixels, channels)))
    return np.clip(a, -(2**15), 2**15 - 1).astype(np.int64)


@pytest.mark.parametrize("pixels", [1, 64, 1024])
@pytest.mark.parametrize("stat_shift", [0, 1, 11])
def test_window_moments(pace: c.CDLL, pixels: int, stat_shift: int) -> None:
    """Moments over several images equal float64's, however far the mean is from 0."""
    rng = np.random.default_rng([pixels, stat_shift])
    window, images = WindowTwin(pace, 64, stat_shift), []
    for _ in range(5):
        images.append(samples(rng, 64, pixels))
        window.add(images[-1])
        a = np.concatenate(images)
        mean, variance = window.moments()
        h = 0.5 - 2.0 ** -(stat_shift + 1)
        right = a.mean(axis=0) + h
        assert (np.abs(mean - right) <= 2.0**-23 * (1 + np.abs(right))).all()
        np.testing.assert_allclose(variance, a.var(axis=0), rtol=5e-7, atol=0)


def test_window_of_the_extremes(pace: c.CDLL) -> None:
    """2^31 - 1 values at the ends of int16 neither overflow nor lose their moments."""
    window = WindowTwin(pace, 2)
    count = 2**31 - 1
    sums = np.array([-(2**15), 2**15 - 1], np.int64) * count
    squares = np.array([2**30, (2**15 - 1) ** 2], np.int64) * count
    s1, s2 = guard(sums), guard(squares)
    pace.refold_window_add(c.byref(window.c), s1.pointer, s2.pointer, c.c_uint32(count))
    mean, variance = window.moments()
    np.testing.assert_array_equal(np.float32([-(2**15), 2**15 - 1]), mean)
    np.testing.assert_array_equal(np.float32([0, 0]), variance)


@pytest.mark.parametrize("count", [1, 2, 10, 1000])
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.1])
def test_entropy(pace: c.CDLL, count: int, scale: float) -> None:
    """It is the softmax's, from certainty to uniformity."""
    rng = np.random.default_rng(count)
    most = 1e-6 * (1 + np.log(count))
    for width in (0, 1, 100, 30_000, 2**31 - 1):
        logits = rng.integers(-width - 1, width, count, np.int32, endpoint=True)
        got = pace.refold_entropy(
            guard(logits).pointer, c.c_uint32(count), c.c_float(scale)
        )
        right = pace_model.entropy(logits, float(np.float32(scale)))
        assert abs(got - right) <= most
        assert got >= 0


def source_moments(rng: np.random.Generator, channels: int) -> tuple[F32, F32, F32]:
    """Mean, variance and weight of clean images."""
    mean = rng.normal(0, 300, channels).astype(np.float32)
    variance = np.exp(rng.normal(4, 2, channels)).astype(np.float32)
    return mean, variance, (1 / np.sqrt(variance)).astype(np.float32)


def test_discrepancy(pace: c.CDLL) -> None:
    """It is the published sum of norms, weighted; 0 for an empty window."""
    rng = np.random.default_rng(2)
    mean, variance, weight = source_moments(rng, 48)
    arrays = [guard(v) for v in (mean, variance, weight)]
    source = Source(*(a.pointer for a in arrays))
    window = WindowTwin(pace, 48)
    assert 0 == pace.refold_discrepancy(c.byref(window.c), c.byref(source))
    images = [samples(rng, 48, 64) for _ in range(4)]
    for image in images:
        window.add(image)
    got = pace.refold_discrepancy(c.byref(window.c), c.byref(source))
    right = pace_model.discrepancy(
        np.concatenate(images).astype(float),
        *(v.astype(float) for v in (mean, variance, weight)),
    )
    assert np.isclose(right, got, rtol=1e-5)


def test_fitness(pace: c.CDLL) -> None:
    """Mean entropy plus lambda times the discrepancies."""
    got = pace.refold_fitness(
        c.c_float(12), c.c_uint32(8), c.c_float(0.5), c.c_float(3)
    )
    assert 3.0 == got


def test_shift_detector(pace: c.CDLL) -> None:
    """Distances and reference follow the published rule along a stream that shifts."""
    rng = np.random.default_rng(3)
    floor = np.full(16, 0.25, np.float32)
    memory = [guard(floor), *(Guarded((16,), np.float32) for _ in range(2))]
    detector = Shift(16, 0, 0.8, *(m.pointer for m in memory))
    reference: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    distances = []
    for t in range(8):
        window = WindowTwin(pace, 16)
        centre, width = (40, 9) if t < 5 else (80, 20)
        a = np.round(rng.normal(centre, width, (512, 16))).astype(np.int64)
        a[:, 0] = 7  # a dead channel
        window.add(a)
        got = pace.refold_shift_distance(c.byref(detector), c.byref(window.c))
        mean, variance = a.mean(axis=0), a.var(axis=0)
        if reference is None:
            assert 0 == got
            reference = mean, variance
        else:
            m2, v2 = reference
            right = pace_model.divergence(
                mean, np.maximum(variance, 0.25), m2, np.maximum(v2, 0.25)
            )
            assert np.isclose(right, got, rtol=1e-5, atol=1e-7)
            reference = 0.8 * m2 + 0.2 * mean, 0.8 * v2 + 0.2 * variance
        distances.append(got)
        pace.refold_shift_absorb(c.byref(detector), c.byref(window.c))
        for held, right in zip(memory[1:], reference, strict=True):
            np.testing.assert_allclose(held.array, right, rtol=1e-5)
    assert max(distances[:5]) < 0.1 < distances[5]
    assert all(m.is_intact() for m in memory)


def test_source_shift(pace: c.CDLL) -> None:
    """Features return towards the source as the running mean leaves it."""
    source = np.float32([10.25, -100, 100, 0])
    memory = guard(source), Guarded((4,), np.float32)
    shift = SourceShift(4, 0.1, *(m.pointer for m in memory))
    pace.refold_source_shift_reset(c.byref(shift))

    def shifted(feature: list[int]) -> list[int]:
        buffer = guard(np.int8(feature))
        pace.refold_source_shift_apply(c.byref(shift), buffer.pointer)
        assert buffer.is_intact()
        return list(buffer.array)

    assert [-128, -1, 0, 127] == shifted([-128, -1, 0, 127])
    running = source.astype(float)
    for _ in range(30):
        feature = guard(np.int8([30, 100, -100, 1]))
        pace.refold_source_shift_absorb(c.byref(shift), feature.pointer)
        running = 0.9 * running + 0.1 * np.array([30, 100, -100, 1])
        np.testing.assert_allclose(memory[1].array, running, rtol=1e-5)
    move = np.floor(source - running + 0.5)
    expected = np.clip(np.array([5, -50, 90, -7]) + move, -128, 127)
    assert list(expected) == shifted([5, -50, 90, -7])
    assert [-128, 127] == list(expected[1:3])
