"""What clean images look like to the safety gate; docs/numerics.md, "Gate"."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.facts import GATE_FIRST, GATE_WINDOW
from refoldc.ir import F32, QConv, QGraph, Site
from refoldc.recalibrate import DISTANCE_MAX, VARIANCE_FLOOR
from refoldc.reference import Reference

IMAGES = 256
"""Most images to measure; the reference runs each."""
LEAST_MARGIN = 3.0
ORDERS = 8
"""In which the images are run past the gate."""
SAFETY = 1.25
"""The margin's, over the most that clean images needed."""
ONE_IMAGE = AdaptConfig(gate=False, momentum=1.0, warm=0)
"""With it the running moments are those of the last image."""


def measure_gate(graph: QGraph, images: NDArray[Any]) -> QGraph:
    """Give each site its clean mean and scatter, and the gate its margin.

    Args:
        graph: The network.
        images: Clean, as the device receives them.
    """
    if not graph.sites:
        return graph
    means = image_means(Reference(graph), images[:IMAGES])
    widths = [len(site.mean) for site in graph.sites]
    parts = np.split(means, np.cumsum(widths)[:-1], axis=1)
    sites = {
        site.layer: measure_site(site, part)
        for site, part in zip(graph.sites, parts, strict=True)
    }
    layers = tuple(
        replace(layer, site=sites[layer.name])
        if isinstance(layer, QConv) and layer.site is not None
        else layer
        for layer in graph.layers
    )
    measured = replace(graph, layers=layers, gate_doubt=1 / len(means))
    return replace(measured, gate_margin=find_margin(measured, means))


def image_means(reference: Reference, images: NDArray[Any]) -> F32:
    """E[a] of each image at all sites, [images, channels], static tables.

    A mode may adapt sites that do not by default, so theirs are measured too.
    """
    everywhere = tuple(range(len(reference.graph.sites)))
    config, found = replace(ONE_IMAGE, sites=everywhere), []
    for image in images:
        reference.configure(config)
        reference.infer(image)
        found.append(reference.forge.means.copy())
    return np.stack(found)


def measure_site(site: Site, means: F32) -> Site:
    """The site with the mean and scatter of clean images' means, [images, channels]."""
    least = site.variance * VARIANCE_FLOOR
    scatter = np.maximum(means.var(axis=0, dtype=np.float64), least)
    clean = means.mean(axis=0, dtype=np.float64).astype(np.float32)
    return replace(site, clean=clean, precision=(1 / scatter).astype(np.float32))


def find_margin(graph: QGraph, means: F32) -> float:
    """The margin at which the gate stays closed on the clean images, and more."""
    most = max(
        float(chances(graph, np.random.default_rng(order).permutation(means)).max())
        for order in range(ORDERS)
    )
    return max(LEAST_MARGIN, SAFETY * most)


def chances(graph: QGraph, means: F32) -> NDArray[np.float64]:
    """Distances of a stream's windows from clean, in units of what chance gives."""
    clean, precision, live = (
        np.concatenate([getattr(site, name) for site in graph.sites])
        for name in ("clean", "precision", "live")
    )
    window, found = np.zeros(means.shape[1]), []
    for number, mean in enumerate(means, start=1):
        n = min(number, GATE_WINDOW)
        window += (mean - window) / n
        terms = np.minimum((window - clean) ** 2 * precision, DISTANCE_MAX)[live]
        found.append(terms.sum() / max(1, live.sum()) / (1 / n + graph.gate_doubt))
    return np.array(found[GATE_FIRST - 1 :] or [0.0])
