"""``refold compile``."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path
from typing import Literal

import click

from refoldc.artefact import Artefact
from refoldc.errors import BoundMissed
from refoldc.fold import fold
from refoldc.importer import import_proto
from refoldc.loading import load_onnx
from refoldc.options import ADAPT, CompileOptions
from refoldc.pipeline import compile_model
from refoldc.rank_sites import IMAGES
from refoldc.ranking import auto_count

from refold.boards import load_board
from refold.bounds import parse_bound
from refold.cli.options import FOLDER, MODEL, floats, shape_option
from refold.console import watching
from refold.data import load_data
from refold.held_out import corrupted_versions
from refold.placement import board_limits, describe, place
from refold.verdict import LOW, search_line, summary

_logger = logging.getLogger(__name__)


@click.command(name="compile")
@click.argument("model", type=MODEL)
@click.option("--calib", required=True, metavar="SPEC", help="Calibration images.")
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    required=True,
    type=FOLDER,
    help="Artefact to write.",
)
@click.option(
    "--calib-images",
    type=click.IntRange(1),
    default=512,
    show_default=True,
    help="How many of them to use.",
)
@click.option(
    "--board", metavar="ID", help="Refuse a model that this board cannot hold."
)
@click.option(
    "--mean",
    type=floats,
    metavar="a,b,c",
    help="Of pixels in [0, 1], a number a channel; default 0.",
)
@click.option(
    "--std",
    type=floats,
    metavar="a,b,c",
    help="Of pixels in [0, 1], a number a channel; default 1.",
)
@click.option(
    "--input",
    "input_mode",
    type=click.Choice(["pixels", "tensor"]),
    help="What the device takes; default pixels where there are 1 or 3 channels.",
)
@click.option(
    "--sites",
    default="all",
    show_default=True,
    help="Sites that adapt by default: all, auto:K for the K most useful ones, or "
    "numbers such as 14+6+5.",
)
@click.option(
    "--adapt",
    type=click.Choice(ADAPT),
    default="forge",
    show_default=True,
    help="Adaptation code and state in the firmware.",
)
@click.option(
    "--moved-sites",
    default="first",
    show_default=True,
    help="Sites that PACE moves: the first or the last ones until they have 32 "
    "channels, or numbers such as 3+4. What lies before them runs once an image.",
)
@click.option(
    "--calibration",
    default="minmax",
    show_default=True,
    help="Activation ranges: minmax, or percentile:P.",
)
@click.option(
    "--targets",
    type=click.Choice(["mix", "bn"]),
    default="mix",
    show_default=True,
    help="Moments that FORGE restores.",
)
@shape_option
@click.option(
    "--correct-bias/--no-correct-bias",
    default=True,
    show_default=True,
    help="Take what quantisation adds to the mean of a channel out of its bias.",
)
@click.option(
    "--equalise/--no-equalise",
    default=False,
    show_default=True,
    help="Level the channels between convolutions before quantising.",
)
@click.option(
    "--dump-layers",
    is_flag=True,
    help="Write DIR/layers.npz: every layer's output, float and int8, on the golden "
    "images.",
)
@click.option(
    "--fail-under",
    multiple=True,
    metavar="EXPR",
    help="Exit 1 where this does not hold, such as agreement>=99; repeatable.",
)
def command(
    model: Path,
    calib: str,
    output: Path,
    calib_images: int,
    board: str | None,
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
    input_mode: Literal["pixels", "tensor"] | None,
    sites: str,
    adapt: str,
    moved_sites: str,
    calibration: str,
    targets: Literal["mix", "bn"],
    shapes: tuple[str, ...],
    correct_bias: bool,
    equalise: bool,
    dump_layers: bool,
    fail_under: tuple[str, ...],
) -> int:
    """Compile an ONNX model to int8 C that recalibrates itself.

    DIR receives the C sources, the manifest with an accuracy report, and what the
    host needs to check the firmware.
    """
    bounds = [parse_bound(text, metrics=("agreement",)) for text in fail_under]
    limits = None if board is None else board_limits(load_board(board))
    graph = fold(import_proto(load_onnx(model, shapes), model.stem))
    shape = graph.sample_shape
    options = CompileOptions(
        mean=mean,
        std=std,
        input=input_mode,
        sites=sites,
        adapt=adapt,
        moved_sites=moved_sites,
        calibration=calibration,
        targets=targets,
        shape=shapes,
        correct_bias=correct_bias,
        equalise=equalise,
    )
    options.for_input(shape)  # before reading data: it may not fit the model
    with watching() as watch:
        watch.stage(f"reading {calib}")
        data = load_data(calib, split="train", limit=calib_images, shape=shape)
        corrupted = None
        if auto_count(sites):
            watch.stage("corrupting calibration images")
            corrupted = corrupted_versions(data, limit=IMAGES)
        artefact = compile_model(
            *(model, data.images, output),
            options=options,
            limits=limits,
            progress=watch.stage,
            dump_layers=dump_layers,
            corrupted=corrupted,
        )
    _summarise(artefact)
    if limits is not None and limits.ram_bytes is not None:
        target = load_board(limits.board)
        placement = place(artefact.qgraph, target, search=artefact.manifest.search)
        click.echo(describe(placement, target))
    for notice in artefact.manifest.notices:
        click.echo(f"note: {notice}")
    agreed = artefact.manifest.accuracy.agreement
    for bound in bounds:
        if not bound.holds(agreed):
            raise BoundMissed(f"bound {bound.text} is missed: found {agreed:g}")
    return 0


def _summarise(artefact: Artefact) -> None:
    manifest, memory = artefact.manifest, artefact.manifest.memory
    origins = Counter(site.origin for site in manifest.sites)
    targets = ", ".join(f"{count} {origin}" for origin, count in origins.items())
    click.echo(
        f"{artefact.path}: {len(manifest.layers)} layers, "
        f"{manifest.model.macs:,} MACs, {manifest.model.parameters:,} parameters"
    )
    click.echo(
        f"sites: {len(manifest.sites)} with "
        f"{sum(site.channels for site in manifest.sites):,} channels"
        + (f"; targets: {targets}" if targets else "")
    )
    if manifest.ranking is not None:
        chosen = [str(i) for i, site in enumerate(manifest.sites) if site.default_on]
        click.echo(
            f"adapting: sites {'+'.join(chosen)} ({manifest.options.sites}), "
            f"a = {manifest.shrinkage:g}"
        )
    click.echo(
        f"memory: {memory.weights_bytes:,} bytes of constants, {memory.arena_bytes:,} "
        f"bytes of RAM, {memory.adapt_state_bytes:,} of them adaptation state"
    )
    click.echo(
        f"peak: {manifest.peak.bytes:,} bytes of tensors at layer {manifest.peak.layer}"
    )
    if line := search_line(manifest):
        click.echo(line)
    what = "class" if len(manifest.output.shape) == 1 else "largest output"
    accuracy = manifest.accuracy
    click.echo("\n".join(summary(accuracy, manifest.options, what=what)))
    if accuracy.agreement < LOW:
        _logger.warning(
            "the int8 network answers otherwise than the float model on %.1f %% of the "
            "images",
            100 - accuracy.agreement,
        )
