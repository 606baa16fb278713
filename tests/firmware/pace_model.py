"""PACE in float64 NumPy, written from the papers: what the fp32 C is checked against.

Only random numbers and ties follow the C exactly; all other arithmetic is another
one, so that agreement to 1e-5 says that the C computes what the papers say.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Words = NDArray[np.uint32]

CANDIDATE, SIGNS_IN, SIGNS_MIDDLE, PERMUTATION = range(4)
"""Purposes of random streams."""


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Philox4x32-10 of counters [N, 4]: words [N, 4]."""
    low = np.uint64(0xFFFFFFFF)
    c = counter.astype(np.uint64).T.copy()
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = np.stack(
            [
                p1 >> np.uint64(32) ^ c[1] ^ np.uint64(k0),
                p1 & low,
                p0 >> np.uint64(32) ^ c[3] ^ np.uint64(k1),
                p0 & low,
            ]
        )
        k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
    return c.T.astype(np.uint32)


def words(
    count: int, seed: int, purpose: int, generation: int = 0, candidate: int = 0
) -> Words:
    """The first ``count`` words of a stream."""
    blocks = np.arange(-(-count // 4))
    place = np.broadcast_to([candidate, generation, purpose], (len(blocks), 3))
    counter = np.column_stack([blocks, place]).astype(np.uint32)
    return philox(counter, (seed, 0)).ravel()[:count]


def normals(count: int, seed: int, generation: int, candidate: int) -> F64:
    """Quantiles of (k + 1/2) / 2^23 from the upper 23 bits."""
    k = words(count, seed, CANDIDATE, generation, candidate) >> 9
    return scipy.special.ndtri((k + 0.5) / 2**23)


def signs(count: int, seed: int, purpose: int) -> F64:
    """-1 where bit i of the stream is set."""
    stream = words(-(-count // 32), seed, purpose).astype("<u4").view(np.uint8)
    return 1.0 - 2.0 * np.unpackbits(stream, bitorder="little")[:count]


def permutation(count: int, seed: int) -> NDArray[np.int64]:
    """Indices that Fisher and Yates leave."""
    order = np.arange(count)
    draws = words(count, seed, PERMUTATION)
    for i in range(count - 1, 0, -1):
        j = int(draws[i]) * (i + 1) >> 32
        order[[i, j]] = order[[j, i]]
    return order


def fastfood_matrix(seed: int, inputs: int, outputs: int) -> F64:
    """Dense P [outputs, inputs]."""
    n = 1 << (outputs - 1).bit_length()
    hadamard = scipy.linalg.hadamard(n).astype(float)
    mix = hadamard * signs(n, seed, SIGNS_IN)
    mix = signs(n, seed, SIGNS_MIDDLE)[:, None] * mix[permutation(n, seed)]
    return (hadamard @ mix)[:outputs, :inputs] / np.sqrt(n * outputs)


@dataclass
class CmaEs:
    """Hansen's tutorial in its own terms: C, its Cholesky factor, eqs. 38 to 47."""

    d: int
    population: int
    active: bool
    seed: int
    generation: int = 0
    injected: list[F64] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Table 1."""
        d, count = self.d, self.population
        w = np.log((count + 1) / 2) - np.log(np.arange(1, count + 1))
        best, rest = w[: count // 2], w[count // 2 :]
        self.mu = count // 2
        self.mu_eff = m = best.sum() ** 2 / (best**2).sum()
        self.c_sigma = (m + 2) / (d + m + 5)
        self.d_sigma = 1 + 2 * max(0.0, np.sqrt((m - 1) / (d + 1)) - 1) + self.c_sigma
        self.c_c = (4 + m / d) / (d + 4 + 2 * m / d)
        boost = (d + 2) / 3 if d > 64 else 1.0
        self.c_1 = min(1.0, boost * 2 / ((d + 1.3) ** 2 + m))
        rank_mu = boost * 2 * (0.25 + m + 1 / m - 2) / ((d + 2) ** 2 + m)
        self.c_mu = min(1 - self.c_1, rank_mu)
        against = rest.sum() ** 2 / (rest**2).sum()
        mass = min(
            1 + self.c_1 / self.c_mu,
            1 + 2 * against / (m + 2),
            (1 - self.c_1 - self.c_mu) / (d * self.c_mu),
        )
        negative = mass * rest / -rest.sum() if self.active else 0 * rest
        self.weights = np.concatenate([best / best.sum(), negative])
        self.chi = np.sqrt(d) * (1 - 1 / (4 * d) + 1 / (21 * d * d))
        self.restart(np.zeros(d), 1.0)

    def restart(self, mean: F64, sigma: float) -> None:
        """A new search from ``mean``."""
        self.mean, self.sigma = np.asarray(mean, float), sigma
        self.p_sigma, self.p_c = np.zeros(self.d), np.zeros(self.d)
        self.covariance = np.eye(self.d)
        self.since_start = 0
        self.injected = []

    def candidates(self) -> F64:
        """The population [population, d]."""
        drawn = [
            normals(self.d, self.seed, self.generation, i)
            for i in range(len(self.injected), self.population)
        ]
        steps = np.array(drawn) @ self.factor.T
        return np.array([*self.injected, *(self.mean + self.sigma * steps)])

    @property
    def factor(self) -> F64:
        """Of C, lower triangular."""
        return np.linalg.cholesky(self.covariance)

    def tell(self, losses: NDArray[Any]) -> None:
        """One update from the losses of ``candidates``."""
        d, factor = self.d, self.factor
        order = np.argsort(losses, kind="stable")
        y = (self.candidates() - self.mean) / self.sigma
        z = np.linalg.solve(factor, y.T).T
        lengths = np.linalg.norm(z, axis=1)
        cuts = np.ones(self.population)
        inside = len(self.injected)
        most = np.sqrt(d) + 2 * d / (d + 2)
        cuts[:inside] = np.minimum(1, most / np.maximum(lengths[:inside], 1e-300))
        y, lengths = (y * cuts[:, None])[order], (lengths * cuts)[order]
        step = self.weights[: self.mu] @ y[: self.mu]
        self.mean = self.mean + self.sigma * step
        self._advance(step, y, lengths, factor)
        self.generation += 1
        self.injected = []

    def _advance(self, step: F64, y: F64, lengths: F64, factor: F64) -> None:
        """Eqs. 43 to 47."""
        c, m = self.c_sigma, self.mu_eff
        whitened = np.linalg.solve(factor, step)
        self.p_sigma = (1 - c) * self.p_sigma + np.sqrt(c * (2 - c) * m) * whitened
        length = np.linalg.norm(self.p_sigma) / self.chi
        self.since_start += 1
        grown = np.sqrt(1 - (1 - c) ** (2 * self.since_start))
        h = float(length / grown < 1.4 + 2 / (self.d + 1))
        c = self.c_c
        self.p_c = (1 - c) * self.p_c + h * np.sqrt(c * (2 - c) * m) * step
        squares = np.maximum(lengths**2, 1e-20)
        w = np.where(self.weights < 0, self.weights * self.d / squares, self.weights)
        lost = (1 - h) * c * (2 - c)
        keep = 1 + self.c_1 * lost - self.c_1 - self.c_mu * self.weights.sum()
        self.covariance = keep * self.covariance + self.c_1 * np.outer(
            self.p_c, self.p_c
        )
        self.covariance += self.c_mu * (y.T * w) @ y
        if self.d > 64:
            self.covariance = np.diag(np.diag(self.covariance))
        self.sigma *= np.exp(min(1.0, self.c_sigma / self.d_sigma * (length - 1)))


def most_similar(vectors: F64) -> int:
    """The vector [N, d] of the highest mean cosine with the others."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, lengths, where=lengths > 0, out=np.zeros_like(vectors))
    return int(np.argmax((unit @ unit.T).sum(axis=1) - (unit**2).sum(axis=1)))


def entropy(logits: NDArray[np.int32], scale: float) -> float:
    """Of the softmax, nats."""
    p = scipy.special.softmax(logits.astype(float) * scale)
    return float(scipy.special.entr(p).sum())


def discrepancy(values: F64, mean: F64, variance: F64, weight: F64) -> float:
    """Of values [N, channels] from the source's moments."""
    means = weight * (values.mean(axis=0) - mean)
    deviations = weight * (values.std(axis=0) - np.sqrt(variance))
    return float(np.linalg.norm(means) + np.linalg.norm(deviations))


def divergence(m1: F64, v1: F64, m2: F64, v2: F64) -> float:
    """Mean over channels of the symmetric KL as PACE prints it."""
    d = (m1 - m2) ** 2
    terms = (v1 + d) / (2 * v2) - 0.5 + (v2 + d) / (2 * v1) - 0.5
    return float(terms.mean())
