"""How PACE's defaults were chosen: the table of docs/pace.md.

    python benchmarks/pace_sweep.py --model NET.onnx --calib cifar10:PATH \
        --results FILE.json

Nothing but training images is read: clean, under harmless changes, and under the
held-out four corruptions at severity 5. One setting at a time is moved from the
defaults, for ``pace`` and for ``forge+pace``, without a gate. What has been measured
is kept in the JSON file, so that the command goes on where it was ended; it takes an
hour. The table replaces the one of docs/pace.md.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from held_out import HELD_OUT, Stream, compiled, held_out_orders
from native_model import AS_COMPILED, NativeModel, SearchSize

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact

PAGE = Path(__file__).resolve().parent.parent / "docs/pace.md"
MARKER, END = "<!-- sweep -->\n\n", "<!-- /sweep -->\n"
OFF, FORGE = AdaptConfig("off"), AdaptConfig(gate=False)
MODES: Mapping[str, tuple[AdaptConfig, AdaptConfig]] = {
    "forge+pace": (AdaptConfig("forge+pace", gate=False), FORGE),
    "pace": (AdaptConfig.alone(), OFF),
}
"""What is measured, and against what."""
HARMLESS = "harmless: JPEG quality 75"
MOVED: Mapping[str, tuple[int, ...]] = {
    "middle (9, 10)": (9, 10),
    "late (20)": (20,),
    "all": tuple(range(21)),
}
"""Of ResNet-20's 21 sites."""


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
    """All rows, the defaults first; both modes take the same values."""
    yield Setting("defaults")
    yield Setting("source off", {"source": False})
    yield Setting("source on", {"source": True})
    for accept in (1.0, 2.0):
        yield Setting(f"accept {accept:g}", {"accept": accept})
    for title, moved in MOVED.items():
        yield Setting(f"sites {title}", search=SearchSize(moved=moved))
    yield Setting("sigma / 3", step=1 / 3)
    yield Setting("sigma x 3", step=3)
    for window in (8, 32):
        size = SearchSize(window=max(window, 16))
        yield Setting(f"window {window}", {"window": window}, search=size)
    for name, title, values in (
        ("weight", "lambda", (0.0, 0.2, 0.8)),
        ("generations", "generations", (10, 40)),
        ("population", "k", (8, 24)),
        ("settle", "settle", (0.1,)),
    ):
        for value in values:
            yield Setting(f"{title} {value:g}", {name: value})
    for d in (16, 64):
        size = SearchSize(dimension=max(d, 32))
        yield Setting(f"d {d}", {"dimension": d}, search=size)


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
    known: dict[str, dict[str, list[float]]] = {}
    if results.exists():
        known = json.loads(results.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        artefact = compiled(model, calib, Path(folder) / "a", adapt="forge+pace")
        streams = held_out_orders(calib, images, orders)
        for setting in settings():
            _measure_missing(setting, artefact, streams, known, results)
    write_table(known, output)


Streams = tuple[dict[str, Stream], ...]
Known = dict[str, dict[str, list[float]]]
"""Accuracies in percent by setting and stream, one an order."""


def _measure_missing(
    setting: Setting, artefact: Artefact, streams: Streams, known: Known, path: Path
) -> None:
    """Enter a setting's modes, and what they are compared with."""
    for mode, (_, against) in MODES.items():
        key = json.dumps(asdict(against))
        if key not in known:
            known[key] = accuracies(NativeModel(artefact), against, streams)
        if setting.key(mode) not in known:
            click.echo(f"{mode}: {setting.title}")
            device = NativeModel(artefact, search=setting.search)
            known[setting.key(mode)] = accuracies(device, setting.of(mode), streams)
            _keep(known, path)


def _keep(known: Known, path: Path) -> None:
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(json.dumps(known, indent=1), encoding="utf-8")
    beside.replace(path)


def accuracies(
    device: NativeModel, config: AdaptConfig, streams: Streams
) -> dict[str, list[float]]:
    """Percent of each stream, from the clean state."""

    def accuracy(stream: Stream) -> float:
        device.configure(config)
        return device.run(stream.images).accuracy(stream.labels)

    names = ("clean", HARMLESS, *HELD_OUT)
    return {name: [accuracy(order[name]) for order in streams] for name in names}


def write_table(known: Known, page: Path) -> None:
    """Replace what the page holds between its marks."""
    text = page.read_text(encoding="utf-8")
    head, begin, rest = text.partition(MARKER)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise click.ClickException(f"{page} has no part between {MARKER!r} and {END!r}")
    table = "\n".join(render_table(known))
    page.write_text(f"{head}{begin}{table}\n\n{end}{tail}", encoding="utf-8")


def render_table(known: Known) -> Iterator[str]:
    """One row a setting, in Markdown."""
    columns = "mean | worst | clean | harmless"
    groups = " | ".join(columns.replace("mean", f"{mode}: mean") for mode in MODES)
    yield f"| | {groups} |"
    yield f"|---|{'---:|' * 4 * len(MODES)}"
    for setting in settings():
        cells = [" | ".join(_cells(known, setting, mode)) for mode in MODES]
        yield f"| {setting.title} | {' | '.join(cells)} |"


def _cells(known: Known, setting: Setting, mode: str) -> Iterator[str]:
    """Changes in points: mean of the four and its deviation over orders, the rest."""
    found = known[setting.key(mode)]
    against = known[json.dumps(asdict(MODES[mode][1]))]
    gains = {name: np.subtract(found[name], against[name]) for name in found}
    four = np.mean([gains[name] for name in HELD_OUT], axis=0)
    yield f"{four.mean():+.2f} ± {four.std(ddof=1):.2f}"
    yield f"{min(gains[name].mean() for name in HELD_OUT):+.2f}"
    yield f"{gains['clean'].mean():+.2f}"
    yield f"{gains[HARMLESS].mean():+.2f}"


if __name__ == "__main__":
    main()
