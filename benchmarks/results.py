r"""Accuracy and parity of docs/results.md: replies of a board, each checked.

    python benchmarks/results.py --models DIR --calib cifar10:PATH --data SPEC \
        --work DIR

DIR of ``--models`` holds the two networks published with the FORGE paper. Both are
compiled, built for the native board and run without and with adaptation over the clean
and the 15 corrupted streams, one image at a time, every reply compared with the host
model. Each mode's result is kept in the ``--work`` folder until the model, the data or
refold's sources change, so that the command goes on where it was ended. Exits 1 where a
bound of the section is missed, 3 where a run was cut short.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import onnxruntime
from held_out import MEAN, STD
from page import write_section
from rows import (
    BOTH,
    CLEAN,
    GATED,
    OFF,
    PACE,
    TITLES,
    UNGATED,
    Accuracies,
    Bound,
    Verdict,
    judge,
    stream_table,
    verdict,
)
from streams import Source, compiled_once, load_streams, streams_hash
from work import Work, file_hash, source_hash

from refoldc.artefact import Artefact

from refold.data import DataSet, load_data
from refold.job import RunOptions
from refold.result import Result
from refold.runner import run

PAGE = Path(__file__).resolve().parent.parent / "docs/results.md"
SECTION = "parity"
SOURCES = ("compiler/refoldc", "host/refold", "firmware", "boards")
"""That a run follows from."""


@dataclass(frozen=True)
class Network:
    """A model file and what is asked of it.

    Attributes:
        sites, adapt: Compile options.
        from_float: Most points that int8 may lose on clean images.
    """

    file: str
    title: str
    bounds: tuple[Bound, ...]
    modes: tuple[str, ...] = (OFF, UNGATED, GATED)
    sites: str = "all"
    adapt: str = "forge"
    from_float: float = math.inf


NETWORKS = (
    Network(
        "resnet20_cifar10_forge.onnx",
        "ResNet-20",
        bounds=(
            Bound(UNGATED, OFF, mean=23.5, each=-1.5, clean=-1.5),
            Bound(GATED, OFF, mean=23.0, each=-0.5, clean=-0.3),
            Bound(GATED, UNGATED, mean=-0.5),
            Bound(PACE, OFF, mean=10.0),
            Bound(BOTH, GATED, mean=-0.2, each=-0.7),
        ),
        modes=tuple(TITLES),
        sites="auto:3",
        adapt="forge+pace",
        from_float=0.5,
    ),
    Network(
        "mobilenetv2x05_cifar10_forge.onnx",
        "MobileNetV2 x0.5",
        bounds=(Bound(UNGATED, OFF, mean=20.0, each=-1.5, clean=-1.5),),
    ),
)

Results = Mapping[str, Result]
"""By mode."""


@click.command()
@click.option("--models", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--calib", metavar="SPEC", required=True)
@click.option("--data", metavar="SPEC", required=True)
@click.option("--work", type=click.Path(path_type=Path), required=True)
@click.option("--images", type=click.IntRange(1), help="The first so many a stream.")
@click.option("--output", type=click.Path(path_type=Path), default=PAGE)
def main(
    models: Path, calib: str, data: str, work: Path, images: int | None, output: Path
) -> None:
    """Write the section; see the top of this file."""
    parts, kept = [], True
    for network in NETWORKS:
        model = models / network.file
        source = Source(model, calib, network.sites, network.adapt)
        results = measure(Work(work), network, source, data, images)
        accuracy = float_accuracy(model, load_data(data, split="test", limit=images))
        verdicts = list(check(network, results, accuracy))
        kept = kept and not any(v.fails for v in verdicts)
        parts.append(section(network, results, verdicts))
    write_section(output, SECTION, "\n".join(parts))
    sys.exit(0 if kept else 1)


def measure(
    work: Work, network: Network, source: Source, data: str, images: int | None
) -> Results:
    """Run a network under its modes, one after the other."""
    artefact = compiled_once(work, source)
    depends = {
        "model": file_hash(artefact.path / "model.c"),
        "sources": source_hash(*SOURCES),
        "streams": streams_hash(load_streams(data, limit=images)),
    }
    found = {}
    for mode in network.modes:
        options = RunOptions(data=data, adapt=mode, images=images)
        found[mode] = work.recall(
            f"{network.title} {mode}",
            {**depends, "mode": mode},
            Result,
            lambda o=options: run_whole(artefact, o),  # type: ignore[misc]
        )
        mean = found[mode].runs[0].mean_accuracy
        click.echo(f"{network.title}, {TITLES[mode]}: {mean:.2f}", err=True)
    return found


def run_whole(artefact: Artefact, options: RunOptions) -> Result:
    """A run from its beginning to its end; the command ends where it was cut short."""
    result = run(artefact.path, options)
    if not result.complete:
        click.echo(f"{options.adapt}: {'; '.join(result.reasons)}", err=True)
        sys.exit(3)
    return result


def float_accuracy(model: Path, data: DataSet) -> float:
    """Clean accuracy of the original model in ONNX Runtime, in percent."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (source,) = session.get_inputs()
    right = 0
    for image, label in zip(data.images, data.labels, strict=True):
        x = ((image / 255 - MEAN) / STD).astype(np.float32).transpose(2, 0, 1)
        right += int(session.run(None, {source.name: x[None]})[0].argmax() == label)
    return 100 * right / len(data.labels)


def check(network: Network, results: Results, float_clean: float) -> Iterator[Verdict]:
    """Each bound with what was found."""
    table = {mode: accuracies(result) for mode, result in results.items()}
    for bound in network.bounds:
        yield from judge(bound, table)
    clean = table[OFF][CLEAN]
    found = f"clean accuracy without adaptation {clean:.1f}, in float {float_clean:.1f}"
    if math.isinf(network.from_float):
        yield Verdict(f"{found} (no bound)")
    else:
        yield verdict(
            found,
            f"at most {network.from_float:g} lower",
            holds=float_clean - clean <= network.from_float,
        )
    streams = [s for result in results.values() for s in result.runs[0].streams]
    mismatches = sum(s.parity_mismatches or 0 for s in streams)
    replies = sum(s.images for s in streams)
    yield verdict(
        f"{mismatches} of {replies} replies differ", "0", holds=mismatches == 0
    )


def accuracies(result: Result) -> Accuracies:
    """Of the streams of the one mode that was run."""
    return {stream.corruption: stream.accuracy for stream in result.runs[0].streams}


def section(network: Network, results: Results, verdicts: list[Verdict]) -> str:
    """The network's part of the page."""
    first = results[OFF]
    lines = [
        f"### {network.title}",
        "",
        f"`{network.file}`, {first.model.sites} sites, "
        f"{first.model.site_channels} channels, {first.data.images} images a stream.",
        "",
        *stream_table({TITLES[mode]: accuracies(r) for mode, r in results.items()}),
        "",
        *map(str, verdicts),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
