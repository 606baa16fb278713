"""``refold run``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click

from refoldc.artefact import LAYERS

from refold.baseline import Tolerances
from refold.cli import INTERRUPTED
from refold.cli.mlperf import refuse_others, run_as_mlperf
from refold.cli.options import (
    FILE,
    FOLDER,
    baseline_options,
    board_option,
    check_outputs,
    deadline_option,
    load_baseline,
    port_option,
    power_cycle_option,
    wait_option,
)
from refold.console import show_regressions, show_result, watching
from refold.job import DEFAULT_MODES, OnReset
from refold.junit import write_junit
from refold.mlperf.run import MlperfOptions
from refold.report import write_report
from refold.result import Result, Verdict, write_result
from refold.runner import RunOptions, run
from refold.schedule import Schedule
from refold.streaming import MOST_RESETS

TIMES = click.IntRange(1, 1000)
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "fail": 1, "infra": 3, "skipped": 0}


@click.command(name="run")
@click.argument("artefact", metavar="DIR", type=FOLDER)
@click.option("--data", required=True, metavar="SPEC", help="Labelled images.")
@board_option
@port_option
@wait_option
@deadline_option
@power_cycle_option
@click.option(
    "--on-reset",
    type=click.Choice(["fail", "resume"]),
    default="fail",
    show_default=True,
    help="Where a board restarts or is cut off: end the run, or stream the stream that "
    f"was cut off once more from its start, at most {MOST_RESETS} times.",
)
@click.option(
    "--protocol",
    type=click.Choice(["refold", "mlperf-tiny"]),
    default="refold",
    show_default=True,
    help="mlperf-tiny: drive the board as MLPerf Tiny's public runner does; accuracy "
    "and performance of the static network, or with --power its energy.",
)
@click.option(
    "--corruptions",
    default="all",
    show_default=True,
    metavar="all|none|LIST",
    help="Which of the 15 corruptions to stream, besides clean images.",
)
@click.option("--severity", type=click.IntRange(1, 5), default=5, show_default=True)
@click.option(
    "--adapt",
    show_default=f"{DEFAULT_MODES}; off where the model cannot adapt",
    metavar="MODES",
    help="Modes to compare, such as off,forge,forge:a=0.7;stats=exact.",
)
@click.option("--images", type=click.IntRange(1), help="Stream only so many.")
@click.option(
    "--stream",
    type=click.Choice(["reset", "continual"]),
    default="reset",
    show_default=True,
    help="Whether adaptation starts anew with each stream.",
)
@click.option(
    "--switch-every",
    type=click.IntRange(1),
    metavar="N",
    help="Change the corruption after N images (continual).",
)
@click.option("--rounds", type=TIMES, default=1, show_default=True)
@click.option("--repeats", type=TIMES, default=1, show_default=True)
@click.option("--shuffle", is_flag=True, help="Another order of images each repeat.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--output",
    metavar="NAME",
    help="Output to score, where the model has several; default the first vector.",
)
@click.option(
    "--profile", is_flag=True, help="Measure and show what each layer takes, too."
)
@click.option(
    "--power",
    metavar="ppk2:PORT",
    help="Measure the energy of each image with a Power Profiler Kit II "
    "(docs/power.md).",
)
@click.option("--json", "json_file", type=FILE, help="Write the result there.")
@click.option("--html", "html_file", type=FILE, help="Write a report there.")
@click.option("--junit", "junit_file", type=FILE, help="Write JUnit XML there.")
@click.option(
    "--fail-under",
    multiple=True,
    metavar="EXPR",
    help="Exit 1 where this does not hold, such as forge.gain>=20; repeatable.",
)
@click.option(
    "--check/--no-check",
    default=True,
    help="Compare every reply with the host model bit for bit (default).",
)
@click.option(
    "--dump-layers",
    type=click.IntRange(1),
    default=None,
    metavar="N",
    help="First fetch every layer's output for N images and compare it with the host "
    "model; exits 1 naming the first tensor that differs.",
)
@baseline_options
def command(
    artefact: Path,
    data: str,
    board: str,
    port: str | None,
    wait: float,
    deadline: float | None,
    power_cycle: str | None,
    on_reset: OnReset,
    protocol: Literal["refold", "mlperf-tiny"],
    corruptions: str,
    severity: int,
    adapt: str | None,
    images: int | None,
    stream: Literal["reset", "continual"],
    switch_every: int | None,
    rounds: int,
    repeats: int,
    shuffle: bool,
    seed: int,
    output: str | None,
    profile: bool,
    power: str | None,
    json_file: Path | None,
    html_file: Path | None,
    junit_file: Path | None,
    fail_under: tuple[str, ...],
    check: bool,
    dump_layers: int | None,
    baseline: Path | None,
    tolerances: Tolerances,
) -> int:
    """Stream images through a board's firmware and score the replies.

    DIR is what 'refold compile' wrote; the firmware is built into it where it is
    missing. Exits 0 where all is well, 1 where a bound or parity is missed, 2 where
    the input is at fault, 3 where the board was lost, and 130 after Ctrl-C; the last
    two keep the results so far.
    """
    if protocol == "mlperf-tiny":
        refuse_others(click.get_current_context())
        return run_as_mlperf(
            artefact,
            MlperfOptions(
                data=data,
                board=board,
                port=port,
                images=images,
                check=check,
                wait_s=wait,
                power=power,
            ),
            json_file,
        )
    options = RunOptions(
        data=data,
        board=board,
        port=port,
        corruptions=corruptions,
        severity=severity,
        adapt=adapt,
        images=images,
        schedule=Schedule(
            stream=stream,
            switch_every=switch_every,
            rounds=rounds,
            repeats=repeats,
            shuffle=shuffle,
            seed=seed,
        ),
        check=check,
        dump_layers=dump_layers or 0,
        fail_under=fail_under,
        output=output,
        profile=profile,
        baseline=load_baseline(baseline, tolerances),
        power=power,
        wait=wait,
        deadline=deadline,
        on_reset=on_reset,
        power_cycle=power_cycle,
    )
    check_outputs(
        {"--json": json_file, "--html": html_file, "--junit": junit_file},
        [baseline] if baseline else [],
    )
    with watching() as watch:
        result = run(artefact, options, watch=watch)
    save(result, json_file=json_file, html_file=html_file, junit_file=junit_file)
    show_result(result)
    if result.baseline is not None:
        show_regressions(result.baseline)
    if dump_layers and result.verdict != "infra":
        file = artefact / "build" / result.board.id / LAYERS
        click.echo(f"layer outputs, all equal to the host model's: {file}")
    return exit_code(result)


def exit_code(result: Result) -> int:
    """Return what a command that shows ``result`` exits with."""
    return INTERRUPTED if result.interrupted else EXIT_CODES[result.verdict]


def save(
    result: Result,
    *,
    json_file: Path | None = None,
    html_file: Path | None = None,
    junit_file: Path | None = None,
) -> None:
    """Write the files that were asked for."""
    if json_file is not None:
        write_result(result, json_file)
    if html_file is not None:
        write_report([(result.model.name, result)], html_file)
    if junit_file is not None:
        write_junit(result, junit_file)
