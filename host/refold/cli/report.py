"""``refold report``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import structs

from refold.baseline import (
    Baseline,
    Tolerances,
    compare,
    require_comparable,
    setting,
)
from refold.cli.options import (
    FILE,
    FOLDER,
    baseline_options,
    check_outputs,
    load_baseline,
)
from refold.console import show_regressions, show_result
from refold.errors import UserError
from refold.history import gather, write_history
from refold.report import write_report
from refold.result import Result, load_result


@click.command(name="report")
@click.argument("results", metavar="[RESULT]...", nargs=-1, type=FILE)
@click.option(
    "-o",
    "--output",
    type=FILE,
    default=Path("refold-report.html"),
    show_default=True,
    help="Where to write the page.",
)
@click.option(
    "--history",
    type=FOLDER,
    metavar="FOLDER",
    help="Show all results in a folder along time instead.",
)
@baseline_options
def command(
    results: tuple[Path, ...],
    output: Path,
    history: Path | None,
    baseline: Path | None,
    tolerances: Tolerances,
) -> int:
    """Show results side by side, on the terminal and as an HTML page.

    With --history the page shows accuracy and latency along time, each RESULT
    file below FOLDER a point. A page that is there already is replaced.
    """
    if (history is None) == (not results):
        raise UserError(
            "refold report takes either result files or --history FOLDER; "
            "name one of them"
        )
    check_outputs({"-o": output}, [*results, *([baseline] if baseline else [])])
    if history is not None:
        if baseline is not None:
            raise UserError(
                "--baseline judges RESULT files; leave it out with --history"
            )
        write_history(gather(history), output, tolerances.accuracy)
        click.echo(f"wrote {output}")
        return 0
    earlier = load_baseline(baseline, tolerances)
    return _side_by_side(results, output, earlier)


def _side_by_side(
    paths: tuple[Path, ...], output: Path, baseline: Baseline | None
) -> int:
    """Show and write results; return 1 where one is worse than the baseline."""
    named = list(zip(_names(paths), map(load_result, paths), strict=True))
    if baseline is not None:
        named = [(name, _judged(baseline, name, result)) for name, result in named]
    for _, result in named:
        show_result(result)
    write_report(named, output)
    click.echo(f"wrote {output}")
    if baseline is None:
        return 0
    records = [result.baseline for _, result in named if result.baseline]
    for record in records:
        show_regressions(record)
    return int(any(record.worse for record in records))


def _judged(baseline: Baseline, name: str, result: Result) -> Result:
    """Return a result with what it lost to the baseline."""
    if not result.complete:
        raise UserError(
            f"{name} cannot be compared with a baseline: its run ended early "
            f"({result.verdict}); run it again"
        )
    require_comparable(baseline, setting(result))
    return structs.replace(result, baseline=compare(baseline, result))


def _names(paths: Sequence[Path]) -> list[str]:
    """Return names that tell files apart: their own, or else the parts that differ.

    Raises:
        UserError: A file is given twice.
    """
    places = [path.resolve() for path in paths]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise UserError(f"{paths[number]} is given twice; name each result once")
    stems = [path.stem for path in paths]
    if len(set(stems)) == len(stems):
        return stems
    parts = [place.with_suffix("").parts for place in places]
    for end, rest in ((0, slice(1, None)), (-1, slice(-1))):
        while min(map(len, parts)) > 1 and len({part[end] for part in parts}) == 1:
            parts = [part[rest] for part in parts]
    return ["/".join(part) for part in parts]
