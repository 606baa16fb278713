"""Running statistics of a tensor: extremes and moments per channel, percentiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from refoldc.ir import F32, F64

BINS = 8192

Range = tuple[float, float]


@dataclass(frozen=True, eq=False)
class ChannelStats:
    """Extremes, mean and sum of squared deviations per channel, [C] each."""

    low: F32
    high: F32
    mean: F64
    deviations: F64
    count: int

    @staticmethod
    def of(values: F32) -> ChannelStats:
        """Measure values [N, C, POSITIONS].

        Rows are summed in float32, where numpy adds pairwise, about their own
        mean; everything across rows is float64. A channel that hardly varies
        about a large mean thus keeps its deviation.
        """
        rows = values.mean(axis=2)
        centred = values - rows[:, :, None]
        within = np.einsum("ncp,ncp->nc", centred, centred).astype(np.float64)
        # What rounding left in the rows' means: centred values do not sum to 0.
        means = rows + centred.mean(axis=2, dtype=np.float64)
        mean = means.mean(axis=0)
        between = values.shape[2] * ((means - mean) ** 2).sum(axis=0)
        return ChannelStats(
            low=values.min(axis=2).min(axis=0),
            high=values.max(axis=2).max(axis=0),
            mean=mean,
            deviations=within.sum(axis=0) + between,
            count=values.shape[0] * values.shape[2],
        )

    def joined(self, other: ChannelStats) -> ChannelStats:
        """Of both samples together.

        Source: Chan, Golub and LeVeque, Updating Formulae and a Pairwise
        Algorithm for Computing Sample Variances, 1979, equation 2.1.
        """
        count = self.count + other.count
        apart = other.mean - self.mean
        weight = self.count * (other.count / count)
        return ChannelStats(
            low=np.minimum(self.low, other.low),
            high=np.maximum(self.high, other.high),
            mean=self.mean + apart * (other.count / count),
            deviations=self.deviations + other.deviations + apart**2 * weight,
            count=count,
        )

    @property
    def finite(self) -> bool:
        """Whether neither the values nor their moments overflow."""
        numbers = (self.low, self.high, self.mean, self.deviations)
        return all(np.isfinite(array).all() for array in numbers)

    @property
    def range(self) -> Range:
        """Over all channels."""
        return float(self.low.min()), float(self.high.max())

    @property
    def moments(self) -> tuple[F64, F64]:
        """Mean and biased standard deviation."""
        return self.mean, np.sqrt(self.deviations / self.count)

    @property
    def span(self) -> tuple[F64, F64]:
        """Least and largest value per channel."""
        return self.low.astype(np.float64), self.high.astype(np.float64)

    def peak(self, centre: F32) -> F64:
        """Largest distance from a value per channel."""
        wide = centre.astype(np.float64)
        return np.maximum(self.high - wide, wide - self.low)


def histogram(values: F32, span: Range) -> NDArray[np.int64]:
    """Count values in ``BINS`` equal bins over ``span``, which holds them all."""
    low, high = span
    scale = np.float32(BINS / (high - low) if high > low else 0.0)
    index = ((values.reshape(-1) - np.float32(low)) * scale).astype(np.int32)
    return np.bincount(np.clip(index, 0, BINS - 1), minlength=BINS)


def percentile_range(bins: NDArray[np.int64], span: Range, share: float) -> Range:
    """The range that leaves out ``1 - share`` of the values at each end."""
    edges = np.linspace(*span, BINS + 1)
    reached = np.concatenate([[0], np.cumsum(bins)]) / bins.sum()
    low, high = np.interp([1 - share, share], reached, edges)
    return float(low), float(high)
