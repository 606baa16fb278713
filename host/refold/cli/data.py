"""``refold data``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from refold.cli.options import FOLDER
from refold.console import ERR
from refold.data.fetch import fetch
from refold.data.sources import SOURCES
from refold.watch import Watch


@click.group(name="data")
def command() -> None:
    """Get public data sets."""


@command.command(name="fetch")
@click.argument("name", metavar="NAME", type=click.Choice(list(SOURCES)))
@click.option(
    "-o",
    "--output",
    type=FOLDER,
    default=Path("data"),
    show_default=True,
    help="Folder that will hold the data set's own.",
)
def fetch_command(name: str, output: Path) -> int:
    """Download a data set from its official source, check and unpack it.

    NAME is cifar10, cifar10c, cifar100c or tiny-imagenet-c. A download that broke off
    goes on where it stopped.
    """
    source = SOURCES[name]
    with _bar() as bar:
        task = bar.add_task(name, total=source.bytes)

        def advance(present: int, total: int | None) -> None:
            bar.update(task, completed=present, total=total)

        class Stages(Watch):
            def stage(self, text: str) -> None:
                super().stage(text)
                bar.console.print(text, highlight=False, soft_wrap=True)

        folder = fetch(source, output, watch=Stages(), progress=advance)
    click.echo(f"use it as: --data {source.spec}:{folder}")
    return 0


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=ERR,
        transient=True,
        disable=not ERR.is_terminal,
    )
