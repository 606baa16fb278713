"""What clean images score, for the thresholds of the safety gate.

docs/numerics.md, "Gate".
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.facts import CHANGE_WINDOW
from refoldc.ir import QGraph
from refoldc.reference import Reference

IMAGES = 128
"""Most images to measure; the reference runs each."""
LEVEL_MARGIN = 1.5
"""The level of other clean images is not that of these; docs/numerics.md."""
ONE_IMAGE = AdaptConfig(gate=False, momentum=1.0, warm=0)
"""With it the running moments are those of the last image."""


def measure_gate(graph: QGraph, images: NDArray[Any]) -> QGraph:
    """Set the thresholds from clean images, as the device receives them.

    The score of n images is taken to be level + noise / n; the level is that of
    all, the noise what windows of ``CHANGE_WINDOW`` score above it.
    """
    if not graph.sites:
        return graph
    reference = Reference(graph)
    moments = []
    for image in images[:IMAGES]:
        reference.configure(ONE_IMAGE)
        reference.infer(image)
        moments.append(np.stack(reference.forge.moments))
    found = np.stack(moments)
    size = min(CHANGE_WINDOW, len(found))
    windows = np.split(found[: len(found) // size * size], len(found) // size)
    level, *scores = (
        float(reference.forge.score(*part.mean(axis=0, dtype=np.float32)))
        for part in (found, *windows)
    )
    noise = max(0.0, size * (float(np.mean(scores)) - level))
    return replace(graph, gate_level=LEVEL_MARGIN * level, gate_noise=noise)
