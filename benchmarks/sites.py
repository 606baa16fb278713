"""Make docs/sites.md: how much of FORGE's gain its first K sites keep.

    refold compile MODEL --calib cifar10:PATH --sites auto:3 -o DIR
    python benchmarks/sites.py DIR --data SPEC

The emitted C adapts, gate off, at the first K sites of two orders: that of the
artefact's ranking, and that of the sites' merit alone. Both are judged on the eleven
corruptions that the ranking did not see. Exits 1 where a bound of the page is missed.
"""

from __future__ import annotations

import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import numpy as np

from refoldc.adapt import AdaptConfig
from refoldc.artefact import load_artefact
from refoldc.cost import site_instructions
from refoldc.ranking import Ranking

from refold.corrupt import CORRUPTIONS
from refold.data import DataSet, load_data
from refold.held_out import HELD_OUT, SEVERITY

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/sites.md"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/compiler")]

from emitted import EmittedModel  # noqa: E402 - a helper of the tests

JUDGED = tuple(name for name in CORRUPTIONS if name not in HELD_OUT)
THREE_KEEP, BEST_OF, BEST_KEEPS = 90.0, 12, 102.0
HEAD = """# Choice of sites

`refold compile --sites auto:K` ranks the sites and lets the first K adapt. The manifest
keeps the whole order, so that `refold run --adapt 'forge:sites=auto:N'` may choose
another K.

**Ranking.** The first {ranked} calibration images are corrupted in four ways
({held_out}; severity 5), and the float network answers them,
each site recalibrated on the whole batch. Site after site joins those before it, the
one that brings the answers closest to the clean images' (least total variation of the
class probabilities; no labels). Of sites that differ by less than a quarter of a
standard error the one with fewest values to measure, which is what a site costs, wins.
The fewer sites share the work, the more each has to do: the shrinkage starts at 1 and
is lowered in steps of 0.1, after each site, while that helps. `auto:K` takes the a
found for K sites, unless a mode says `a=`. After twelve sites the others follow in the
order of the last round.

**Judged** on the other eleven corruptions and on test images: {images} a stream, one at
a time, from the clean state, gate off, emitted C. Recovery is the gain over off in
percent of the gain of all sites with a = 0.5. **alone** takes the K sites that recover
most alone, with the same a.

Made by

```sh
refold compile MODEL --calib cifar10:PATH --sites auto:3 -o DIR
python benchmarks/sites.py DIR --data {data} --images {images}
```
"""

Gain = Callable[[tuple[int, ...], float], float]


@dataclass(frozen=True)
class Row:
    """K sites in both orders; recoveries in percent."""

    added: int
    shrinkage: float
    instructions: int
    greedy: float
    alone: float


@click.command()
@click.argument("artefact", type=click.Path(path_type=Path, exists=True))
@click.option("--data", metavar="SPEC", required=True)
@click.option("--images", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=PAGE)
def main(artefact: Path, data: str, images: int, output: Path) -> None:
    """Write the page; see the top of this file."""
    compiled = load_artefact(artefact)
    ranking = compiled.manifest.ranking
    if ranking is None:
        raise click.UsageError(f"{artefact} was compiled without --sites auto:K")
    shape = compiled.manifest.input.shape
    test = load_data(data, split="test", limit=images, shape=shape)
    fast = ["-DREFOLD_X86"] if platform.machine() == "x86_64" else []
    costs = [site_instructions(site) for site in compiled.qgraph.sites]
    with tempfile.TemporaryDirectory() as folder:
        device = EmittedModel(compiled.qgraph, Path(folder), *fast)
        rows = list(measure(make_gain(device, test), ranking, costs))
    bounds = list(check(rows))
    head = HEAD.format(
        ranked=ranking.images,
        held_out=", ".join(ranking.corruptions).replace("_", " "),
        images=len(test.labels),
        data=data.partition(":")[0] + ":PATH",
    )
    name = compiled.manifest.model.name
    page = [head, *table(name, rows), "", *(text for text, _ in bounds)]
    output.write_text("\n".join(page) + "\n", encoding="utf-8")
    sys.exit(0 if all(holds for _, holds in bounds) else 1)


def make_gain(device: EmittedModel, test: DataSet) -> Gain:
    """From sites and shrinkage to the mean gain over the judged streams, in points."""
    streams = [test.stream(name, SEVERITY, 0) for name in JUDGED]

    def accuracy(config: AdaptConfig) -> float:
        right = 0
        for images in streams:
            device.configure(config)
            found = [int(device.infer(image).logits.argmax()) for image in images]
            right += int((np.array(found) == test.labels).sum())
        return 100 * right / (len(streams) * len(test.labels))

    off = accuracy(AdaptConfig(method="off"))
    print("off", off, flush=True)

    @cache
    def gain(sites: tuple[int, ...], shrinkage: float) -> float:
        return accuracy(AdaptConfig(gate=False, sites=sites, shrinkage=shrinkage)) - off

    return gain


def measure(gain: Gain, ranking: Ranking, costs: list[int]) -> Iterator[Row]:
    """The first K sites of both orders, for every K."""
    order = [ranked.site for ranked in ranking.sites]
    alone = [r.site for r in sorted(ranking.sites, key=lambda r: (r.alone, r.site))]
    everything = gain(tuple(range(len(costs))), AdaptConfig.shrinkage)
    print("all", everything, flush=True)
    for count, ranked in enumerate(ranking.sites, start=1):
        found = [
            100 * gain(tuple(sorted(sites[:count])), ranked.shrinkage) / everything
            for sites in (order, alone)
        ]
        spent = sum(costs[site] for site in order[:count])
        row = Row(ranked.site, ranked.shrinkage, spent, *found)
        print(count, row, flush=True)
        yield row


def table(name: str, rows: list[Row]) -> list[str]:
    """The curve, as lines."""
    return [
        f"## {name}",
        "",
        "| K | joins | a | instructions | recovery, % | alone, % |",
        "|--:|--:|--:|--:|--:|--:|",
        *(
            f"| {count} | {r.added} | {r.shrinkage:.1f} | {r.instructions:,} | "
            f"{r.greedy:.1f} | {r.alone:.1f} |"
            for count, r in enumerate(rows, start=1)
        ),
    ]


def check(rows: list[Row]) -> Iterator[tuple[str, bool]]:
    """Each bound as a line, and whether it holds."""
    three = rows[min(3, len(rows)) - 1].greedy
    best = max(row.greedy for row in rows[:BEST_OF])
    for text, found, least in (
        ("K = 3 keeps", three, THREE_KEEP),
        (f"the best K up to {BEST_OF} keeps", best, BEST_KEEPS),
    ):
        holds = found >= least
        verdict = "" if holds else "; **missed**"
        yield f"- {text} {found:.1f} % (bound: >= {least:g}{verdict})", holds


if __name__ == "__main__":
    main()
