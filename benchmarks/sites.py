"""Make docs/sites.md: how much of FORGE's gain its first K sites keep.

    python benchmarks/sites.py --model FILE --calib cifar10:PATH --data SPEC

A CIFAR-10 network is compiled with --sites auto:3. The emitted C then adapts, gate
off, at the first K sites of two orders: refold's, and that of the sites' merit alone.
Both are judged on the eleven corruptions that the ranking did not see. Exits 1 where
a bound of the page is missed.
"""

from __future__ import annotations

import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import click
import numpy as np

from refoldc.adapt import AdaptConfig
from refoldc.cost import site_instructions
from refoldc.inspection import inspect_model
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model
from refoldc.rank_sites import IMAGES
from refoldc.ranking import Ranking

from refold.corrupt import CORRUPTIONS
from refold.data import DataSet, load_data
from refold.held_out import HELD_OUT, SEVERITY, corrupted_versions

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/sites.md"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/compiler")]

from emitted import EmittedModel  # noqa: E402 - a helper of the tests

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
CALIBRATION_IMAGES = 512
JUDGED = tuple(name for name in CORRUPTIONS if name not in HELD_OUT)
THREE_KEEP, BEST_OF, BEST_KEEPS = 90.0, 12, 102.0
HEAD = """# Choice of sites

`refold compile --sites auto:K` ranks the sites and lets the first K adapt. The manifest
keeps the whole order, so that `refold run --adapt 'forge:sites=auto:N'` may choose
another K.

**Ranking.** The first {ranked} calibration images are corrupted in four ways
({held_out}; severity 5), and the float network answers them, each site recalibrated on
the whole batch. Site after site joins those before it, the one that brings the answers
closest to the clean images' (least mean KL divergence; no labels). Among the sites that
are within one standard error of the best, the one with fewest values to measure, which
is what a site costs, wins. The fewer sites share the work, the more each has to do: the
shrinkage starts at 1 and is lowered in steps of 0.1, after each site, while that helps.
`auto:K` takes the a found for K sites, unless a mode says `a=`.

**Judged** on the other eleven corruptions and on test images: {images} a stream, one at
a time, from the clean state, gate off, emitted C. Recovery is the gain over off in
percent of the gain of all sites with a = 0.5. **alone** takes the K sites that recover
most alone, with the same a.

Made by

```sh
python benchmarks/sites.py --model MODEL --calib {calib} --data {data} --images {images}
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
@click.option("--model", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--calib", metavar="SPEC", required=True)
@click.option("--data", metavar="SPEC", required=True)
@click.option("--images", type=click.IntRange(1), default=1000, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), default=PAGE)
def main(model: Path, calib: str, data: str, images: int, output: Path) -> None:
    """Write the page; see the top of this file."""
    shape = inspect_model(model).input_shape
    known = load_data(calib, split="train", limit=CALIBRATION_IMAGES, shape=shape)
    test = load_data(data, split="test", limit=images, shape=shape)
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        artefact = compile_model(
            *(model, known.images, Path(folder) / "artefact"),
            options=CompileOptions(mean=MEAN, std=STD, sites="auto:3"),
            corrupted=corrupted_versions(known, limit=IMAGES),
            progress=lambda text: print(text, flush=True),
        )
        seconds = time.process_time() - start
        fast = ["-DREFOLD_X86"] if platform.machine() == "x86_64" else []
        device = EmittedModel(artefact.qgraph, Path(folder), *fast)
        ranking = artefact.manifest.ranking
        costs = [site_instructions(site) for site in artefact.qgraph.sites]
        rows = list(measure(make_gain(device, test), ranking, costs))
    bounds = list(check(rows))
    head = HEAD.format(
        ranked=ranking.images,
        held_out=", ".join(HELD_OUT).replace("_", " "),
        images=len(test.labels),
        calib=calib.partition(":")[0] + ":PATH",
        data=data.partition(":")[0] + ":PATH",
    )
    page = [head, *table(model.name, rows), "", *(text for text, _ in bounds)]
    page += [f"- compiling, ranking included, took {seconds:.0f} s of processor time"]
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
