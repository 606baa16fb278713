"""Make docs/results.md: accuracy of ResNet-20 and MobileNetV2 on CIFAR-10-C.

    python benchmarks/results.py --models DIR --calib cifar10:PATH --data SPEC

DIR holds the two networks published with the FORGE paper. Both are compiled, built
for the native board and run without and with adaptation over the clean and the 15
corrupted streams, one image at a time, every reply compared with the host model.
Exits 1 where a bound of the page is missed.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterator, Sequence
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
OFF = "off"
FORGE = "forge:gate=off"
GATED = "forge"
PACE = "pace"
BOTH = "forge+pace"
PUBLISHED = "forge:rule=published"
TITLES = {
    OFF: "off",
    PUBLISHED: "published rule",
    FORGE: "FORGE, no gate",
    GATED: "FORGE",
    PACE: "PACE",
    BOTH: "FORGE+PACE",
}
PAGE = Path(__file__).resolve().parent.parent / "docs/results.md"
HEAD = """# Results

Top-1 accuracy in percent, one image at a time, severity 5, adaptation started
afresh for each stream. The int8 C runs on the native board; every reply was
compared with the host model, bit for bit. Calibration: {calibration} images of the
training split, which hold no corruption. *Published rule* is FORGE as published, one
image at a time (`forge:rule=published`). [gate.md](gate.md) compares gates,
[pace.md](pace.md) says what PACE does.

Made by

```sh
python benchmarks/results.py --models MODELS --calib {calib} --data {data}
```
"""


@dataclass(frozen=True)
class Bound:
    """On the mean of the corrupted streams, and on each, clean included, in points.

    Attributes:
        mode: What is judged.
        against: What it is compared with.
        mean: Least change of the mean.
        each: Least change of a stream.
    """

    mode: str
    against: str
    mean: float
    each: float = -math.inf


@dataclass(frozen=True)
class Network:
    """A model file and what is asked of it.

    Attributes:
        from_float: Most points that int8 may lose on clean images.
    """

    file: str
    title: str
    bounds: tuple[Bound, ...]
    modes: tuple[str, ...] = (OFF, FORGE, GATED)
    adapt: str = "forge"
    from_float: float = math.inf


NETWORKS = (
    Network(
        "resnet20_cifar10_forge.onnx",
        "ResNet-20",
        bounds=(
            Bound(FORGE, OFF, mean=23.5, each=-1.5),
            Bound(GATED, OFF, mean=23.0, each=-0.5),
            Bound(GATED, FORGE, mean=-0.5),
            Bound(PACE, OFF, mean=10.0),
            Bound(BOTH, GATED, mean=-0.2, each=-0.7),
        ),
        modes=tuple(TITLES),
        adapt="forge+pace",
        from_float=0.5,
    ),
    Network(
        "mobilenetv2x05_cifar10_forge.onnx",
        "MobileNetV2 x0.5",
        bounds=(Bound(FORGE, OFF, mean=20.0, each=-1.5),),
    ),
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
        result, accuracy = measure(network, models, calib, data)
        bounds = list(check(network, result, accuracy))
        kept = kept and all(holds for _, holds in bounds)
        page += section(network, result, [text for text, _ in bounds])
    output.write_text("\n".join(page), encoding="utf-8")
    sys.exit(0 if kept else 1)


def measure(
    network: Network, models: Path, calib: str, spec: str
) -> tuple[Result, float]:
    """Compile and run a network; the result and the float model's clean accuracy."""
    model = models / network.file
    shape = inspect_model(model).input_shape
    images = load_data(calib, split="train", limit=CALIBRATION_IMAGES, shape=shape)
    options = CompileOptions(mean=MEAN, std=STD, adapt=network.adapt)
    with tempfile.TemporaryDirectory() as folder:
        artefact = Path(folder) / "artefact"
        compile_model(model, images.images, artefact, options=options)
        result = run(artefact, RunOptions(data=spec, adapt=",".join(network.modes)))
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
    runs = {run.adapt: run for run in result.runs}
    for bound in network.bounds:
        yield from _check_mode(bound, runs[bound.mode], runs[bound.against])
    clean = runs[OFF].clean_accuracy or 0.0
    yield _bound(
        f"clean accuracy without adaptation {clean:.1f}, in float {float_clean:.1f}",
        f"at most {network.from_float:g} lower",
        float_clean - clean <= network.from_float,
    )
    mismatches = sum(s.parity_mismatches or 0 for r in result.runs for s in r.streams)
    replies = sum(s.images for r in result.runs for s in r.streams)
    yield _bound(f"{mismatches} of {replies} replies differ", "0", mismatches == 0)


def _check_mode(bound: Bound, run: Run, other: Run) -> Iterator[tuple[str, bool]]:
    changes = [
        one.accuracy - two.accuracy
        for one, two in zip(run.streams, other.streams, strict=True)
    ]
    mean = (run.mean_accuracy or 0.0) - (other.mean_accuracy or 0.0)
    title = f"{TITLES[bound.mode]} against {TITLES[bound.against]}"
    yield _bound(
        f"{title}: mean {mean:+.1f}", f">= {bound.mean:+g}", mean >= bound.mean
    )
    yield _bound(
        f"{title}: least change of a stream, clean included, {min(changes):+.1f}",
        f">= {bound.each:+g}",
        min(changes) >= bound.each,
    )


def _bound(found: str, limit: str, holds: bool) -> tuple[str, bool]:
    kept = f"bound: {limit}{'' if holds else '; **missed**'}"
    return f"- {found} ({'no bound' if 'inf' in limit else kept})", holds


def rows(runs: Sequence[Run]) -> Iterator[tuple[str, list[float]]]:
    """Corruption and accuracies, stream by stream, and their mean."""
    for streams in zip(*(one.streams for one in runs), strict=True):
        name = streams[0].corruption.replace("_", " ")
        yield name, [stream.accuracy for stream in streams]
    yield "**mean of corrupted**", [run.mean_accuracy or 0.0 for run in runs]


def section(network: Network, result: Result, bounds: list[str]) -> list[str]:
    """The network's part of the page, as lines."""
    return [
        f"## {network.title}",
        "",
        f"`{network.file}`, {result.model.sites} sites, "
        f"{result.model.site_channels} channels, {result.data.images} images a stream.",
        "",
        f"| stream | {' | '.join(TITLES[run.adapt] for run in result.runs)} |",
        f"|---|{'---:|' * len(result.runs)}",
        *(
            f"| {name} | {' | '.join(f'{value:.1f}' for value in values)} |"
            for name, values in rows(result.runs)
        ),
        "",
        *bounds,
        "",
    ]


if __name__ == "__main__":
    main()
