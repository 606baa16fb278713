"""How PACE's defaults were chosen: the table of docs/pace.md.

    python benchmarks/pace_sweep.py --model NET.onnx --calib cifar10:PATH \
        --results FILE.json

Nothing but training images is read: clean, under harmless changes, and under the
held-out four corruptions at severity 5. One setting at a time is moved from the
defaults, for ``pace`` and for ``forge+pace``, without a gate. Then the four come twice
without a reset. What has been measured is kept in the JSON file, so that the command
goes on where it was ended; it takes an hour. The tables replace those of docs/pace.md
after each measurement.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from held_out import HELD_OUT, Stream, compiled, held_out_orders
from measured import Measured
from native_model import AS_COMPILED, NativeModel, SearchSize
from page import write_section

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact

PAGE = Path(__file__).resolve().parent.parent / "docs/pace.md"
MISSING = "?"
"""Of a figure that is not measured yet."""
SECTION = "sweep"
OFF, FORGE = AdaptConfig("off"), AdaptConfig(gate=False)
MODES: Mapping[str, tuple[AdaptConfig, AdaptConfig]] = {
    "forge+pace": (AdaptConfig("forge+pace", gate=False), FORGE),
    "pace": (AdaptConfig.alone(), OFF),
}
"""What is measured, and against what."""
RECURRING: Mapping[str, AdaptConfig] = {
    "forge": AdaptConfig(),
    "forge+pace": AdaptConfig("forge+pace"),
    "pace": AdaptConfig.alone(),
}
HARMLESS = "harmless: JPEG quality 75"
MOVED: Mapping[str, tuple[int, ...]] = {
    "middle (9, 10)": (9, 10),
    "late (20)": (20,),
}
"""Of ResNet-20's 21 sites, instead of the first two."""


@dataclass(frozen=True)
class Setting:
    """A row: what differs from the defaults.

    Attributes:
        title: Of the row.
        changes: Fields of the configuration.
        step: Times the mode's sigma.
        search: What the firmware is built for.
    """

    title: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    step: float = 1
    search: SearchSize = AS_COMPILED

    def of(self, mode: str) -> AdaptConfig:
        """The configuration of a mode."""
        base = MODES[mode][0]
        return replace(base, sigma=base.sigma * self.step, **self.changes)

    def key(self, mode: str) -> str:
        """Under which its figures are kept."""
        return json.dumps([asdict(self.of(mode)), asdict(self.search)], sort_keys=True)


def settings() -> Iterator[Setting]:
    """All rows, the important first; both modes take the same values."""
    yield Setting("defaults")
    yield Setting("source off", {"source": False})
    yield Setting("source on", {"source": True})
    yield Setting("accept 1", {"accept": 1.0})
    for title, moved in MOVED.items():
        yield Setting(f"sites {title}", search=SearchSize(moved=moved))
    yield Setting("sigma / 3", step=1 / 3)
    yield Setting("sigma x 3", step=3)
    for name, title, values in (
        ("weight", "lambda", (0.0, 0.8)),
        ("population", "k", (8,)),
        ("generations", "generations", (10,)),
        ("settle", "settle", (0.1,)),
    ):
        for value in values:
            yield Setting(f"{title} {value:g}", {name: value})
    yield Setting("window 8", {"window": 8})
    yield Setting("window 32", {"window": 32}, search=SearchSize(window=32))
    yield Setting("d 16", {"dimension": 16})
    yield Setting("d 64", search=SearchSize(dimension=64))
    yield Setting("accept 2", {"accept": 2.0})
    yield Setting("generations 40", {"generations": 40})
    yield Setting("k 24", {"population": 24})


