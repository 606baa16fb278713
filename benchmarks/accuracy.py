"""Make docs/accuracy.md: what equalisation and bias correction are worth.

    python benchmarks/accuracy.py --models DIR --calib cifar10:PATH --data SPEC

The bundled digits network, and ResNet-20 and MobileNetV2 in DIR, are compiled in
every combination. The choice is made on images of the training split that were not
used for calibration; the test images are reported. Exits 1 where the default loses
more than half a point of agreement, or half a decibel, on those held-out images.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

from refoldc.artefact import Artefact
from refoldc.compare import compare
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model

from refold.data import load_data
from refold.job import RunOptions
from refold.runner import run

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/accuracy.md"
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CALIBRATION_IMAGES, HELD_OUT = 512, 256
STREAMS = "gaussian_noise,contrast,jpeg_compression"
WAYS = {
    "neither": (False, False),
    "bias correction": (True, False),
    "equalisation": (False, True),
    "both": (True, True),
}
DEFAULT = "bias correction"
HEAD = """# Accuracy of the int8 network

What `refold compile` reports and how to read it is in the README. This page says
what its two corrections are worth. **dB** is the signal to quantisation noise of the
logits and **agreement** the share of images with one largest output in float and
int8, both on {held_out} images of the training split that were not used for
calibration: on them the default was chosen. **clean** and **FORGE** are top-1
accuracies on the test images, FORGE's the mean of {streams}, severity 5, on the
native board.

Bias correction is on by default. Equalisation is not (`--equalise`): weights have a
scale a channel here, so there is little for it to level, and ReLU6 bars it from most
of MobileNetV2.

Made by

```sh
python benchmarks/accuracy.py --models MODELS --calib {calib} --data {data}
```
"""


@dataclass(frozen=True)
class Network:
    """A model, its data and normalisation."""

    title: str
    path: Path
    calib: str
    data: str
    normalised: bool = True


@dataclass(frozen=True)
class Row:
    """One way of compiling, measured."""

    way: str
    decibels: float
    agreement: float
    clean: float
    forge: float


@click.command()
@click.option("--models", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--calib", metavar="SPEC", required=True)
@click.option("--data", metavar="SPEC", required=True)
@click.option("--output", type=click.Path(path_type=Path), default=PAGE)
def main(models: Path, calib: str, data: str, output: Path) -> None:
    """Write the page; see the top of this file."""
    names = [spec.partition(":")[0] + ":PATH" for spec in (calib, data)]
    networks = (
        Network("Digits", ROOT / "models/digits.onnx", "digits", "digits", False),
        Network("ResNet-20", models / "resnet20_cifar10_forge.onnx", calib, data),
        Network(
            "MobileNetV2 x0.5",
            models / "mobilenetv2x05_cifar10_forge.onnx",
            calib,
            data,
        ),
    )
    page = [
        HEAD.format(
            held_out=HELD_OUT,
            streams=STREAMS.replace("_", " ").replace(",", ", "),
            calib=names[0],
            data=names[1],
        )
    ]
    kept = True
    for network in networks:
        rows = list(measure(network))
        by_way = {row.way: row for row in rows}
        plain, chosen = by_way["neither"], by_way[DEFAULT]
        kept = kept and chosen.agreement >= plain.agreement - 0.5
        kept = kept and chosen.decibels >= plain.decibels - 0.5
        page += table(network, rows)
    output.write_text("\n".join(page), encoding="utf-8")
    sys.exit(0 if kept else 1)


def measure(network: Network) -> Iterator[Row]:
    """Compile and run a network in every way."""
    folded = fold(import_model(network.path))
    shape = folded.shapes[folded.input]
    limit = CALIBRATION_IMAGES + HELD_OUT
    images = load_data(network.calib, split="train", limit=limit, shape=shape).images
    given = {"mean": MEAN, "std": STD} if network.normalised else {}
    for way, (bias, level) in WAYS.items():
        options = CompileOptions(**given, correct_bias=bias, equalise=level)
        with tempfile.TemporaryDirectory() as folder:
            made = compile_model(
                *(network.path, images[:CALIBRATION_IMAGES], Path(folder) / "a"),
                options=options,
            )
            held_out = images[CALIBRATION_IMAGES:]
            found = compare(folded, made.qgraph, held_out, options.for_input(shape))
            row = Row(way, found.output_db, found.agreement, *scores(made, network))
            print(network.title, row, flush=True)
            yield row


def scores(made: Artefact, network: Network) -> tuple[float, float]:
    """Clean accuracy off, and the mean with FORGE over the corrupted streams."""
    options = RunOptions(data=network.data, corruptions=STREAMS, check=False)
    result = run(made.path, options)
    off, forge = result.runs
    return off.clean_accuracy or np.nan, forge.mean_accuracy or np.nan


def table(network: Network, rows: list[Row]) -> list[str]:
    """The network's part of the page, as lines."""
    return [
        f"## {network.title}",
        "",
        "| corrections | dB | agreement | clean | FORGE |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {r.way} | {r.decibels:.1f} | {r.agreement:.1f} | {r.clean:.1f} | "
            f"{r.forge:.1f} |"
            for r in rows
        ),
        "",
    ]


if __name__ == "__main__":
    main()
