"""What the device must answer, by the host model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact
from refoldc.reference import Reference
from refoldc.softmax import ONE_Q15, softmax_table


def expected_vectors(artefact: Artefact, images: NDArray[Any]) -> NDArray[np.float64]:
    """What the device must answer [N, classes], by the host model, in thousandths."""
    output = artefact.manifest.output
    reference = Reference(artefact.qgraph)
    reference.configure(AdaptConfig(method="off"), False)
    chosen = slice(output.first, output.first + output.count)
    logits = np.array([reference.infer(image).logits[chosen] for image in images])
    exp, shift = softmax_table(output.scale)
    below = (logits.max(axis=1, keepdims=True).astype(np.int64) - logits) >> shift
    weights = exp[np.minimum(below, len(exp) - 1)].astype(np.int64)
    q15 = weights * ONE_Q15 // weights.sum(axis=1, keepdims=True)
    thousandths: NDArray[np.int64] = (1000 * q15 + ONE_Q15 // 2) // ONE_Q15
    return thousandths / 1000


def differing(
    artefact: Artefact, images: NDArray[Any], vectors: NDArray[np.float64]
) -> int:
    """Count the images whose answer is not what it must be."""
    expected = expected_vectors(artefact, images)
    return int((expected != vectors).any(axis=1).sum())
