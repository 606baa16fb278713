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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.calibrate import calibrate, estimate_targets, real_input
from refoldc.compare import decibel
from refoldc.equalise import equalise
from refoldc.float_export import channels_first, float_model, open_session
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.ir import F64, Graph
from refoldc.options import CompileOptions
from refoldc.pipeline import quantise_corrected

from refold.data import DataSet, load_data

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/accuracy.md"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/compiler")]

from emitted import EmittedModel  # noqa: E402 - a helper of the tests

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CALIBRATION_IMAGES, HELD_OUT = 512, 256
STREAMS = ("gaussian_noise", "contrast", "jpeg_compression")
SEVERITY = 5
WAYS = {
    "neither": (False, False),
    "bias correction": (True, False),
    "equalisation": (False, True),
    "both": (True, True),
}
DEFAULT = "bias correction"
HEAD = """# Accuracy of the int8 network

## Reading the report

`refold compile` compares the int8 network with the float one on calibration images,
adaptation off, and `refold inspect DIR` shows every layer:

- **dB**: signal to quantisation noise of the layer's output, against the float
  network: all that went wrong up to there. 20 dB is noise of a tenth of the signal.
- **of its own**: the same against the float layer fed with the int8 layer's inputs:
  what this layer adds.
- **% saturated**: float values beyond what int8 reaches there; 0 on these images with
  min-max ranges.
- **noisiest channels**: those whose own noise is largest relative to their signal.

The layer with the least *of its own* is named as the one that adds most noise. A
network that loses a little everywhere has no culprit: then all of them are alike. What
`refold compile` advises where fewer than 99 % of the answers agree is worth a try; it
has not been tried.

## What the corrections are worth

**dB** is that of the logits and **agreement** the share of images with one largest
output in float and int8, both on {held_out} images of the training split that were not
used for calibration: on them the default was chosen. **clean** and **FORGE** are top-1
accuracies of the emitted C on the test images, FORGE's (gate off) the mean of
{streams}, severity 5.

Bias correction is on by default; it costs the device nothing. Equalisation is off
(`--equalise` turns it on): weights have a scale a channel here, so there is less for it
to level than in the paper, and ReLU6 bars it from most of MobileNetV2.

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
            streams=", ".join(STREAMS).replace("_", " "),
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
    used, held_out = images[:CALIBRATION_IMAGES], images[CALIBRATION_IMAGES:]
    given = {"mean": MEAN, "std": STD} if network.normalised else {}
    plain = CompileOptions(**given).for_input(shape)
    test = load_data(network.data, split="test", shape=shape)
    real = answers(folded, held_out, plain)
    calibration = calibrate(folded, used, plain)
    targeted = estimate_targets(folded, calibration)
    for way, (bias, level) in WAYS.items():
        ready = equalise(targeted, calibration) if level else (targeted, calibration)
        options = replace(plain, correct_bias=bias)
        graph = quantise_corrected(*ready, used, options)
        with tempfile.TemporaryDirectory() as folder:
            device = EmittedModel(graph, Path(folder))
            row = Row(
                way, *against_float(device, held_out, real), *scores(device, test)
            )
        print(network.title, row, flush=True)
        yield row


def answers(folded: Graph, images: NDArray[Any], options: CompileOptions) -> F64:
    """The float network's outputs, [N, classes]."""
    session = open_session(float_model(folded))
    feeds = (channels_first(real_input(i[None], options)) for i in images)
    return np.concatenate([session.run(None, {folded.input: x})[0] for x in feeds])


def against_float(
    device: EmittedModel, images: NDArray[Any], real: F64
) -> tuple[float, float]:
    """Decibels of the logits, and the percentage of equal choices."""
    device.configure(AdaptConfig(method="off"))
    scale = device.graph.quants[device.graph.output].scale
    found = np.stack([device.infer(image).logits * scale for image in images])
    agreed = 100 * float((found.argmax(1) == real.argmax(1)).mean())
    return decibel((real**2).sum(), ((found - real) ** 2).sum()), agreed


def scores(device: EmittedModel, test: DataSet) -> tuple[float, float]:
    """Clean accuracy off, and the mean with FORGE over the corrupted streams."""
    clean = accuracy(device, test.images, test, AdaptConfig(method="off"))
    corrupted = (test.stream(name, SEVERITY, 0) for name in STREAMS)
    forge = [accuracy(device, x, test, AdaptConfig(gate=False)) for x in corrupted]
    return clean, float(np.mean(forge))


def accuracy(
    device: EmittedModel, images: NDArray[Any], test: DataSet, mode: AdaptConfig
) -> float:
    """Top-1 of one stream, in percent."""
    device.configure(mode)
    found = [int(device.infer(image).logits.argmax()) for image in images]
    return 100 * float(np.mean(np.array(found) == test.labels))


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
