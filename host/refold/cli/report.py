"""``refold report``."""

from __future__ import annotations

from pathlib import Path

import click

from refold.baseline import Baseline, regressions, require_comparable, setting
from refold.cli.options import FILE, FOLDER, baseline_options
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
    baseline: Baseline | None,
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
    if history is not None:
        write_history(gather(history), output)
    named = [(_name(path, results), load_result(path)) for path in results]
    for _, result in named:
        show_result(result)
    if named:
        write_report(named, output)
    click.echo(f"wrote {output}")
    worse = [_worse(baseline, name, result) for name, result in named if baseline]
    return int(any(worse))


def _worse(baseline: Baseline, name: str, result: Result) -> bool:
    """Show what a result lost to the baseline; return whether it lost anything."""
    if not result.complete:
        raise UserError(
            f"{name} cannot be compared with a baseline: its run ended early "
            f"({result.verdict}); run it again"
        )
    require_comparable(baseline, setting(result))
    found = regressions(baseline, result)
    show_regressions(found, baseline.name)
    return bool(found)


def _name(path: Path, paths: tuple[Path, ...]) -> str:
    """Return the shortest name that tells the file from the others."""
    stems = [other.stem for other in paths]
    return path.stem if stems.count(path.stem) == 1 else str(path.with_suffix(""))
