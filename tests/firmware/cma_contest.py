"""CMA-ES of PACE beside the packages cma and cmaes on the usual functions.

All get the same start, step and population, run without restarts, and count
evaluations up to the first candidate that reaches the target.
"""

from __future__ import annotations

import ctypes as c
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import cmaes
import numpy as np
from ctypes_pace import CmaRun
from numpy.typing import NDArray

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import cma

F64 = NDArray[np.float64]
TARGET = 1e-8
EVALUATIONS = 10**6
"""Where a run that has not reached the target counts as one that never will."""


def sphere(x: F64) -> F64:
    """Sum of squares along the last axis."""
    return (x**2).sum(axis=-1)


def ellipsoid(x: F64) -> F64:
    """Of condition 10^6."""
    return (1e6 ** np.linspace(0, 1, x.shape[-1]) * x**2).sum(axis=-1)


def rosenbrock(x: F64) -> F64:
    """The curved valley with its minimum at 1."""
    valley = x[..., 1:] - x[..., :-1] ** 2
    return (100 * valley**2 + (1 - x[..., :-1]) ** 2).sum(axis=-1)


@dataclass(frozen=True)
class Problem:
    """A function and where the search for its minimum begins."""

    loss: Callable[[F64], F64]
    mean: float
    sigma: float


PROBLEMS = {
    "sphere": Problem(sphere, 1.0, 1.0),
    "ellipsoid": Problem(ellipsoid, 1.0, 1.0),
    "Rosenbrock": Problem(rosenbrock, 0.0, 0.1),
}


@dataclass(frozen=True)
class Start:
    """What every contender begins from."""

    d: int
    population: int
    mean: float
    sigma: float
    seed: int


class Search(Protocol):
    """A run of one contender."""

    def ask_all(self) -> F64: ...

    def tell(self, losses: F64) -> None: ...

    @property
    def mean(self) -> F64: ...


class Refold:
    """The C of firmware/src/pace."""

    def __init__(self, lib: c.CDLL, start: Start, *, active: bool) -> None:
        self.run = CmaRun(
            lib, start.d, population=start.population, active=active, seed=start.seed
        )
        self.run.restart(np.full(start.d, start.mean, np.float32), start.sigma)

    def ask_all(self) -> F64:
        return self.run.ask_all().astype(float)

    def tell(self, losses: F64) -> None:
        self.run.tell(losses)

    @property
    def mean(self) -> F64:
        return self.run.mean.astype(float)


class PyCma:
    """The package cma, its own reasons to stop switched off."""

    def __init__(self, start: Start, *, active: bool) -> None:
        never = dict.fromkeys(("tolfun", "tolfunhist", "tolx"), 0)
        always = dict.fromkeys(("tolstagnation", "tolconditioncov", "maxiter"), 1e30)
        options = {
            **never,
            **always,
            "popsize": start.population,
            "CMA_active": active,
            "seed": start.seed,
            "verbose": -9,
        }
        mean = start.d * [start.mean]
        self.strategy = cma.CMAEvolutionStrategy(mean, start.sigma, options)
        self.x: list[F64] = []

    def ask_all(self) -> F64:
        self.x = self.strategy.ask()
        return np.array(self.x)

    def tell(self, losses: F64) -> None:
        self.strategy.tell(self.x, list(losses))

    @property
    def mean(self) -> F64:
        return np.array(self.strategy.mean)


class CmaEsPackage:
    """The package cmaes, whose update is always active."""

    def __init__(self, start: Start) -> None:
        self.optimizer = cmaes.CMA(
            mean=np.full(start.d, start.mean),
            sigma=start.sigma,
            population_size=start.population,
            seed=start.seed,
        )
        self.x = np.zeros((0, start.d))

    def ask_all(self) -> F64:
        asked = [self.optimizer.ask() for _ in range(self.optimizer.population_size)]
        self.x = np.array(asked)
        return self.x

    def tell(self, losses: F64) -> None:
        self.optimizer.tell(list(zip(self.x, losses, strict=True)))

    @property
    def mean(self) -> F64:
        mean: F64 = self.optimizer.mean
        return mean


Contender = Callable[[Start], Search]


def contenders(lib: c.CDLL) -> dict[str, Contender]:
    """By name; ``active`` says that the worse half of a population counts too."""
    return {
        "refold": lambda start: Refold(lib, start, active=False),
        "cma": lambda start: PyCma(start, active=False),
        "refold active": lambda start: Refold(lib, start, active=True),
        "cma active": lambda start: PyCma(start, active=True),
        "cmaes active": CmaEsPackage,
    }


def evaluations(search: Search, loss: Callable[[F64], F64]) -> float:
    """Evaluations until a candidate reaches the target; infinite where none does."""
    count = 0
    while count < EVALUATIONS:
        losses = loss(search.ask_all())
        (reached,) = np.nonzero(losses <= TARGET)
        if len(reached):
            return float(count + reached[0] + 1)
        count += len(losses)
        search.tell(losses)
    return np.inf


def median_evaluations(
    contender: Contender, name: str, d: int, population: int, runs: int
) -> float:
    """Over runs of different seeds."""
    problem = PROBLEMS[name]
    counts = []
    for seed in range(1, runs + 1):
        start = Start(d, population, problem.mean, problem.sigma, seed)
        counts.append(evaluations(contender(start), problem.loss))
    return float(np.median(counts))


def noisy_distance(
    contender: Contender, d: int, population: int, generations: int, runs: int
) -> float:
    """Median distance of the mean from the optimum of sphere + N(0, 1)."""
    distances = []
    for seed in range(1, runs + 1):
        rng = np.random.default_rng(seed)
        search = contender(Start(d, population, 1.0, 0.5, seed))
        for _ in range(generations):
            losses = sphere(search.ask_all())
            search.tell(losses + rng.normal(size=len(losses)))
        distances.append(np.linalg.norm(search.mean))
    return float(np.median(distances))


def ratio(values: dict[str, float], name: str) -> float:
    """Of ``name``, one of refold's, over the best of the others with its update."""
    others = [
        value
        for other, value in values.items()
        if "refold" not in other and ("active" in other) == ("active" in name)
    ]
    return values[name] / min(others)
