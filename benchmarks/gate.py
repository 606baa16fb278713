"""Fill docs/gate.md: what the safety gate keeps and costs on CIFAR-10-C.

    python benchmarks/gate.py --model NET.onnx --calib cifar10:PATH --data SPEC

The network is compiled, and its C run in this process over the clean and the
corrupted streams: off, FORGE without the gate, FORGE with it, and under the published
confidence gate; then as one stream whose domain changes. Nothing is chosen here: see
derive_defaults.py. Exits 1 where a bound of the page is missed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from changes import SOON, SWITCH_EVERY, Changes, change_domains
from held_out import Stream, compiled
from native_model import Answers, NativeModel
from numpy.typing import NDArray
from page import read_section, write_section
from scipy.special import softmax
from streams import load_streams

from refoldc.adapt import AdaptConfig

from refold.corrupt import CORRUPTIONS

PAGE = Path(__file__).resolve().parent.parent / "docs/gate.md"
CONFIDENCE_IMAGES = 32
MODES = {
    "off": AdaptConfig(method="off"),
    "ungated": AdaptConfig(gate=False),
    "gated": AdaptConfig(),
}


@dataclass(frozen=True, eq=False)
class Row:
    """Accuracies of a stream by mode, in percent, and what the gate did."""

    accuracy: Mapping[str, float]
    first: int | None
    opened: float


@dataclass(frozen=True)
class Bound:
    """A figure of the page, and whether it is as it must be."""

    text: str
    holds: bool

    def __str__(self) -> str:
        """As the page lists it."""
        return f"- {self.text}{'' if self.holds else '; **missed**'}"


@click.command()
@click.option("--model", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--calib", metavar="SPEC", required=True)
@click.option("--data", metavar="SPEC", required=True)
@click.option("--output", type=click.Path(path_type=Path), default=PAGE)
def main(model: Path, calib: str, data: str, output: Path) -> None:
    """Write the model's section of the page; see the top of this file."""
    read_section(output, model.stem)  # it is there to be written
    streams = load_streams(data)
    with tempfile.TemporaryDirectory() as folder:
        artefact = compiled(model, calib, Path(folder) / "artefact")
        scale = artefact.manifest.output.scale
        device = NativeModel(artefact)
        rows = {name: measure(device, s, scale) for name, s in streams.items()}
        kept = change_domains(device, MODES["gated"], streams)
        reset = change_domains(device, MODES["gated"], streams, reset=True)
        rounds = two_rounds(device, streams)
    bounds = [*check(rows), *check_changes(kept, reset), check_rounds(rounds)]
    lines = [f"## {model.stem}", "", *table(rows), "", *map(str, bounds)]
    write_section(output, model.stem, "\n".join(lines))
    sys.exit(0 if all(bound.holds for bound in bounds) else 1)


def measure(device: NativeModel, stream: Stream, scale: float) -> Row:
    """One stream under all modes, each from the clean state."""
    answers = {}
    for name, config in MODES.items():
        device.configure(config)
        answers[name] = device.run(stream.images)
    accuracy = {name: found.accuracy(stream.labels) for name, found in answers.items()}
    chosen = by_confidence(answers["off"], answers["ungated"], scale)
    accuracy["confidence"] = 100 * float((chosen == stream.labels).mean())
    is_open = answers["gated"].is_open
    first = int(is_open.argmax()) + 1 if is_open.any() else None
    return Row(accuracy, first, 100 * float(is_open.mean()))


def by_confidence(off: Answers, on: Answers, scale: float) -> NDArray[np.int64]:
    """Predictions under the published gate, which decides once."""

    def confidence(answers: Answers) -> float:
        logits = answers.logits[:CONFIDENCE_IMAGES] * scale
        return float(softmax(logits, axis=1).max(axis=1).mean())

    chosen = on if confidence(on) > confidence(off) else off
    early, late = off.logits[:CONFIDENCE_IMAGES], chosen.logits[CONFIDENCE_IMAGES:]
    return np.concatenate([early, late]).argmax(axis=1)


def two_rounds(device: NativeModel, streams: Mapping[str, Stream]) -> list[float]:
    """Gated, percent of the corrupted streams, run twice without a reset."""
    device.configure(MODES["gated"])
    return [
        float(
            np.mean(
                [
                    device.run(streams[n].images).accuracy(streams[n].labels)
                    for n in CORRUPTIONS
                ]
            )
        )
        for _ in range(2)
    ]


def means(rows: Mapping[str, Row]) -> dict[str, float]:
    """Mean accuracy of the corrupted streams by mode."""
    corrupted = [row for name, row in rows.items() if name != "clean"]
    return {
        mode: float(np.mean([row.accuracy[mode] for row in corrupted]))
        for mode in corrupted[0].accuracy
    }


def check(rows: Mapping[str, Row]) -> Iterator[Bound]:
    """What must hold of streams from the clean state."""
    changes = {
        name: row.accuracy["gated"] - row.accuracy["off"] for name, row in rows.items()
    }
    clean = changes.pop("clean")
    worst = min(changes, key=lambda name: changes[name])
    mean = means(rows)
    lost = mean["ungated"] - mean["gated"]
    yield Bound(
        f"the gate takes {lost:.2f} points from the mean gain of "
        f"{mean['ungated'] - mean['off']:+.2f} (at most 0.5)",
        lost <= 0.5,
    )
    yield Bound(
        f"least change of a corruption: {changes[worst]:+.1f}, {_words(worst)} "
        "(at least -0.5)",
        changes[worst] >= -0.5,
    )
    yield Bound(f"clean changes by {clean:+.1f} (at least -0.3)", clean >= -0.3)


def check_changes(kept: Changes, reset: Changes) -> Iterator[Bound]:
    """What must hold of a stream whose domain changes."""
    yield Bound(
        f"one stream whose domain changes every {SWITCH_EVERY} images without a reset: "
        f"{kept.accuracy:.2f}; with a reset at each change {reset.accuracy:.2f} "
        "(at most 1 lower)",
        reset.accuracy - kept.accuracy <= 1,
    )
    yield Bound(
        f"{kept.in_words()} (all are to be seen within {SOON})", kept.soon == 100
    )


def check_rounds(rounds: Sequence[float]) -> Bound:
    """What must hold where the streams come again."""
    return Bound(
        f"the corrupted streams twice without a reset: {rounds[0]:.2f}, then "
        f"{rounds[1]:.2f} (at least as much)",
        rounds[1] >= rounds[0],
    )


def table(rows: Mapping[str, Row]) -> Iterator[str]:
    """In Markdown."""
    modes = ("off", "ungated", "gated", "confidence")
    yield f"| stream | {' | '.join(modes)} | first | open, % |"
    yield f"|---|{'---:|' * (len(modes) + 2)}"
    for name, row in rows.items():
        cells = [f"{row.accuracy[mode]:.1f}" for mode in modes]
        cells += ["never" if row.first is None else str(row.first), f"{row.opened:.1f}"]
        yield f"| {_words(name)} | {' | '.join(cells)} |"
    mean = means(rows)
    cells = [f"{mean[mode]:.2f}" for mode in modes]
    yield f"| **mean of corrupted** | {' | '.join(cells)} | | |"


def _words(name: str) -> str:
    return name.replace("_", " ")


if __name__ == "__main__":
    main()
