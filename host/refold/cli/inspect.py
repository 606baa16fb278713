"""``refold inspect``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from refoldc.inspection import Inspection, LayerInfo, inspect_model

from refold.cli.options import MODEL
from refold.console import OUT


@click.command(name="inspect")
@click.argument("model", type=MODEL)
def command(model: Path) -> int:
    """Show a model's layers, cost and recalibration sites, and what will not compile.

    Exits 2 where the model does not compile.
    """
    inspection = inspect_model(model)
    OUT.print(layer_table(inspection))
    sites = inspection.sites
    click.echo(
        f"{inspection.macs:,} MACs, {inspection.parameters:,} parameters, "
        f"{len(sites)} recalibration sites with "
        f"{sum(site.shape[-1] for site in sites):,} channels"
    )
    for notice in inspection.notices:
        click.echo(f"note: {notice}")
    for problem in inspection.problems:
        click.echo(f"will not compile: {problem}", err=True)
    return 2 if inspection.problems else 0


def layer_table(inspection: Inspection) -> Table:
    """Return one row a layer."""
    shape = " x ".join(map(str, inspection.input_shape))
    table = Table(title=f"{inspection.name}: input {shape}")
    for title in ("layer", "op", "output", "MACs", "parameters", "site", "why"):
        number = title in ("MACs", "parameters")
        table.add_column(title, justify="right" if number else "left")
    for layer in inspection.layers:
        table.add_row(
            layer.name,
            layer.op,
            " x ".join(map(str, layer.shape)),
            f"{layer.macs:,}",
            f"{layer.parameters:,}",
            _site(layer),
            layer.reason,
        )
    return table


def _site(layer: LayerInfo) -> str:
    if layer.site is None:
        return ""
    off = "" if layer.default_on else ", off by default"
    return f"{layer.site}: {layer.targets} targets{off}"
