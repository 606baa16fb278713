"""Which sites are worth adapting: greedy selection on corrupted images.

Site after site is added that brings the answers to corrupted images closest to the
answers to clean ones; no labels are needed. The more sites share the work, the less
each has to do, so that the shrinkage is lowered on the way. The network is the float
one, with each site recalibrated on the whole batch (``site_network``), and what lies
before a candidate is computed once for all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from refoldc.calibrate import float_feeds
from refoldc.cost import site_instructions
from refoldc.ir import F32, F64, Graph, QGraph, Site
from refoldc.options import CompileOptions
from refoldc.ranking import RankedSite, Ranking
from refoldc.site_network import Feeds, SiteNetwork

IMAGES = 64
"""Most images to rank with, each under every corruption."""
BYTES = 256 << 20
"""What all tensors of a batch may take; larger networks see fewer images."""
GREEDY = 12
"""Sites to choose among all; the rest follow in the order of the last round."""
MOST_SHRINKAGE, LEAST_SHRINKAGE, STEP = 1.0, 0.4, 0.1
DOUBT = 0.25
"""Standard errors; of sites whose losses differ by less, the cheapest is taken."""

Losses = Mapping[int, F64]
"""By candidate: the loss of every image of every stream."""


def rank_sites(
    graph: Graph,
    quantised: QGraph,
    images: NDArray[Any],
    corrupted: Mapping[str, NDArray[Any]],
    options: CompileOptions,
    progress: Callable[[str], None] = lambda _: None,
) -> Ranking:
    """Rank the sites that adapt by default.

    Args:
        graph: Folded, with targets.
        quantised: The integer network made from it.
        images: Clean ones, as for ``calibrate``.
        corrupted: By name: versions of the first of ``images``, as many of each.
        options: From ``CompileOptions.for_input``.
        progress: Told how far it is.
    """
    count = image_count(graph, corrupted)
    network = SiteNetwork(graph, quantised.sites)
    samples = (images, *corrupted.values())
    batches = [float_feeds(graph, x[:count], options) for x in samples]
    clean = softmax(network.answer(batches[0], (), 0.0), axis=1)
    search = _Search(network, [_Stream(network, x, clean) for x in batches[1:]])
    candidates = [i for i, site in enumerate(quantised.sites) if site.default_on]
    rounds = []
    for found in search.greedy(candidates, quantised.sites):
        rounds.append(found)
        progress(f"rank sites: {len(rounds)} of {len(candidates)}")
    return Ranking(
        images=count,
        corruptions=tuple(corrupted),
        off=search.loss((), 0.0),
        all=search.loss(candidates, quantised.shrinkage),
        sites=tuple(
            RankedSite(
                site=found.site,
                loss=found.loss,
                shrinkage=found.shrinkage,
                alone=float(rounds[0].tried[found.site].mean()),
            )
            for found in rounds
        ),
    )


def image_count(graph: Graph, corrupted: Mapping[str, NDArray[Any]]) -> int:
    """How many images of each stream are used."""
    elements = sum(prod(shape) for shape in graph.shapes.values())
    given = min(len(images) for images in corrupted.values())
    return min(given, IMAGES, max(8, BYTES // (4 * elements)))


@dataclass(frozen=True, eq=False)
class _Stream:
    """Corrupted images, and the answers that their clean versions get.

    Attributes:
        network: That answers.
        x: Its inputs.
        clean: Class probabilities of the clean answers, [N, C, ...].
    """

    network: SiteNetwork
    x: Feeds
    clean: F32

    def loss(self, chosen: Sequence[int], shrinkage: float) -> F64:
        """Of each image, [N]."""
        return self._distance(self.network.answer(self.x, chosen, shrinkage))

    def losses(
        self, chosen: Sequence[int], shrinkage: float, tried: Sequence[int]
    ) -> Losses:
        """With each candidate added to ``chosen``."""
        answers = self.network.answers(self.x, chosen, shrinkage, tried)
        return {site: self._distance(answer) for site, answer in answers}

    def _distance(self, answer: F32) -> F64:
        """Total variation from the clean answer: the least chance to disagree."""
        moved = np.abs(softmax(answer, axis=1) - self.clean)
        rows = moved.sum(axis=1, dtype=np.float64) / 2
        return np.asarray(rows.reshape(len(rows), -1).mean(axis=1))


@dataclass(frozen=True, eq=False)
class _Found:
    """One round: the site, the network's loss with it, and what else was tried."""

    site: int
    loss: float
    shrinkage: float
    tried: Losses


class _Search:
    """Adds sites to a network while it watches all streams."""

    def __init__(self, network: SiteNetwork, streams: Sequence[_Stream]) -> None:
        self._network = network
        self._streams = streams

    def loss(self, chosen: Sequence[int], shrinkage: float) -> float:
        """Mean over all images of all streams."""
        return float(np.mean([s.loss(chosen, shrinkage) for s in self._streams]))

    def greedy(
        self, candidates: Sequence[int], sites: Sequence[Site]
    ) -> Iterator[_Found]:
        """Round after round until no candidate is left."""
        instructions = [site_instructions(site) for site in sites]
        left, chosen, shrinkage = list(candidates), list[int](), MOST_SHRINKAGE
        while left:
            tried = left if len(chosen) < GREEDY else left[:1]
            losses = self._try(chosen, shrinkage, tried)
            site = pick(losses, instructions)
            chosen.append(site)
            loss, shrinkage = self._shrink(
                chosen, shrinkage, float(losses[site].mean())
            )
            yield _Found(site, loss, shrinkage, losses)
            order = {found: losses[found].mean() for found in tried}
            left = sorted(set(left) - {site}, key=lambda s: (order.get(s, inf), s))

    def _try(
        self, chosen: Sequence[int], shrinkage: float, tried: Sequence[int]
    ) -> Losses:
        parts = [s.losses(chosen, shrinkage, tried) for s in self._streams]
        return {site: np.concatenate([p[site] for p in parts]) for site in tried}

    def _shrink(
        self, chosen: Sequence[int], shrinkage: float, loss: float
    ) -> tuple[float, float]:
        """Lower the shrinkage while that lowers the loss."""
        while shrinkage > LEAST_SHRINKAGE:
            lower = round(shrinkage - STEP, 1)
            found = self.loss(chosen, lower)
            if found >= loss:
                break
            loss, shrinkage = found, lower
        return loss, shrinkage


def pick(losses: Losses, instructions: Sequence[int]) -> int:
    """The cheapest site among those that may be the best one.

    A site may be if its loss exceeds the least by at most ``DOUBT`` standard errors
    of their difference over the images.

    Args:
        losses: By candidate, of each image.
        instructions: Of each site of the model.
    """
    best = min(losses, key=lambda site: losses[site].mean())

    def may_be_best(site: int) -> bool:
        difference = losses[site] - losses[best]
        error = difference.std() / sqrt(len(difference))
        return bool(difference.mean() <= DOUBT * error)

    return min(
        filter(may_be_best, losses),
        key=lambda site: (instructions[site], losses[site].mean(), site),
    )
