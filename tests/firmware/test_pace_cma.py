"""CMA-ES of PACE against the tutorial in float64."""

from __future__ import annotations

import ctypes as c

import numpy as np
import pytest
from ctypes_pace import CmaRun, factor_floats
from pace_model import CmaEs

CASES = [(1, 4), (2, 5), (8, 10), (32, 14), (64, 16), (65, 16)]


def ellipsoid(x: np.ndarray) -> np.ndarray:
    """Of condition 100 about 1, along the last axis."""
    weights = 100.0 ** np.linspace(0, 1, x.shape[-1])
    return (weights * (x.astype(float) - 1) ** 2).sum(axis=-1)


def pair(
    lib: c.CDLL, d: int, population: int, active: bool, seed: int = 5
) -> tuple[CmaRun, CmaEs]:
    """The same run in C and in the model, begun off the origin."""
    run = CmaRun(lib, d, population=population, active=active, seed=seed)
    model = CmaEs(d, population, active, seed)
    start = np.random.default_rng(d).normal(size=d).astype(np.float32)
    run.restart(start, 0.3)
    model.restart(start, float(np.float32(0.3)))
    return run, model


def compare(run: CmaRun, model: CmaEs) -> None:
    """Mean, step, paths and covariance within 1e-5 of the model's scale."""
    d = run.d
    scale = np.abs(model.mean).max()
    np.testing.assert_allclose(run.mean, model.mean, rtol=0, atol=1e-5 * scale)
    assert np.isclose(model.sigma, run.c.sigma, rtol=1e-5, atol=0)
    for got, right in (
        (run.c.path_sigma, model.p_sigma),
        (run.c.path_c, model.p_c),
    ):
        np.testing.assert_allclose(got[:d], right, rtol=0, atol=1e-5 * np.sqrt(d))
    factor = np.zeros((d, d))
    values = run.c.factor[: factor_floats(d)]
    factor[np.tril_indices(d) if d <= 64 else np.diag_indices(d)] = values
    np.testing.assert_allclose(factor, model.factor, rtol=0, atol=1e-5)
    assert run.memory.is_intact()


@pytest.mark.parametrize(("d", "population"), CASES)
@pytest.mark.parametrize("active", [False, True])
def test_generations(pace: c.CDLL, d: int, population: int, active: bool) -> None:
    """Ten generations agree with the model fed the same losses."""
    run, model = pair(pace, d, population, active)
    for _ in range(10):
        x = run.ask_all()
        np.testing.assert_allclose(x, model.candidates(), rtol=0, atol=2e-5)
        losses = ellipsoid(x).astype(np.float32)
        before = model.mean
        run.tell(losses)
        model.tell(losses)
        compare(run, model)
        change = np.linalg.norm(model.mean - before) / np.linalg.norm(before)
        assert np.isclose(change, run.c.change, rtol=1e-4)


def test_long_path_stalls_the_covariance(pace: c.CDLL) -> None:
    """On a slope h_sigma closes, as in the model."""
    run, model = pair(pace, 8, 10, False)
    stalls = 0
    for _ in range(12):
        losses = run.ask_all()[:, 0]
        path = model.p_c
        run.tell(losses)
        model.tell(losses)
        stalls += np.allclose(model.p_c, (1 - model.c_c) * path) and path.any()
        compare(run, model)
    assert stalls > 0


@pytest.mark.parametrize("distance", [0.1, 50.0])
def test_injection(pace: c.CDLL, distance: float) -> None:
    """Injected points are candidates as given; far ones are cut in the update."""
    run, model = pair(pace, 8, 10, True)
    points = np.random.default_rng(1).normal(size=(4, 8)) * distance
    points = (points + model.mean).astype(np.float32)
    assert [True] * 4 == [run.inject(x) for x in points]
    assert not run.inject(points[0])
    model.injected = [x.astype(float) for x in points]
    tolerance = 1e-5 * max(1, distance)
    np.testing.assert_allclose(run.ask_all()[:4], points, rtol=0, atol=tolerance)
    losses = np.arange(10, dtype=np.float32)
    run.tell(losses)
    model.tell(losses)
    compare(run, model)
    assert 0 == run.c.injected_count


