r"""The main table of docs/results.md: every mode over five orders of the streams.

    python benchmarks/orders.py --model NET.onnx --calib cifar10:PATH --data SPEC \
        --work DIR

The compiled C runs in this process over the clean and the 15 corrupted streams, one
image at a time, the images of a stream in the five orders of ``refold run --repeats 5
--shuffle``. That it answers what the host model says is shown by results.py. What has
been measured is kept in DIR, so that the command goes on where it was ended. Exits 1
where a bound of the section is missed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from held_out import Stream
from native_model import NativeModel
from page import write_section
from rows import (
    BOTH,
    CLEAN,
    GATED,
    OFF,
    PACE,
    THREE,
    THREE_UNGATED,
    TITLES,
    UNGATED,
    Accuracies,
    Bound,
    Verdict,
    corrupted_mean,
    judge,
    stream_table,
    verdict,
    words,
)
from streams import (
    FIRMWARE,
    ORDERS,
    Order,
    Source,
    compiled_once,
    load_streams,
    orders,
    streams_hash,
)
from work import Work, file_hash, source_hash

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact

from refold.modes import parse_mode

PAGE = Path(__file__).resolve().parent.parent / "docs/results.md"
SECTION = "orders"
ROUNDS = 2
RECURRING = (GATED, BOTH)
BOUNDS = (
    Bound(UNGATED, OFF, mean=23.5),
    Bound(GATED, UNGATED, mean=-0.5),
    Bound(GATED, OFF, each=-0.5, clean=-0.3),
    Bound(THREE, THREE_UNGATED, mean=-0.5),
    Bound(THREE, OFF, each=-0.5, clean=-0.3),
    Bound(PACE, OFF, mean=10.0),
    Bound(BOTH, GATED, mean=-0.2, each=-0.7),
    Bound(BOTH, GATED, mean=1.0, stretch=True),
)

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Bench:
    """A compiled network, the streams in some orders, and what is known of them."""

    work: Work
    artefact: Artefact
    streams: Mapping[str, Stream]
    orders: Sequence[Order]

    def config(self, mode: str) -> AdaptConfig:
        """What a mode configures."""
        manifest = self.artefact.manifest
        sites = len(manifest.sites)
        return parse_mode(mode, sites=sites, ranking=manifest.ranking).config

    def accuracies(self, mode: str, number: int) -> dict[str, float]:
        """Of the streams in one of the orders, each from the clean state."""
        config = self.config(mode)

        def measure(order: Order) -> dict[str, float]:
            return {
                name: self._answer(config, stream, order, keep_state=False)
                for name, stream in self.streams.items()
            }

        return self._recall(mode, number, config, dict[str, float], measure)

    def rounds(self, mode: str, number: int) -> list[float]:
        """Mean accuracy of the corrupted streams, round by round without a reset."""
        config = self.config(mode)
        corrupted = [s for name, s in self.streams.items() if name != CLEAN]

        def measure(order: Order) -> list[float]:
            found = [
                self._answer(config, stream, order, keep_state=number > 0)
                for number, stream in enumerate(corrupted * ROUNDS)
            ]
            return np.reshape(found, (ROUNDS, -1)).mean(axis=1).tolist()

        return self._recall(f"rounds {mode}", number, config, list[float], measure)

    def _answer(
        self, config: AdaptConfig, stream: Stream, order: Order, *, keep_state: bool
    ) -> float:
        self._device.configure(config, keep_state=keep_state)
        return self._device.run(stream.images[order]).accuracy(stream.labels[order])

    def _recall(
        self,
        name: str,
        number: int,
        config: AdaptConfig,
        kind: type[Value],
        measure: Callable[[Order], Value],
    ) -> Value:
        order = self.orders[number]
        depends = {
            **self._depends,
            "config": asdict(config),
            "order": order.tolist(),
        }
        return self.work.recall(
            f"{name} {number}", depends, kind, lambda: measure(order)
        )

    @cached_property
    def _depends(self) -> dict[str, str]:
        return {
            "model": file_hash(self.artefact.path / "model.c"),
            "firmware": source_hash(*FIRMWARE),
            "streams": streams_hash(self.streams),
        }

    @cached_property
    def _device(self) -> NativeModel:
        return NativeModel(self.artefact)


def mean_of_orders(found: Sequence[Accuracies]) -> dict[str, float]:
    """Of each stream."""
    return {n: float(np.mean([one[n] for one in found])) for n in found[0]}


def spread(values: Sequence[float]) -> str:
    """Mean and standard deviation, for a table; the deviation where it has one."""
    mean = f"{np.mean(values):.2f}"
    return f"{mean} ± {np.std(values, ddof=1):.2f}" if len(values) > 1 else mean


def summary(found: Mapping[str, Sequence[Accuracies]]) -> Iterator[str]:
    """In Markdown: a row a title, over the orders; the first one is off."""
    yield "| | mean of corrupted | gain | clean | least change of a corruption |"
    yield "|---|---:|---:|---:|---|"
    off = next(iter(found.values()))
    base = mean_of_orders(off)
    for title, orders_ in found.items():
        means = [corrupted_mean(one) for one in orders_]
        gains = [m - corrupted_mean(o) for m, o in zip(means, off, strict=True)]
        clean = [one[CLEAN] for one in orders_]
        cells = [spread(means), spread(gains), spread(clean)]
        if orders_ is off:
            cells[1] = ""
        yield f"| {title} | {' | '.join(cells)} | {least(orders_, base)} |"


def least(found: Sequence[Accuracies], base: Accuracies) -> str:
    """The corruption whose mean over the orders changes least, and by how much."""
    changes = {n: v - base[n] for n, v in mean_of_orders(found).items() if n != CLEAN}
    if not any(changes.values()):
        return ""
    worst = min(changes, key=lambda name: changes[name])
    return f"{changes[worst]:+.2f}, {words(worst)}"


def recurring(rounds: Mapping[str, Sequence[Sequence[float]]]) -> Iterator[Verdict]:
    """Whether the second round is as good as the first, in the mean of the orders."""
    for mode, found in rounds.items():
        first, second = np.mean(found, axis=0)
        yield verdict(
            f"{TITLES[mode]}, the 15 corruptions twice without a reset: "
            f"{spread([one[0] for one in found])}, then "
            f"{spread([one[1] for one in found])}",
            ">= first",
            holds=bool(round(second - first, 6) >= 0),
        )


def ordered(count: int) -> str:
    """What the figures of a table are over so many orders."""
    return f"mean ± standard deviation of {count} orders" if count > 1 else "one order"


def section(
    bench: Bench,
    found: Mapping[str, Sequence[Accuracies]],
    verdicts: Sequence[Verdict],
) -> str:
    """What the command writes into the page."""
    titled = {TITLES[mode]: rows for mode, rows in found.items()}
    three = bench.config(THREE)
    sites = ", ".join(map(str, three.sites or ()))
    lines = [
        f"`{bench.artefact.manifest.model.name}`, {len(bench.streams[CLEAN].labels)} "
        f"images a stream; {ordered(len(bench.orders))}.",
        f"*Three sites* are {sites} with a = {three.shrinkage:g}.",
        "",
        *summary(titled),
        "",
        *map(str, verdicts),
        "",
        "Stream by stream:",
        "",
        *stream_table({t: mean_of_orders(rows) for t, rows in titled.items()}),
    ]
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class Request:
    """The options of a command over these streams; ``count`` orders of them."""

    model: Path
    calib: str
    data: str
    work: Path
    images: int | None
    count: int
    output: Path

    def bench(self) -> Bench:
        """The network with all adaptation code and a ranking, and its streams."""
        streams = load_streams(self.data, limit=self.images)
        source = Source(self.model, self.calib, sites="auto:3", adapt="forge+pace")
        order = orders(len(streams[CLEAN].labels))[: self.count]
        work = Work(self.work)
        return Bench(work, compiled_once(work, source), streams, order)


def request_options(command: Callable[[Request], None]) -> Callable[..., None]:
    """Add the options that make a :class:`Request`, which the command takes."""

    @click.option(
        "--model", type=click.Path(path_type=Path, exists=True), required=True
    )
    @click.option("--calib", metavar="SPEC", required=True)
    @click.option("--data", metavar="SPEC", required=True)
    @click.option("--work", type=click.Path(path_type=Path), required=True)
    @click.option(
        "--images", type=click.IntRange(1), help="The first so many a stream."
    )
    @click.option("--orders", "count", type=click.IntRange(1, ORDERS), default=ORDERS)
    @click.option("--output", type=click.Path(path_type=Path), default=PAGE)
    @wraps(command)
    def with_request(**options: Any) -> None:
        command(Request(**options))

    return with_request


@click.command()
@request_options
def main(request: Request) -> None:
    """Write the section; see the top of this file."""
    bench = request.bench()
    found, rounds = measure(bench)
    table = {mode: mean_of_orders(rows) for mode, rows in found.items()}
    verdicts = [v for bound in BOUNDS for v in judge(bound, table)]
    verdicts += recurring(rounds)
    write_section(request.output, SECTION, section(bench, found, verdicts))
    sys.exit(1 if any(v.fails for v in verdicts) else 0)


def measure(
    bench: Bench,
) -> tuple[dict[str, list[dict[str, float]]], dict[str, list[list[float]]]]:
    """Accuracies by mode and order, and rounds; all of an order before the next."""
    found: dict[str, list[dict[str, float]]] = {mode: [] for mode in TITLES}
    rounds: dict[str, list[list[float]]] = {mode: [] for mode in RECURRING}
    for number in range(len(bench.orders)):
        for mode, title in TITLES.items():
            found[mode].append(bench.accuracies(mode, number))
            mean = corrupted_mean(found[mode][-1])
            click.echo(f"order {number}, {title}: {mean:.2f}", err=True)
        for mode in RECURRING:
            rounds[mode].append(bench.rounds(mode, number))
    return found, rounds


if __name__ == "__main__":
    main()
