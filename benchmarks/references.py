r"""The references of docs/results.md: float networks that adapt, on the same images.

    pip install 'refold[lab]'
    python benchmarks/references.py --model NET.onnx --calib cifar10:PATH --data SPEC \
        --work DIR

The network runs in torch, in float32 with its BatchNorms and folded, over the streams
and orders of orders.py, with whose figures (of the same --work folder, or measured
now) it is compared. What has been measured is kept there, so that the command goes on
where it was ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import click
import torch
from held_out import MEAN, STD, Stream, held_out_orders
from orders import (
    Bench,
    Request,
    mean_of_orders,
    ordered,
    request_options,
    spread,
    summary,
)
from page import write_section
from rows import (
    BOTH,
    GATED,
    OFF,
    PUBLISHED,
    TITLES,
    UNGATED,
    Accuracies,
    corrupted_mean,
    stream_table,
)
from streams import Order, streams_hash
from torch_adapt import Fixed, Method, Refold, Running, Tent
from torch_network import Network
from work import Work, file_hash, source_hash

from refoldc.adapt import AdaptConfig
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.input_spec import normalised

from refold.held_out import HELD_OUT

PAGE = Path(__file__).resolve().parent.parent / "docs/results.md"
SECTION = "references"
PUBLISHED_RATE = 1e-3
"""Of TENT, for CIFAR-10-C in batches of 200; the FORGE paper takes it for 64, too."""
RATES = (1e-4, 3e-4, 1e-3, 3e-3)
"""To choose from for other batches."""
SOURCES = (
    "benchmarks/torch_network.py",
    "benchmarks/torch_adapt.py",
    "compiler/refoldc/fold.py",
    "compiler/refoldc/fold_affine.py",
    "compiler/refoldc/importer.py",
)
"""That figures follow from."""
RATE_IMAGES = 500
"""Of each held-out corruption."""
SHOWN = (
    "off",
    "BN-adapt, batch 64",
    "TENT, batch 64",
    "TENT, causal, window 64",
    "FORGE, published rule, batch 64",
)
"""Rows shown stream by stream."""
COMPARED = (OFF, PUBLISHED, UNGATED, GATED, BOTH)
"""Rows of orders.py that the section repeats."""


@dataclass(frozen=True, eq=False)
class Networks:
    """One model, with its BatchNorms and without."""

    path: Path

    @cached_property
    def plain(self) -> Network:
        """As it is."""
        return Network(import_model(self.path))

    @cached_property
    def folded(self) -> Network:
        """Its BatchNorms in the convolutions."""
        return Network(fold(import_model(self.path)))


Make = Callable[[Networks, float], Method]
"""From networks and TENT's rate."""


@dataclass(frozen=True)
class Reference:
    """A row.

    Attributes:
        batch: Images that are answered together.
        rate: Of its optimiser; None has it chosen on training images.
        ordered: It depends on the order of the images.
    """

    title: str
    batch: int
    make: Make
    rate: float | None = PUBLISHED_RATE
    ordered: bool = True


def references() -> Iterator[Reference]:
    """All rows, those of single images last; the first adapts nothing."""
    yield Reference("off", 64, _fixed, ordered=False)
    yield Reference("BN-adapt after folding", 64, _folded_bn_adapt, ordered=False)
    yield Reference("BN-adapt, batch 64", 64, _bn_adapt)
    for batch in (64, 16, 4):
        yield Reference(f"FORGE, published rule, batch {batch}", batch, _forge)
    for batch in (64, 200):
        yield Reference(f"TENT, batch {batch}", batch, _tent)
    yield Reference("TENT, causal, window 64", 64, _causal_tent)
    yield Reference("TENT, causal, window 16", 16, _causal_tent, rate=None)
    yield Reference("BN-adapt, batch 1", 1, _bn_adapt)
    yield Reference("FORGE, published rule, batch 1", 1, _forge)
    yield Reference("FORGE, our rule, batch 1", 1, _refold)
    yield Reference("TENT, batch 1", 1, _tent, rate=None)


def _fixed(networks: Networks, rate: float) -> Method:
    return Fixed(networks.plain)


def _bn_adapt(networks: Networks, rate: float) -> Method:
    return Running(networks.plain, networks.plain.norms)


def _folded_bn_adapt(networks: Networks, rate: float) -> Method:
    """The folded network has no BatchNorm left to adapt."""
    return Running(networks.folded, networks.folded.norms)


def _forge(networks: Networks, rate: float) -> Method:
    return Running(networks.folded, networks.folded.sites)


def _refold(networks: Networks, rate: float) -> Method:
    return Refold(networks.folded)


def _tent(networks: Networks, rate: float) -> Method:
    return Tent(networks.plain, rate=rate)


def _causal_tent(networks: Networks, rate: float) -> Method:
    return Tent(networks.plain, rate=rate, causal=True)


