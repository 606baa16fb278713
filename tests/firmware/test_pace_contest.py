"""CMA-ES of PACE needs no more evaluations than the packages do."""

from __future__ import annotations

import ctypes as c
from pathlib import Path

import pytest
from ctypes_pace import load_pace

pytest.importorskip("cma", reason="the test extra brings cma")
pytest.importorskip("cmaes", reason="the test extra brings cmaes")

from cma_contest import (
    PROBLEMS,
    contenders,
    median_evaluations,
    noisy_distance,
    ratio,
)

OURS = ("refold", "refold active")
MOST = 1.15


@pytest.fixture(scope="module")
def fast(tmp_path_factory: pytest.TempPathFactory) -> c.CDLL:
    """The library as it is shipped."""
    out: Path = tmp_path_factory.mktemp("contest")
    return load_pace(out, flags=("-O2",))


def compare(lib: c.CDLL, problem: str, d: int, runs: int) -> None:
    """Medians with either update against the best of the others."""
    population = lib.refold_cma_default_population(d)
    values = {
        name: median_evaluations(contender, problem, d, population, runs)
        for name, contender in contenders(lib).items()
    }
    assert [] == [name for name in OURS if ratio(values, name) > MOST], values


@pytest.mark.parametrize("problem", PROBLEMS)
def test_few_evaluations(fast: c.CDLL, problem: str) -> None:
    """To 1e-8 in 8 dimensions, the median is within 1.15 of each package's."""
    compare(fast, problem, 8, 5)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("d", [16, 32, 64])
def test_few_evaluations_in_many_dimensions(fast: c.CDLL, problem: str, d: int) -> None:
    """The same up to the largest full covariance."""
    compare(fast, problem, d, 5)


@pytest.mark.parametrize("d", [8, pytest.param(32, marks=pytest.mark.slow)])
def test_noise(fast: c.CDLL, d: int) -> None:
    """After 100 generations on a noisy sphere it is as near as the packages."""
    population = fast.refold_cma_default_population(d)
    values = {
        name: noisy_distance(contender, d, population, 100, 15)
        for name, contender in contenders(fast).items()
    }
    assert [] == [name for name in OURS if ratio(values, name) > 1.25], values