@click.command()
@click.option("--model", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--calib", metavar="SPEC", required=True)
@click.option("--images", type=click.IntRange(600), default=600, show_default=True)
@click.option("--orders", type=click.IntRange(2), default=2, show_default=True)
@click.option("--results", type=click.Path(path_type=Path), required=True)
@click.option("--output", type=click.Path(path_type=Path), default=PAGE)
def main(
    model: Path, calib: str, images: int, orders: int, results: Path, output: Path
) -> None:
    """Measure what is missing, then write; see the top of this file."""
    known: Known = {}
    with tempfile.TemporaryDirectory() as folder:
        artefact = compiled(model, calib, Path(folder) / "a", adapt="forge+pace")
        network = artefact.manifest.model.network_sha256
        subject = {"network": network, "images": images, "orders": orders}
        figures = Measured(results, subject)
        streams = held_out_orders(calib, images, orders)
        for key, measure in _measurements(artefact, streams):
            click.echo(key)
            known[key] = figures.get(key, measure)
            write_tables(known, output)


Streams = tuple[dict[str, Stream], ...]
Known = dict[str, dict[str, list[float]]]
"""Accuracies in percent by setting and stream, one an order."""


def _measurements(
    artefact: Artefact, streams: Streams
) -> Iterator[tuple[str, Callable[[], dict[str, list[float]]]]]:
    """What is to be known, the quick and the important first, and how it is found."""
    device = cache(lambda search: NativeModel(artefact, search=search))

    def ask(config: AdaptConfig, search: SearchSize) -> dict[str, list[float]]:
        return accuracies(device(search), config, streams)

    for _, against in MODES.values():
        yield plain_key(against), partial(ask, against, AS_COMPILED)
    for config in RECURRING.values():
        ask_again = partial(recurring, device(AS_COMPILED), config, streams[0])
        yield recurring_key(config), ask_again
    for setting in settings():
        for mode in MODES:
            yield setting.key(mode), partial(ask, setting.of(mode), setting.search)


def accuracies(
    device: NativeModel, config: AdaptConfig, streams: Streams
) -> dict[str, list[float]]:
    """Percent of each stream, from the clean state."""

    def accuracy(stream: Stream) -> float:
        device.configure(config)
        return device.run(stream.images).accuracy(stream.labels)

    alike = {name: [accuracy(streams[0][name])] for name in ("clean", HARMLESS)}
    shifted = {name: [accuracy(order[name]) for order in streams] for name in HELD_OUT}
    return {**alike, **shifted}


def recurring(
    device: NativeModel, config: AdaptConfig, streams: Mapping[str, Stream]
) -> dict[str, list[float]]:
    """Percent of each corruption's stream in two rounds, the state kept throughout."""
    device.configure(config)
    found: dict[str, list[float]] = {name: [] for name in HELD_OUT}
    for name in HELD_OUT * 2:
        answers = device.run(streams[name].images)
        found[name].append(answers.accuracy(streams[name].labels))
    return found


def plain_key(config: AdaptConfig) -> str:
    """Under which the figures without a search are kept."""
    return json.dumps(asdict(config))


def recurring_key(config: AdaptConfig) -> str:
    """Under which its figures are kept."""
    return f"recurring {json.dumps(asdict(config))}"


def write_tables(known: Known, page: Path) -> None:
    """Replace the section of the page."""
    tables = "\n".join([*render_table(known), "", *render_recurring(known)])
    write_section(page, SECTION, tables)


def render_table(known: Known) -> Iterator[str]:
    """One row a setting that is known in some mode, in Markdown."""
    columns = "mean | worst | clean | harmless"
    groups = " | ".join(columns.replace("mean", f"{mode}: mean") for mode in MODES)
    yield f"| | {groups} |"
    yield f"|---|{'---:|' * 4 * len(MODES)}"
    for setting in settings():
        if not any(setting.key(mode) in known for mode in MODES):
            continue
        cells = [" | ".join(_cells(known, setting, mode)) for mode in MODES]
        yield f"| {setting.title} | {' | '.join(cells)} |"


def _cells(known: Known, setting: Setting, mode: str) -> Iterator[str]:
    """Changes in points: mean of the four and its deviation over orders, the rest."""
    if setting.key(mode) not in known:
        yield from 4 * [MISSING]
        return
    found, against = known[setting.key(mode)], known[plain_key(MODES[mode][1])]
    gains = {name: np.subtract(found[name], against[name]) for name in found}
    four = np.mean([gains[name] for name in HELD_OUT], axis=0)
    yield f"{four.mean():+.2f} ± {four.std(ddof=1):.2f}"
    yield f"{min(gains[name].mean() for name in HELD_OUT):+.2f}"
    yield f"{gains['clean'].mean():+.2f}"
    yield f"{gains[HARMLESS].mean():+.2f}"


def render_recurring(known: Known) -> Iterator[str]:
    """Mean accuracy of each round, in Markdown."""
    yield "| the four twice, no reset | first round | second |"
    yield "|---|---:|---:|"
    for title, config in RECURRING.items():
        if recurring_key(config) in known:
            rounds = np.mean(list(known[recurring_key(config)].values()), axis=0)
            yield f"| {title} | {' | '.join(f'{value:.2f}' for value in rounds)} |"


if __name__ == "__main__":
    main()
