"""``refold run --protocol mlperf-tiny``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
from click.core import ParameterSource
from rich.table import Table

from refold.console import ERR, OUT, watching
from refold.errors import UserError
from refold.files import check_place
from refold.mlperf.result import MlperfResult, write_mlperf
from refold.mlperf.run import MlperfOptions, run_mlperf

TAKEN = (
    "artefact",
    "data",
    "board",
    "port",
    "wait",
    "protocol",
    "images",
    "check",
    "power",
    "json_file",
)


def refuse_others(ctx: click.Context) -> None:
    """Refuse options on the command line that mean nothing to the benchmark.

    Raises:
        UserError: There are some.
    """
    given = [
        parameter.opts[0]
        for parameter in ctx.command.params
        if parameter.name not in TAKEN
        and ctx.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE
    ]
    if given:
        raise UserError(
            f"--protocol mlperf-tiny runs the static network on clean images and takes "
            f"no {', '.join(given)}; leave them out"
        )


def run_as_mlperf(
    artefact: Path, options: MlperfOptions, json_file: Path | None
) -> int:
    """Run, save, show; return the exit code."""
    if json_file is not None:
        check_place(json_file)
    with watching() as watch:
        result = run_mlperf(artefact, options, watch=watch)
    if json_file is not None:
        write_mlperf(result, json_file)
    show(result)
    return 0 if result.verdict == "pass" else 1


def show(result: MlperfResult) -> None:
    """Print the figures that the public runner prints, and why it is no pass."""
    table = Table(title=f"{result.model} on {result.board}: MLPerf Tiny")
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_row("device", f"{result.dut}, {result.benchmark}")
    for figure, value in _figures(result):
        table.add_row(figure, value)
    OUT.print(table)
    for reason in result.reasons:
        ERR.print(f"{result.verdict}: {reason}", highlight=False, soft_wrap=True)


def _figures(result: MlperfResult) -> Iterator[tuple[str, str]]:
    accuracy, performance, energy = result.accuracy, result.performance, result.energy
    if accuracy is not None:
        yield "images", str(accuracy.images)
        yield "top-1, %", f"{accuracy.top1:.1f}"
        yield "AUC", "-" if accuracy.auc is None else f"{accuracy.auc:.3f}"
    if performance is not None:
        yield "median throughput, images/s", f"{performance.throughput:.3f}"
    if energy is not None:
        yield "median energy, uJ/inference", f"{energy.inference_uj:.3f}"
        yield "median power, mW", f"{energy.power_mw:.3f}"
    for mode in (accuracy, energy):
        if mode is not None:
            missed = mode.differing
            yield "parity misses", "not checked" if missed is None else str(missed)
