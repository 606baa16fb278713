"""Fill docs/sites.md: how much of FORGE's gain its first K sites keep.

    refold compile MODEL --calib cifar10:PATH --sites auto:3 -o DIR
    python benchmarks/sites.py DIR --data SPEC [--published 14+6+5+...]

The emitted C adapts, gate off, at the first K sites of several orders: that of the
artefact's ranking, that of the sites' merit alone, and one that is given. All are
judged on the eleven corruptions that the ranking did not see. Exits 1 where a bound of
the page is missed.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from matplotlib.ticker import MaxNLocator
from measured import Measured
from page import read_section, write_section

from refoldc.adapt import AdaptConfig
from refoldc.artefact import load_artefact
from refoldc.cost import site_instructions
from refoldc.ranking import RankedSite, Ranking

from refold.corrupt import CORRUPTIONS
from refold.data import DataSet, load_data
from refold.files import write_text
from refold.held_out import HELD_OUT, SEVERITY
from refold.plots import finish, new_figure, style

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/sites.md"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/compiler")]

from emitted import EmittedModel  # noqa: E402 - a helper of the tests

JUDGED = tuple(name for name in CORRUPTIONS if name not in HELD_OUT)
THREE_KEEP, BEST_OF, BEST_KEEPS = 90.0, 12, 102.0

Gain = Callable[[Sequence[int], float], float]
"""From sites and shrinkage to the mean gain over the judged streams, in points."""


@dataclass(frozen=True)
class Row:
    """The first sites of each order, as many.

    Attributes:
        last: The ranking's last among them, and the shrinkage of all orders.
        instructions: That the ranking's sites cost.
        kept: Recovery by order, percent; None where the order is shorter.
    """

    last: RankedSite
    instructions: int
    kept: dict[str, float | None]


@click.command()
@click.argument("artefact", type=click.Path(path_type=Path, exists=True))
@click.option("--data", metavar="SPEC", required=True)
@click.option("--images", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--published", metavar="SITES", default="", help="Another order, by +.")
@click.option("--results", type=click.Path(path_type=Path), help="To go on from.")
@click.option("--output", type=click.Path(path_type=Path), default=PAGE)
def main(
    artefact: Path,
    data: str,
    images: int,
    published: str,
    results: Path | None,
    output: Path,
) -> None:
    """Write the model's section of the page; see the top of this file."""
    compiled = load_artefact(artefact)
    model, ranking = compiled.manifest.model, compiled.manifest.ranking
    if ranking is None:
        raise click.UsageError(f"{artefact} was compiled without --sites auto:K")
    read_section(output, model.name)  # it is there to be written
    shape = compiled.manifest.input.shape
    test = load_data(data, split="test", limit=images, shape=shape)
    subject = {"network": model.network_sha256, "data": data, "images": images}
    costs = [site_instructions(site) for site in compiled.qgraph.sites]
    with tempfile.TemporaryDirectory() as folder:
        fast = ["-DREFOLD_X86"] if platform.machine() == "x86_64" else []
        device = EmittedModel(compiled.qgraph, Path(folder), *fast)
        gain = make_gain(device, test, Measured(results, subject))
        rows = list(measure(gain, ranking, costs, orders(ranking, published)))
    bounds = list(check(rows))
    picture = output.with_name(f"sites-{model.name}.svg")
    write_text(picture, draw(rows))
    text = [
        f"### {model.name}, {len(test.labels)} images a stream",
        "",
        f"![Recovery by number of sites]({picture.name})",
        "",
        *table(rows),
        "",
        *(text for text, _ in bounds),
    ]
    write_section(output, model.name, "\n".join(text))
    sys.exit(0 if all(holds for _, holds in bounds) else 1)


def orders(ranking: Ranking, published: str) -> dict[str, list[int]]:
    """By name: the sites, the most useful first."""
    alone = sorted(ranking.sites, key=lambda ranked: (ranked.alone, ranked.site))
    found = {
        "greedy": [ranked.site for ranked in ranking.sites],
        "alone": [ranked.site for ranked in alone],
    }
    if published:
        found["published"] = [int(site) for site in published.split("+")]
    return found


def make_gain(device: EmittedModel, test: DataSet, known: Measured) -> Gain:
    """A function that measures where it must."""
    streams = [test.stream(name, SEVERITY, 0) for name in JUDGED]

    def accuracy(config: AdaptConfig) -> float:
        right = 0
        for images in streams:
            device.configure(config)
            found = [int(device.infer(image).logits.argmax()) for image in images]
            right += int((np.array(found) == test.labels).sum())
        return 100 * right / (len(streams) * len(test.labels))

    off: float = known.get("off", lambda: accuracy(AdaptConfig(method="off")))

    def gain(sites: Sequence[int], shrinkage: float) -> float:
        chosen = tuple(sorted(sites))
        config = AdaptConfig(gate=False, sites=chosen, shrinkage=shrinkage)
        key = f"{'+'.join(map(str, chosen))} a={shrinkage:g}"
        found: float = known.get(key, lambda: accuracy(config))
        return found - off

    return gain


def measure(
    gain: Gain, ranking: Ranking, costs: Sequence[int], orders: dict[str, list[int]]
) -> Iterator[Row]:
    """The first K sites of all orders, for every K."""
    everything = gain(range(len(costs)), AdaptConfig.shrinkage)
    for count, last in enumerate(ranking.sites, start=1):
        kept = {
            name: 100 * gain(order[:count], last.shrinkage) / everything
            if count <= len(order)
            else None
            for name, order in orders.items()
        }
        spent = sum(costs[site] for site in orders["greedy"][:count])
        yield Row(last, spent, kept)


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The curve, in Markdown."""
    names = list(rows[0].kept)
    yield f"| K | joins | a | instructions | {', % | '.join(names)}, % |"
    yield "|" + "--:|" * (4 + len(names))
    for count, row in enumerate(rows, start=1):
        kept = ["" if value is None else f"{value:.1f}" for value in row.kept.values()]
        cells = [count, row.last.site, f"{row.last.shrinkage:.1f}"]
        yield f"| {' | '.join(map(str, [*cells, f'{row.instructions:,}', *kept]))} |"


def draw(rows: Sequence[Row]) -> str:
    """The curve as SVG."""
    figure, axes = new_figure(height_inches=3.0)
    for number, name in enumerate(rows[0].kept):
        kept = [row.kept[name] for row in rows if row.kept[name] is not None]
        look = style(number)
        axes.plot(
            range(1, len(kept) + 1),
            kept,
            color=look.colour,
            linestyle=look.linestyle,
            marker=look.marker,
            markersize=3.5,
            label=name,
        )
    axes.set_ylabel("recovery, % of all sites' gain")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(loc="lower right")
    return finish(figure, axes, "K, sites that adapt") + "\n"


def check(rows: Sequence[Row]) -> Iterator[tuple[str, bool]]:
    """Each bound as a line, and whether it holds."""
    kept = [row.kept["greedy"] or 0.0 for row in rows]
    three, best = kept[min(3, len(kept)) - 1], max(kept[:BEST_OF])
    for text, found, least in (
        ("K = 3 keeps", three, THREE_KEEP),
        (f"the best K up to {BEST_OF} keeps", best, BEST_KEEPS),
    ):
        holds = found >= least
        verdict = "" if holds else "; **missed**"
        yield f"- {text} {found:.1f} % (bound: >= {least:g}{verdict})", holds


if __name__ == "__main__":
    main()
