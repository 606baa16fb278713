"""Make docs/results.md: accuracy of ResNet-20 and MobileNetV2 on CIFAR-10-C.

    python benchmarks/results.py --models DIR --calib cifar10:PATH --data SPEC

DIR holds the two networks published with the FORGE paper. Both are compiled, built
for the native board and run off and with FORGE over the clean and the 15 corrupted
streams, one image at a time, every reply compared with the host model. Exits 1
where a bound of the page is missed.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import onnxruntime

from refoldc.inspection import inspect_model
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model

from refold.data import DataSet, load_data
from refold.job import RunOptions
from refold.result import Result, Run
from refold.runner import run

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CALIBRATION_IMAGES = 512
FORGE = "forge:gate=off"
PAGE = Path(__file__).resolve().parent.parent / "docs/results.md"
HEAD = """# Results

Top-1 accuracy in percent, one image at a time, severity 5, adaptation started
afresh for each stream. The int8 C runs on the native board; every reply was
compared with the host model, bit for bit. Calibration: {calibration} images of the
training split, which hold no corruption. FORGE adapts from the first image on,
`forge:gate=off`; [gate.md](gate.md) has what its safety gate changes.

Made by

```sh
python benchmarks/results.py --models MODELS --calib {calib} --data {data}
```
"""


@dataclass(frozen=True)
class Network:
    """A model file and the bounds on it, in points; infinite where there is none."""

    file: str
    title: str
    gain: float
    most_lost: float = 1.5
    from_float: float = math.inf


NETWORKS = (
    Network("resnet20_cifar10_forge.onnx", "ResNet-20", gain=22.5, from_float=0.5),
    Network("mobilenetv2x05_cifar10_forge.onnx", "MobileNetV2 x0.5", gain=20.0),
)


@click.command()
@click.option("--models", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--calib", metavar="SPEC", required=True)
@click.option("--data", metavar="SPEC", required=True)
@click.option("--output", type=click.Path(path_type=Path), default=PAGE)
def main(models: Path, calib: str, data: str, output: Path) -> None:
    """Write the page; see the top of this file."""
    names = [spec.partition(":")[0] + ":PATH" for spec in (calib, data)]
    page = [HEAD.format(calibration=CALIBRATION_IMAGES, calib=names[0], data=names[1])]
    kept = True
    for network in NETWORKS:
        result, accuracy = measure(models / network.file, calib, data)
        bounds = list(check(network, result, accuracy))
        kept = kept and all(holds for _, holds in bounds)
        page += section(network, result, [text for text, _ in bounds])
    output.write_text("\n".join(page), encoding="utf-8")
    sys.exit(0 if kept else 1)


def measure(model: Path, calib: str, spec: str) -> tuple[Result, float]:
    """Compile and run a network; the result and the float model's clean accuracy."""
    shape = inspect_model(model).input_shape
    images = load_data(calib, split="train", limit=CALIBRATION_IMAGES, shape=shape)
    options = CompileOptions(mean=MEAN, std=STD)
    with tempfile.TemporaryDirectory() as folder:
        artefact = Path(folder) / "artefact"
        compile_model(model, images.images, artefact, options=options)
        result = run(artefact, RunOptions(data=spec, adapt=f"off,{FORGE}"))
    return result, float_accuracy(model, load_data(spec, split="test", shape=shape))


def float_accuracy(model: Path, data: DataSet) -> float:
    """Clean accuracy of the original model in ONNX Runtime, in percent."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (source,) = session.get_inputs()
    right = 0
    for image, label in zip(data.images, data.labels, strict=True):
        x = ((image / 255 - MEAN) / STD).astype(np.float32).transpose(2, 0, 1)
        right += int(session.run(None, {source.name: x[None]})[0].argmax() == label)
    return 100 * right / len(data.labels)


def check(
    network: Network, result: Result, float_clean: float
) -> Iterator[tuple[str, bool]]:
    """Each bound as a sentence, and whether it holds."""
    off, forge = result.runs
    mismatches = sum(s.parity_mismatches or 0 for r in result.runs for s in r.streams)
    replies = sum(s.images for r in result.runs for s in r.streams)
    gain = result.gain[FORGE]
    changes = [f - o for _, o, f in rows(off, forge)]
    loss = float_clean - (off.clean_accuracy or 0.0)
    yield _bound(
        f"mean gain {gain:+.1f}", f">= {network.gain:+g}", gain >= network.gain
    )
    yield _bound(
        f"least change of a stream, clean included, {min(changes):+.1f}",
        f">= {-network.most_lost:+g}",
        min(changes) >= -network.most_lost,
    )
    yield _bound(
        f"clean accuracy without adaptation {off.clean_accuracy:.1f}, in float "
        f"{float_clean:.1f}",
        f"at most {network.from_float:g} lower",
        loss <= network.from_float,
    )
    yield _bound(f"{mismatches} of {replies} replies differ", "0", mismatches == 0)


def _bound(found: str, limit: str, holds: bool) -> tuple[str, bool]:
    kept = f"bound: {limit}{'' if holds else '; **missed**'}"
    return f"- {found} ({'no bound' if 'inf' in limit else kept})", holds


def rows(off: Run, forge: Run) -> Iterator[tuple[str, float, float]]:
    """Corruption, accuracy off, accuracy with FORGE, stream by stream."""
    for one, other in zip(off.streams, forge.streams, strict=True):
        yield one.corruption.replace("_", " "), one.accuracy, other.accuracy


def section(network: Network, result: Result, bounds: list[str]) -> list[str]:
    """The network's part of the page, as lines."""
    off, forge = result.runs
    means = off.mean_accuracy or 0.0, forge.mean_accuracy or 0.0
    table = [*rows(off, forge), ("**mean of corrupted**", *means)]
    return [
        f"## {network.title}",
        "",
        f"`{network.file}`, {result.model.sites} sites, "
        f"{result.model.site_channels} channels, {result.data.images} images a stream.",
        "",
        "| stream | off | FORGE | change |",
        "|---|---:|---:|---:|",
        *(f"| {name} | {o:.1f} | {f:.1f} | {f - o:+.1f} |" for name, o, f in table),
        "",
        *bounds,
        "",
    ]


if __name__ == "__main__":
    main()
