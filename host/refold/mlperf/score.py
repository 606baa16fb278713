"""What the public runner makes of the answers: top-1 and AUC."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

TARGETS = {"ic01": 85.0, "kws01": 90.0, "vww01": 80.0}
"""Least top-1 accuracy in percent, by the benchmark's id."""

F64 = NDArray[np.float64]


def normalised(vectors: F64) -> F64:
    """Divide each answer [N, classes] by its sum; one of zeros stays."""
    sums = vectors.sum(axis=1, keepdims=True)
    scaled: F64 = np.divide(vectors, sums, out=np.zeros_like(vectors), where=sums > 0)
    return scaled


def top1(vectors: F64, labels: NDArray[np.int64]) -> float:
    """Return the percentage right; ties go to the lowest index."""
    return 100 * float((vectors.argmax(axis=1) == labels).mean())


def auc(vectors: F64, labels: NDArray[np.int64]) -> float | None:
    """Return the mean over classes of one-against-the-rest areas under ROC.

    Of two classes only the second counts. None where a class does not occur.

    Source: Hand and Till, 2001, equation 3; with ties at their mean rank.
    """
    classes = vectors.shape[1]
    counts = np.bincount(labels, minlength=classes)
    if not counts.all() or classes < 2:
        return None
    chosen = [1] if classes == 2 else range(classes)
    return float(np.mean([_area(vectors[:, c], labels == c) for c in chosen]))


def _area(scores: F64, positive: NDArray[np.bool_]) -> float:
    """The probability that a positive is scored above a negative."""
    ones = int(positive.sum())
    ranks = float(rankdata(scores)[positive].sum())
    return (ranks - ones * (ones + 1) / 2) / (ones * (len(scores) - ones))
