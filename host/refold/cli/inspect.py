"""``refold inspect``."""

from __future__ import annotations

from pathlib import Path

import click

from refoldc.artefact import MANIFEST, Artefact, load_artefact
from refoldc.inspection import Inspection, LayerInfo, inspect_model

from refold.cli.options import MODEL, shape_option
from refold.columns import Column, table
from refold.console import OUT
from refold.verdict import layer_columns as accuracy_columns
from refold.verdict import search_line, summary


@click.command(name="inspect")
@click.argument("model", type=MODEL)
@shape_option
def command(model: Path, shapes: tuple[str, ...]) -> int:
    """Show a model's layers and cost, or what will not compile.

    Of a compiled model, a directory: how accurate each of its layers is. A terminal
    gets what fits, a file or pipe everything. Exits 2 where the model does not compile.
    """
    if (model / MANIFEST).is_file():
        _show_accuracy(load_artefact(model), OUT.width if OUT.is_terminal else None)
        return 0
    inspection = inspect_model(model, shapes)
    for problem in inspection.problems:
        click.echo(f"will not compile: {problem}", err=True)
    if inspection.problems:
        return 2
    _show(inspection, OUT.width if OUT.is_terminal else None)
    return 0


def _show_accuracy(artefact: Artefact, width: int | None) -> None:
    manifest, accuracy = artefact.manifest, artefact.manifest.accuracy
    click.echo(f"{artefact.path}: {manifest.model.name}, compiled by {manifest.refold}")
    click.echo("\n".join(table(accuracy_columns(accuracy.layers), width)))
    if line := search_line(manifest):
        click.echo(line)
    what = "class" if len(manifest.output.shape) == 1 else "largest output"
    click.echo("\n".join(summary(accuracy, manifest.options, what=what)))


def _show(inspection: Inspection, width: int | None) -> None:
    sites = inspection.sites
    click.echo(f"{inspection.name}: input {_spell(inspection.input_shape)}")
    click.echo("\n".join(table(layer_columns(inspection.layers), width)))
    click.echo(
        f"{inspection.macs:,} MACs, {inspection.parameters:,} parameters, "
        f"{len(sites)} recalibration sites with "
        f"{sum(site.shape[-1] for site in sites):,} channels"
    )
    if not all(site.default_on for site in sites):
        click.echo("note: sites with one position an image are off by default")
    for notice in inspection.notices:
        click.echo(f"note: {notice}")


def layer_columns(layers: tuple[LayerInfo, ...]) -> list[Column]:
    """Return one row a layer."""
    return [
        Column("layer", tuple(layer.name for layer in layers)),
        Column("op", tuple(layer.op for layer in layers)),
        Column("output", tuple(_spell(layer.shape) for layer in layers), spare=True),
        _numbers("MACs", [layer.macs for layer in layers]),
        _numbers("parameters", [layer.parameters for layer in layers]),
        Column("site", tuple(map(_site, layers))),
        Column("why", tuple(map(_why, layers))),
    ]


def _numbers(title: str, values: list[int]) -> Column:
    return Column(title, tuple(f"{v:,}" for v in values), right=True, spare=True)


def _spell(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def _site(layer: LayerInfo) -> str:
    if layer.site is None:
        return ""
    return f"{layer.site}" if layer.default_on else f"{layer.site} (off)"


def _why(layer: LayerInfo) -> str:
    return ", ".join(filter(None, (layer.reason, layer.targets)))
