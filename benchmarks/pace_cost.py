"""What PACE costs: forward passes on a stable stream, and what its candidates share.

    python benchmarks/pace_cost.py ARTEFACT... --data cifar10:PATH --page docs/pace.md

The first artefact is built for the native board and streams the test images, one
corruption a stream, at default settings. Then a search of every artefact is timed, as
it was compiled and with candidates that run the whole network. Exits 1 where a stream
takes more forward passes an image than the page allows.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

import click
import numpy as np
from native_model import NativeModel, SearchSize
from numpy.typing import NDArray
from page import show

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact, load_artefact
from refoldc.input_spec import input_slots

from refold.cost import stream_cost
from refold.data import load_data
from refold.errors import UserError
from refold.job import RunOptions
from refold.result import Result
from refold.runner import run

IMAGES = 2000
CORRUPTIONS = ("gaussian_noise", "motion_blur", "fog", "contrast", "jpeg_compression")
MODES = ("pace", "forge+pace")
MOST_PASSES = 3.0
SEARCHES = 9
SECTION = "pace cost"


@dataclass(frozen=True)
class Saving:
    """A search as compiled, and one whose candidates run the whole network.

    Attributes:
        sites: That move.
        layer: Where candidates begin.
        macs: Share of the network's MACs that they run, in percent.
        window_bytes, image_bytes: Of the window; of one that keeps the images.
        time: Share of the time of whole candidates, in percent.
    """

    sites: str
    layer: str
    macs: float
    window_bytes: int
    image_bytes: int
    time: float


@click.command()
@click.argument("artefacts", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--data", metavar="SPEC", required=True)
@click.option("--page", type=click.Path(path_type=Path, exists=True))
def main(artefacts: tuple[Path, ...], data: str, page: Path | None) -> None:
    """Print the figures, or write them into a page; see the top of this file."""
    result = stream(artefacts[0], data)
    images = load_data(data, split="test", limit=IMAGES).images
    savings = [saving(load_artefact(path), images) for path in artefacts]
    lines = [*passes_table(result), "", *saving_table(savings)]
    show("\n".join(lines), page, SECTION)
    sys.exit(0 if most_passes(result) <= MOST_PASSES else 1)


def stream(artefact: Path, data: str) -> Result:
    """Stable streams from the clean state, on the native board."""
    options = RunOptions(
        data=data,
        corruptions=",".join(CORRUPTIONS),
        adapt=",".join(MODES),
        images=IMAGES,
        check=False,
    )
    result = run(artefact, options)
    if not result.complete:
        raise UserError(f"the run ended early: {'; '.join(result.reasons)}")
    return result


def most_passes(result: Result) -> float:
    """Forward passes an image of the stream that takes most."""
    streams = (stream for found in result.runs for stream in found.streams)
    return max(stream.forward_passes / stream.images for stream in streams)


def passes_table(result: Result) -> Iterator[str]:
    """In Markdown: passes an image, and where the time goes in percent."""
    yield f"Forward passes of an image over {IMAGES:,} images, at most {MOST_PASSES:g}:"
    yield ""
    yield "| stream | mode | passes | adapted, % | network, % | update, % | search, % |"
    yield f"|---|---|{'---:|' * 5}"
    for found in result.runs:
        for one in found.streams:
            cost = stream_cost(one)
            if cost is None:
                continue
            times = np.array([cost.network_us, cost.update_us, cost.search_us])
            cells = (f"{100 * part:.0f}" for part in times / times.sum())
            yield (
                f"| {one.corruption.replace('_', ' ')} | `{found.adapt}` "
                f"| {cost.passes:.2f} | {cost.adapted:.0f} | {' | '.join(cells)} |"
            )


def saving(artefact: Artefact, images: NDArray[np.uint8]) -> Saving:
    """Time searches of both kinds in turn, in this process."""
    search = artefact.manifest.search
    if search is None:
        raise UserError(f"{artefact.path} contains no PACE: compile with --adapt pace")
    models = [
        NativeModel(artefact, search=SearchSize(whole=whole)) for whole in (False, True)
    ]
    share = time_share(models, images, window=search.window)
    layer = artefact.manifest.layers[search.cut.first].name
    return Saving(
        sites="+".join(map(str, search.sites)),
        layer="the image" if search.cut.tensor is None else layer,
        macs=100 * search.cut.macs / artefact.manifest.model.macs,
        window_bytes=search.window * search.cut.kept_bytes,
        image_bytes=search.window * input_slots(artefact.qgraph)[-1].end,
        time=100 * share,
    )


def time_share(
    models: Sequence[NativeModel], images: NDArray[np.uint8], *, window: int
) -> float:
    """The first model's time over the second's: the median of several windows."""
    for model in models:
        model.configure(AdaptConfig(method="pace", sigma=0.3, generations=0))
    starts = range(0, window * (SEARCHES + 1), window)
    shares = []
    for begin, end in pairwise(starts):
        shared, whole = (model.search_s(images[begin:end]) for model in models)
        shares.append(shared / whole)
    return median(shares)


def saving_table(savings: Sequence[Saving]) -> Iterator[str]:
    """In Markdown."""
    yield "What candidates share, by the sites that move:"
    yield ""
    yield (
        "| sites | a candidate begins with | of the MACs, % | of the time, % "
        "| window, bytes | of images, bytes |"
    )
    yield f"|---|---|{'---:|' * 4}"
    for one in savings:
        yield (
            f"| {one.sites} | {one.layer} | {one.macs:.1f} | {one.time:.1f} "
            f"| {one.window_bytes:,} | {one.image_bytes:,} |"
        )


if __name__ == "__main__":
    main()
