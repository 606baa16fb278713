"""Random numbers, exponential, transform and projection of PACE."""

from __future__ import annotations

import ctypes as c

import numpy as np
import pace_model
import pytest
import scipy.linalg
import scipy.special
from ctypes_kernels import Guarded, guard
from ctypes_pace import F32, Fastfood, Random
from numpy.typing import NDArray

from refoldc.recalibrate import log32

LN_MOST = 88


def exp32(lib: c.CDLL, x: F32) -> F32:
    """refold_exp32 of each."""
    return np.array([lib.refold_exp32(c.c_float(v)) for v in x], np.float32)


def test_exponential(pace: c.CDLL) -> None:
    """Over the whole range the exponential errs by at most 1.1 ulp."""
    x = np.linspace(-87, LN_MOST, 100_001).astype(np.float32)
    tiny = np.float32(2.0) ** -np.arange(1, 40, dtype=np.float32)
    x = np.concatenate([x, tiny, -tiny])
    right = np.exp(x.astype(float))
    ulp = np.spacing(right.astype(np.float32)).astype(float)
    assert (np.abs(exp32(pace, x) - right) / ulp).max() <= 1.1


def test_logarithm() -> None:
    """Its definition errs by at most 3 ulp, near 1 and over the whole range."""
    step = np.arange(0x00800000, 0x7F800000, 2003, dtype=np.uint32)
    near = np.arange(0x3F000000, 0x40000000, 31, dtype=np.uint32)
    x = np.concatenate([step, near]).view(np.float32)
    x = x[x != 1]
    right = np.log(x.astype(float))
    ulp = np.spacing(np.abs(right.astype(np.float32))).astype(float)
    assert (np.abs(log32(x) - right) / ulp).max() <= 3
    assert [0] == list(log32(np.ones(1, np.float32)))


def test_exponential_outside(pace: c.CDLL) -> None:
    """Outside of its range it is 0 or e^88; 0 for NaN; exactly 1 at 0."""
    x = np.float32([-np.inf, -1e30, -87.01, np.nan, 88, 89, 1e30, np.inf, 0, -0.0])
    most = pace.refold_exp32(c.c_float(LN_MOST))
    expected = [0, 0, 0, 0, most, most, most, most, 1, 1]
    np.testing.assert_array_equal(np.float32(expected), exp32(pace, x))


def block(
    lib: c.CDLL, *, seed: int, purpose: int, generation: int, candidate: int, index: int
) -> NDArray[np.uint32]:
    """refold_random_block."""
    stream, words = (
        Random(seed, purpose, generation, candidate),
        Guarded((4,), np.uint32),
    )
    lib.refold_random_block(c.byref(stream), c.c_uint32(index), words.pointer)
    assert words.is_intact()
    return words.array


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        (0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (2**32 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ],
)
def test_philox_is_philox(word: int, expected: str) -> None:
    """The model of the generator gives the known answers of Random123."""
    got = pace_model.philox(np.full((1, 4), word, np.uint32), (word, word))
    assert expected == " ".join(f"{word:08x}" for word in got[0])


def test_philox(pace: c.CDLL) -> None:
    """Blocks anywhere in any stream equal the model's."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        seed, index, candidate, generation, purpose = (
            int(v) for v in rng.integers(0, 2**32, 5)
        )
        counter = np.array([[index, candidate, generation, purpose]], np.uint32)
        got = block(
            pace,
            seed=seed,
            purpose=purpose,
            generation=generation,
            candidate=candidate,
            index=index,
        )
        np.testing.assert_array_equal(pace_model.philox(counter, (seed, 0))[0], got)


def normals(lib: c.CDLL, count: int, seed: int = 1, candidate: int = 0) -> F32:
    """refold_random_normal of generation 7."""
    stream = Random(seed, pace_model.CANDIDATE, 7, candidate)
    x = Guarded((count,), np.float32)
    lib.refold_random_normal(c.byref(stream), x.pointer, c.c_uint32(count))
    assert x.is_intact()
    return x.array.copy()


def test_normal_numbers(pace: c.CDLL) -> None:
    """They are the quantiles of the stream's words; a longer draw begins alike."""
    expected = pace_model.normals(4001, 1, 7, 0)
    np.testing.assert_allclose(normals(pace, 4001), expected, rtol=2e-6, atol=1e-7)
    np.testing.assert_array_equal(normals(pace, 4001)[:13], normals(pace, 13))


def test_quantile(pace: c.CDLL) -> None:
    """The quantile errs by less than 1e-6 from end to end, and is odd."""
    ends = 2.0 ** -np.arange(1.0, 25.0)
    p = np.concatenate([ends, 1 - ends, np.linspace(0.001, 0.999, 2001)])
    p = p.astype(np.float32)
    got = np.array([pace.refold_normal_quantile(c.c_float(v)) for v in p])
    right = scipy.special.ndtri(p.astype(float))
    np.testing.assert_allclose(got, right, rtol=1e-6, atol=1e-7)
    assert 0 == pace.refold_normal_quantile(c.c_float(0.5))


def test_uniform_never_ends(pace: c.CDLL) -> None:
    """The least and the greatest word give numbers inside of (0, 1)."""
    got = [pace.refold_random_uniform(c.c_uint32(w)) for w in (0, 2**32 - 1)]
    assert [2.0**-24, 1 - 2.0**-24] == got