def accuracy(method: Method, stream: Stream, batch: int) -> float:
    """Of a stream, answered in batches, in percent."""
    pixels = normalised(stream.images, MEAN, STD)
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2)
    found = torch.cat([method.answer(part).argmax(dim=1) for part in x.split(batch)])
    return 100 * float((found.numpy() == stream.labels).mean())


@dataclass(frozen=True, eq=False)
class Lab:
    """A network in torch, and what is known of it."""

    work: Work
    networks: Networks
    calib: str

    def accuracies(
        self, row: Reference, streams: Mapping[str, Stream], rate: float
    ) -> dict[str, float]:
        """Of streams in their order, each from the clean state, in percent."""
        config = AdaptConfig()
        depends = {
            "network": file_hash(self.networks.path),
            "streams": streams_hash(streams),
            "sources": source_hash(*SOURCES),
            "defaults": [config.shrinkage, config.momentum, config.warm],
            "batch": row.batch,
            "rate": rate,
        }

        def measure() -> dict[str, float]:
            return {
                name: accuracy(row.make(self.networks, rate), stream, row.batch)
                for name, stream in streams.items()
            }

        return self.work.recall(
            f"float {row.title}", depends, dict[str, float], measure
        )

    def rate(self, row: Reference) -> float:
        """The row's, or the one of RATES that does best on training images."""
        if row.rate is not None:
            return row.rate
        means = {
            rate: corrupted_mean(self.accuracies(row, self._held_out, rate))
            for rate in RATES
        }
        return max(means, key=lambda rate: means[rate])

    @cached_property
    def _held_out(self) -> dict[str, Stream]:
        (streams,) = held_out_orders(self.calib, RATE_IMAGES, 1)
        return {name: streams[name] for name in HELD_OUT}


def in_order(streams: Mapping[str, Stream], order: Order) -> dict[str, Stream]:
    """The streams, their images in another order."""
    return {
        name: Stream(stream.images[order], stream.labels[order])
        for name, stream in streams.items()
    }


def measure(lab: Lab, bench: Bench) -> dict[str, list[dict[str, float]]]:
    """By title and order, order by order."""
    found: dict[str, list[dict[str, float]]] = {}
    for number, order in enumerate(bench.orders):
        streams = in_order(bench.streams, order)
        for row in references():
            rows = found.setdefault(row.title, [])
            if row.ordered or number == 0:
                rows.append(lab.accuracies(row, streams, lab.rate(row)))
            else:
                rows.append(rows[0])
            mean = corrupted_mean(rows[-1])
            click.echo(f"order {number}, {row.title}: {mean:.2f}", err=True)
    return found


def section(
    lab: Lab,
    found: Mapping[str, Sequence[Accuracies]],
    compiled: Mapping[str, Sequence[Accuracies]],
) -> str:
    """What the command writes into the page."""
    rates = {row.title: lab.rate(row) for row in references() if row.rate is None}
    chosen = ", ".join(f"{rate:g} ({title})" for title, rate in rates.items())
    columns = {
        **{title: mean_of_orders(found[title]) for title in SHOWN},
        **{f"{TITLES[m]}, int8": mean_of_orders(compiled[m]) for m in (GATED, BOTH)},
    }
    lines = [
        f"`{lab.networks.path.name}` in float32; {ordered(len(found['off']))}. Rates "
        f"chosen on training images: {chosen}.",
        "",
        *summary(found),
        "",
        "The compiled int8 network on the same images and orders, one at a time:",
        "",
        *summary({TITLES[mode]: compiled[mode] for mode in COMPARED}),
        "",
        *compare(found, compiled),
        "",
        *stream_table(columns),
    ]
    return "\n".join(lines)


def compare(
    found: Mapping[str, Sequence[Accuracies]],
    compiled: Mapping[str, Sequence[Accuracies]],
) -> Iterator[str]:
    """The int8 modes against TENT, in points of the corrupted mean."""
    for title in (name for name in found if name.startswith("TENT")):
        for mode in (GATED, BOTH):
            pairs = zip(compiled[mode], found[title], strict=True)
            changes = [corrupted_mean(one) - corrupted_mean(two) for one, two in pairs]
            yield f"- {TITLES[mode]} (int8) against {title}: {spread(changes)}"


@click.command()
@request_options
def main(request: Request) -> None:
    """Write the section; see the top of this file."""
    torch.set_num_threads(1)
    bench = request.bench()
    lab = Lab(bench.work, Networks(request.model), request.calib)
    found = measure(lab, bench)
    compiled = {
        mode: [bench.accuracies(mode, number) for number in range(len(bench.orders))]
        for mode in COMPARED
    }
    write_section(request.output, SECTION, section(lab, found, compiled))


if __name__ == "__main__":
    main()
