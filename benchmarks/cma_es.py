"""CMA-ES of PACE against the packages cma and cmaes, as a table.

    python benchmarks/cma_es.py
    python benchmarks/cma_es.py --function ellipsoid --dimensions 8,16 --runs 11

Median evaluations to 1e-8 without restarts, equal start, step and population
4 + floor(3 ln d); the last rows give the median distance from the optimum of a
sphere with noise N(0, 1) after 100 generations. Needs the test extra. Exits 1
where a median is above 1.15 times the best package's with the same update.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
from pathlib import Path

import click

TESTS = Path(__file__).resolve().parents[1] / "tests"
sys.path[:0] = [str(TESTS), str(TESTS / "firmware")]

from cma_contest import (  # noqa: E402
    PROBLEMS,
    Contender,
    contenders,
    median_evaluations,
    noisy_distance,
    ratio,
)
from ctypes_pace import load_pace  # noqa: E402

MOST = 1.15
GENERATIONS = 100
FUNCTIONS = (*PROBLEMS, "noisy sphere")


def measure(
    entry: Contender, function: str, d: int, population: int, runs: int
) -> float:
    """Evaluations, or a distance on the noisy sphere."""
    if function in PROBLEMS:
        return median_evaluations(entry, function, d, population, runs)
    return noisy_distance(entry, d, population, GENERATIONS, runs)


def contest(
    lib: ctypes.CDLL, function: str, d: int, runs: int
) -> tuple[str, tuple[float, float]]:
    """A row of the table, and refold's ratios without and with the active update."""
    population = lib.refold_cma_default_population(d)
    values = {
        name: measure(entry, function, d, population, runs)
        for name, entry in contenders(lib).items()
    }
    ratios = ratio(values, "refold"), ratio(values, "refold active")
    cells = [f"{v:.0f}" if v > 100 else f"{v:.3f}" for v in values.values()]
    cells += [f"{r:.2f}" for r in ratios]
    return f"| {function} | {d} | {' | '.join(cells)} |", ratios


@click.command()
@click.option(
    "--dimensions",
    default="8,16,32,64",
    help="Separated by commas; 64 takes minutes a run.",
)
@click.option(
    "--function",
    "functions",
    multiple=True,
    type=click.Choice(FUNCTIONS),
    default=FUNCTIONS,
    help="Repeatable; all without it.",
)
@click.option("--runs", default=5, help="Seeds of each median.")
def main(dimensions: str, functions: tuple[str, ...], runs: int) -> None:
    """Print the table as Markdown, line by line."""
    missed = False
    with tempfile.TemporaryDirectory() as folder:
        lib = load_pace(Path(folder), flags=("-O2",))
        print(
            f"| function | d | {' | '.join(contenders(lib))} | ratio | ratio active |"
        )
        print("|---|---|" + "---|" * (len(contenders(lib)) + 2))
        for function in functions:
            for d in map(int, dimensions.split(",")):
                row, ratios = contest(lib, function, d, runs)
                print(row, flush=True)
                missed |= function in PROBLEMS and max(ratios) > MOST
    sys.exit(missed)


if __name__ == "__main__":
    main()