def test_candidates_are_independent(pace: c.CDLL) -> None:
    """Candidates of one generation neither repeat nor correlate."""
    draws = np.stack([normals(pace, 4096, candidate=i) for i in range(12)])
    correlation = np.corrcoef(draws) - np.eye(12)
    assert np.abs(correlation).max() < 5 / np.sqrt(4096)
    assert np.abs(draws.mean(axis=1)).max() < 4 / np.sqrt(4096)
    assert np.abs(draws.std(axis=1) - 1).max() < 4 / np.sqrt(2 * 4096)


def transform(lib: c.CDLL, x: NDArray[np.float64]) -> F32:
    """refold_wht of a copy."""
    buffer = guard(x.astype(np.float32))
    lib.refold_wht(buffer.pointer, c.c_uint32(len(x)))
    assert buffer.is_intact()
    return buffer.array.copy()


@pytest.mark.parametrize("count", [1, 2, 4, 64, 512])
def test_transform_is_exact(pace: c.CDLL, count: int) -> None:
    """Integers up to 2^15 transform without an error."""
    x = np.random.default_rng(count).integers(-(2**15), 2**15, count, endpoint=True)
    x[: count // 2] = 2**15
    np.testing.assert_array_equal(scipy.linalg.hadamard(count) @ x, transform(pace, x))


def test_transform_of_2_to_the_15(pace: c.CDLL) -> None:
    """Twice applied at length 2^15 it multiplies small integers by 2^15."""
    x = np.random.default_rng(5).integers(-16, 17, 2**15).astype(float)
    twice = transform(pace, transform(pace, x))
    np.testing.assert_array_equal(2.0**15 * x, twice)


def project(lib: c.CDLL, v: NDArray[np.float64], outputs: int, seed: int = 1) -> F32:
    """refold_fastfood_project."""
    lib.refold_fastfood_floats.restype = c.c_uint32
    room = lib.refold_fastfood_floats(c.c_uint32(outputs))
    theta, source = Guarded((room,), np.float32), guard(v.astype(np.float32))
    shape = Fastfood(seed, len(v), outputs)
    lib.refold_fastfood_project(c.byref(shape), source.pointer, theta.pointer)
    assert theta.is_intact()
    assert source.is_intact()
    return theta.array[:outputs].copy()


@pytest.mark.parametrize(
    ("inputs", "outputs"), [(1, 1), (1, 2), (3, 3), (8, 100), (32, 256), (64, 784)]
)
@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1])
def test_projection_is_the_dense_one(
    pace: c.CDLL, inputs: int, outputs: int, seed: int
) -> None:
    """The projection of random vectors equals the dense matrix's."""
    dense = pace_model.fastfood_matrix(seed, inputs, outputs)
    for v in np.random.default_rng(seed).normal(size=(3, inputs)):
        got = project(pace, v, outputs, seed)
        scale = np.linalg.norm(v)
        np.testing.assert_allclose(dense @ v, got, rtol=0, atol=1e-5 * scale)


def columns(lib: c.CDLL, inputs: int, outputs: int, seed: int = 1) -> F32:
    """The matrix by its columns, [outputs, inputs]."""
    return np.stack([project(lib, e, outputs, seed) for e in np.eye(inputs)], axis=1)


def test_projection_of_a_power_of_two_keeps_norms(pace: c.CDLL) -> None:
    """Nothing is cut at 1,024 outputs: P is a rotation into them."""
    p = columns(pace, 32, 1024).astype(float)
    np.testing.assert_allclose(p.T @ p, np.eye(32), rtol=0, atol=1e-5)


def test_projection_keeps_norms(pace: c.CDLL) -> None:
    """At ResNet-20's 1,568 outputs unit vectors keep their norm within 15 %."""
    p = columns(pace, 32, 1568)
    v = np.random.default_rng(4).normal(size=(32, 1000))
    norms = np.linalg.norm(p @ v, axis=0) / np.linalg.norm(v, axis=0)
    assert np.abs(norms - 1).max() < 0.15
    assert abs(norms.mean() - 1) < 0.02


@pytest.mark.parametrize("outputs", [784, 1568])
@pytest.mark.parametrize("seed", range(4))
def test_projection_needs_no_calibration(pace: c.CDLL, outputs: int, seed: int) -> None:
    """The root mean square norm over all unit vectors is 1 within 0.5 %."""
    p = columns(pace, 32, outputs, seed).astype(float)
    assert abs(np.sqrt((p**2).sum() / 32) - 1) < 0.005


def test_projection_has_nearly_orthogonal_columns(pace: c.CDLL) -> None:
    """Cosines between columns are those of random vectors, or less."""
    p = columns(pace, 64, 1568)
    unit = p / np.linalg.norm(p, axis=0)
    cosines = unit.T @ unit - np.eye(64)
    assert np.abs(cosines).max() < 5 / np.sqrt(1568)


def test_projection_follows_its_seed(pace: c.CDLL) -> None:
    """The same seed gives the same bits, another one an unrelated image."""
    v = np.random.default_rng(6).normal(size=32)
    v /= np.linalg.norm(v)
    first, again, other = (project(pace, v, 784, seed) for seed in (9, 9, 10))
    assert first.tobytes() == again.tobytes()
    assert abs(first @ other) < 5 / np.sqrt(784)
