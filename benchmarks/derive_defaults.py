"""Fill docs/defaults.md: what FORGE's and the gate's settings do to the held-out four.

    python benchmarks/derive_defaults.py --model NET.onnx --calib cifar10:PATH \
        --results FILE.json

Nothing but training images is read: clean, under harmless changes, and under
gaussian noise, motion blur, snow and contrast. One setting at a time is moved from
the defaults. What has been measured is kept in the JSON file, so that the command
goes on where it was ended.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path

import click
import numpy as np
from changes import SWITCH_EVERY, change_domains
from held_out import SEVERITIES, Stream, compiled, held_out_streams
from measured import Measured
from native_model import NativeModel
from page import read_section, write_section

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact

from refold.held_out import HELD_OUT

PAGE = Path(__file__).resolve().parent.parent / "docs/defaults.md"
OFF, UNGATED, GATED = AdaptConfig("off"), AdaptConfig(gate=False), AdaptConfig()
BY_SEVERITY = {
    severity: tuple(f"{name} {severity}" for name in HELD_OUT)
    for severity in sorted(SEVERITIES, reverse=True)
}
MOVED = ("gate", "grade", "momentum", "shrinkage", "warm")
"""Fields of the configurations that the sweeps differ by."""
SEVERE, WEAK = BY_SEVERITY[5], BY_SEVERITY[1]


@dataclass(frozen=True)
class Setting:
    """A point of the sweep: the configuration, and what the firmware is built with."""

    config: AdaptConfig
    limits: Mapping[str, int] = field(default_factory=dict)
    margin: float | None = None

    @property
    def key(self) -> str:
        """Under which its figures are kept; other fields do nothing to FORGE."""
        config = {name: getattr(self.config, name) for name in MOVED}
        return json.dumps({**asdict(self), "config": config}, sort_keys=True)


@dataclass(frozen=True)
class Sweep:
    """A table: one parameter at some values, the others at their defaults."""

    title: str
    settings: Mapping[str, Setting]


def sweeps() -> Iterator[Sweep]:
    """All tables, in the order in which they are measured."""
    yield _of_config("a", "shrinkage", (0.3, 0.4, 0.5, 0.6, 0.7, 1.0))
    yield _of_config("warm", "warm", (0, 4, 8, 16, 32, 64))
    floors = (1 / 160, 1 / 320, 1 / 640, 1 / 1280)
    yield _of_config("momentum floor", "momentum", floors)
    graded = replace(UNGATED, shrinkage=0.7)
    values = (0.0, 0.01, 0.03, 0.1)
    yield Sweep(
        "grade, at a = 0.7",
        {f"{g:g}": Setting(replace(graded, grade=g)) for g in values},
    )
    margins = (2.0, 2.5, 3.0, 4.0, 5.0)
    yield Sweep("gate margin", {f"{m:g}": Setting(GATED, margin=m) for m in margins})
    for name, sizes in (("gate_window", (8, 16, 32, 64)), ("gate_first", (2, 4, 8))):
        yield _of_limit(name, sizes)
    yield _of_limit("gate_open_window", (8, 16, 32))


def _of_config(title: str, name: str, values: Sequence[float]) -> Sweep:
    return Sweep(
        title,
        {f"{v:.4g}": Setting(replace(UNGATED, **{name: v})) for v in values},
    )


def _of_limit(name: str, values: Sequence[int]) -> Sweep:
    return Sweep(
        name.replace("_", " "),
        {str(v): Setting(GATED, limits={name: v}) for v in values},
    )


@click.command()
@click.option("--model", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--calib", metavar="SPEC", required=True)
@click.option("--images", type=click.IntRange(SWITCH_EVERY), default=1000)
@click.option("--sweep", "only", multiple=True, help="A table's title; or all.")
@click.option("--results", type=click.Path(path_type=Path), required=True)
@click.option("--output", type=click.Path(path_type=Path), default=PAGE)
def main(
    model: Path,
    calib: str,
    images: int,
    only: tuple[str, ...],
    results: Path,
    output: Path,
) -> None:
    """Measure what is missing, and write the section; see the top of this file."""
    chosen = [sweep for sweep in sweeps() if not only or sweep.title in only]
    read_section(output, model.stem)  # it is there to be written
    lines = [f"### {model.stem}, {images} images a stream"]
    with tempfile.TemporaryDirectory() as folder:
        artefact = compiled(model, calib, Path(folder) / "artefact")
        network = artefact.manifest.model.network_sha256
        known = Measured(results, {"network": network, "images": images})
        bench = Bench(artefact, held_out_streams(calib, images), NativeModel(artefact))
        for sweep in chosen:
            lines += ["", *table(sweep, bench, known)]
            print(*lines[-1 - len(sweep.settings) :], "", sep="\n", flush=True)
    write_section(output, model.stem, "\n".join(lines))


@dataclass(frozen=True, eq=False)
class Bench:
    """Streams, and what ungated configurations reach on them, each measured once."""

    artefact: Artefact
    streams: Mapping[str, Stream]
    plain: NativeModel
    known: dict[tuple[AdaptConfig, str], float] = field(default_factory=dict)

    def accuracy(self, config: AdaptConfig, name: str) -> float:
        """Percent of a stream without a gate."""
        if (config, name) not in self.known:
            self.known[config, name] = watch(self.plain, config, self.streams[name])[0]
        return self.known[config, name]

    def names(self, start: str) -> list[str]:
        """Streams whose names start so."""
        return [name for name in self.streams if name.startswith(start)]


def measure(bench: Bench, setting: Setting) -> dict[str, float]:
    """The figures of one setting, by column."""
    if not setting.config.gate:
        return _ungated(bench, setting.config)
    device = NativeModel(bench.artefact, limits=setting.limits, margin=setting.margin)
    return _gated(bench, device, setting.config)


def _ungated(bench: Bench, config: AdaptConfig) -> dict[str, float]:
    def gain(*names: str) -> float:
        return float(
            np.mean([bench.accuracy(config, n) - bench.accuracy(OFF, n) for n in names])
        )

    return {
        **{f"severity {level}": gain(*names) for level, names in BY_SEVERITY.items()},
        **{name: gain(f"{name} 5") for name in HELD_OUT},
        "clean": gain(*bench.names("clean")),
    }


def _gated(bench: Bench, device: NativeModel, config: AdaptConfig) -> dict[str, float]:
    ungated = replace(config, gate=False)

    def mean(names: Sequence[str]) -> tuple[float, float]:
        """What the gate changes, in points; percent of images that found it open."""
        found = []
        for name in names:
            accuracy, opened = watch(device, config, bench.streams[name])
            found.append((accuracy - bench.accuracy(ungated, name), opened))
        changed, opened = np.mean(found, axis=0)
        return float(changed), float(opened)

    severe, weak = mean(SEVERE), mean(WEAK)
    changing = {name: bench.streams[name] for name in ("clean 0", *SEVERE)}
    kept = change_domains(device, config, changing)
    reset = change_domains(device, config, changing, reset=True)
    return {
        "gated - ungated, severity 5": severe[0],
        "severity 1": weak[0],
        "open at severity 5, %": severe[1],
        "severity 1, %": weak[1],
        "clean, %": mean(bench.names("clean"))[1],
        "harmless, %": mean(bench.names("harmless"))[1],
        "continual - reset": kept.accuracy - reset.accuracy,
        "changes seen soon, %": kept.soon,
    }


def watch(
    device: NativeModel, config: AdaptConfig, stream: Stream
) -> tuple[float, float]:
    """From the clean state: accuracy, and images that found the gate open; percent."""
    device.configure(config)
    answers = device.run(stream.images)
    return answers.accuracy(stream.labels), 100 * float(answers.is_open.mean())


def table(sweep: Sweep, bench: Bench, known: Measured) -> Iterator[str]:
    """One row a value, in Markdown."""
    rows = {
        value: known.get(setting.key, partial(measure, bench, setting))
        for value, setting in sweep.settings.items()
    }
    columns = list(next(iter(rows.values())))
    yield f"| {' | '.join([sweep.title, *columns])} |"
    yield f"|---|{'---:|' * len(columns)}"
    for value, figures in rows.items():
        cells = (f"{figures[column]:+.2f}" for column in columns)
        yield f"| {value} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