def test_injected_mean(pace: c.CDLL) -> None:
    """The mean may be a candidate, and the worst one: it has no direction to learn."""
    run, model = pair(pace, 8, 10, True)
    assert run.inject(run.mean)
    model.injected = [model.mean]
    np.testing.assert_array_equal(run.mean, run.ask(0))
    losses = np.float32([9, 0, 1, 2, 3, 4, 5, 6, 7, 8])
    run.tell(losses)
    model.tell(losses)
    compare(run, model)


def test_restart_keeps_the_given_mean(pace: c.CDLL) -> None:
    """It searches around that mean, forgets C, and repeats no random number."""
    run, _ = pair(pace, 8, 10, False)
    first = run.ask_all() - run.mean
    for _ in range(5):
        run.tell(ellipsoid(run.ask_all()))
    mean = np.linspace(1, 2, 8).astype(np.float32)
    run.restart(mean, 0.3)
    np.testing.assert_array_equal(mean, run.mean)
    assert np.float32(0.3) == np.float32(run.c.sigma)
    again = run.ask_all() - mean
    assert np.abs(again).max() < 0.3 * 5.5
    assert np.abs(np.corrcoef(first.ravel(), again.ravel())[0, 1]) < 0.5
    assert not pace.refold_cma_has_settled(c.byref(run.c), c.c_float(1e30))


def test_candidates_need_no_order(pace: c.CDLL) -> None:
    """Asking backwards, twice or never changes neither candidates nor the update."""
    runs = [pair(pace, 32, 14, True)[0] for _ in range(2)]
    for _ in range(5):
        losses = ellipsoid(runs[0].ask_all()).astype(np.float32)
        backwards = [runs[1].ask(i) for i in (13, 3, 3)]
        expected = [runs[0].ask(i) for i in (13, 3, 3)]
        np.testing.assert_array_equal(expected, backwards)
        for run in runs:
            run.tell(losses)
        assert runs[0].state == runs[1].state


def test_ties_and_nan(pace: c.CDLL) -> None:
    """Equal losses rank by index, NaN last: as if the losses had been 0, 1, 2, ..."""
    runs = [pair(pace, 8, 6, True)[0] for _ in range(3)]
    runs[0].tell(np.float32([0, 1, 2, 3, 4, 5]))
    runs[1].tell(np.float32([7, 7, 7, 7, 7, 7]))
    runs[2].tell(np.float32([-0.0, 0, 1, 1, np.nan, np.nan]))
    assert runs[0].state == runs[1].state == runs[2].state


def test_stop_measure(pace: c.CDLL) -> None:
    """A run settles when its mean moves by less than the fraction asked for."""
    run, _ = pair(pace, 8, 10, False)
    run.tell(ellipsoid(run.ask_all()))
    change = run.c.change
    above, below = c.c_float(change * 1.01), c.c_float(change * 0.99)
    assert pace.refold_cma_has_settled(c.byref(run.c), above)
    assert not pace.refold_cma_has_settled(c.byref(run.c), below)
    run.restart(None, 0.3)
    run.tell(ellipsoid(run.ask_all()))
    assert np.finfo(np.float32).max == np.float32(run.c.change)


@pytest.mark.parametrize(
    ("d", "population"), [(1, 4), (8, 10), (32, 14), (64, 16), (2304, 27)]
)
def test_default_population(pace: c.CDLL, d: int, population: int) -> None:
    """It is 4 + floor(3 ln d)."""
    assert population == pace.refold_cma_default_population(c.c_uint32(d))


def test_memory_of_32_dimensions(pace: c.CDLL) -> None:
    """A run of 32 dimensions takes less than 6 KB."""
    run = CmaRun(pace, 32, population=14, active=False)
    pointers = 4 * c.sizeof(c.c_void_p)  # half of 8: the device's are 4 bytes
    assert run.memory.array.nbytes + c.sizeof(run.c) - pointers < 6 * 1024


def test_random_losses_do_no_harm(pace: c.CDLL) -> None:
    """1,000 generations of noise leave finite numbers and a regular factor."""
    run, _ = pair(pace, 8, 10, True)
    rng = np.random.default_rng(8)
    for _ in range(1000):
        run.tell(rng.random(10))
    diagonal = np.array(run.c.factor[:36])[[0, 2, 5, 9, 14, 20, 27, 35]]
    assert np.isfinite(run.c.factor[:36]).all()
    assert np.isfinite(run.mean).all()
    assert (diagonal > 0).all()
    assert 0 < run.c.sigma < np.inf
