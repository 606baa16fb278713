"""FORGE as a state machine: what adapts, when, and its saved record.

The arithmetic is in ``recalibrate``; docs/numerics.md says when each part runs.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import DTypeLike, NDArray

from refoldc.errors import RefoldcError
from refoldc.facts import (
    ACCEPT_MAX,
    GATE_FIRST,
    INTERVAL_MAX,
    LAMBDA_MAX,
    SHIFT_MAX,
    SIGMA_MAX,
    Method,
    Phase,
    Rule,
)
from refoldc.gate import GateState, Look, Verdict
from refoldc.ir import F32, F64, QConv, Requant
from refoldc.recalibrate import (
    distance,
    divergence,
    image_mean,
    image_moments,
    make_table,
    momentum,
    score,
    spread,
)

AdaptMethod = Literal["off", "forge", "pace", "forge+pace"]
METHODS: tuple[AdaptMethod, ...] = get_args(AdaptMethod)

EAGER_IMAGES = 32
"""For so many images the table follows every image, whatever the interval."""

MAGIC, VERSION = b"RFST", 2
MEAN_LIMIT, SQUARE_LIMIT = np.float32(2.0**31), np.float32(2.0**62)
"""Beyond these no stream comes, and a table's integers might not fit 64 bits."""
HEADER = struct.Struct("<4sHBB32sIIIf")
MOMENTS = 3
"""Arrays of a record: E1 and E2 of the stream, W1 of the gate's window."""
LEAST_GRADE = 1e-6


@dataclass(frozen=True)
class AdaptConfig:
    """What ``refold_adapt_config`` holds; the defaults are those of ``forge+pace``.

    Attributes:
        method: ``off`` runs the static tables.
        stats: ``lagged`` uses the images before this one; ``exact`` this one too.
        rule: ``published`` tracks variances per image instead of E[a*a].
        gate: Static tables until the stream is seen to have shifted.
        interval: Images between table updates, 1 to 64.
        warm: The momentum of image t is at least 1 / (t + warm); 0: no warm start.
        shrinkage: a in [0, 1]; 0 keeps the targets, 1 trusts the stream.
        momentum: Floor of the momentum, in (0, 1].
        grade: g: a is scaled by score / (score + g); 0 leaves it.
        sites: Indices that FORGE adapts; None takes the model's default sites.
        seed: Of PACE, like all that follow.
        dimension: d of the search; 0: as large as the firmware's memory allows.
        population: Candidates of a generation.
        window: Images that judge them; 0: as many as the memory allows.
        generations: At most so many in a domain; 0: until the search settles.
        sigma: Initial step.
        weight: Lambda, of the features' discrepancy in the loss.
        settle: Relative movement of the mean that ends a search.
        shift: Distance of a window that is a change of domain.
        accept: What a search found is used where its loss is better by more than
            so many standard errors; 0: always.
        source: The last layer's input returns to the mean of clean images.
    """

    method: AdaptMethod = "forge"
    stats: Literal["lagged", "exact"] = "lagged"
    rule: Literal["refold", "published"] = "refold"
    gate: bool = True
    interval: int = 1
    warm: int = 8
    shrinkage: float = 0.5
    momentum: float = 1 / 640
    grade: float = 0.0
    sites: tuple[int, ...] | None = None
    seed: int = 1
    dimension: int = 0
    population: int = 12
    window: int = 0
    generations: int = 20
    sigma: float = 0.03
    weight: float = 0.0
    settle: float = 0.0
    shift: float = 0.4
    accept: float = 0.0
    source: bool = False

    def __post_init__(self) -> None:
        """Refuse what ``refold_adapt_set`` refuses.

        Raises:
            RefoldcError: A field is out of its range.
        """
        legal = {
            "method": (self.method in METHODS, " or ".join(METHODS)),
            "stats": (self.stats in ("lagged", "exact"), "lagged or exact"),
            "rule": (self.rule in ("refold", "published"), "refold or published"),
            "interval": (1 <= self.interval <= INTERVAL_MAX, f"1 to {INTERVAL_MAX}"),
            "warm": (0 <= self.warm <= 0xFFFF, "0 to 65535"),
            "shrinkage": (0 <= self.shrinkage <= 1, "0 to 1"),
            "momentum": (0 < self.momentum <= 1, "above 0, at most 1"),
            "grade": (
                self.grade == 0 or LEAST_GRADE <= self.grade <= 1,
                f"0, or {LEAST_GRADE:g} to 1",
            ),
            "seed": (0 <= self.seed < 2**32, "0 to 4294967295"),
            "dimension": (0 <= self.dimension <= 0xFFFF, "0 to 65535"),
            "population": (4 <= self.population <= 64, "4 to 64"),
            "window": (0 <= self.window <= 0xFF, "0 to 255"),
            "generations": (0 <= self.generations <= 0xFFFF, "0 to 65535"),
            "sigma": (0 < self.sigma <= SIGMA_MAX, f"above 0, at most {SIGMA_MAX}"),
            "weight": (0 <= self.weight <= LAMBDA_MAX, f"0 to {LAMBDA_MAX}"),
            "settle": (0 <= self.settle <= 1, "0 to 1"),
            "shift": (0 <= self.shift <= SHIFT_MAX, f"0 to {SHIFT_MAX}"),
            "accept": (0 <= self.accept <= ACCEPT_MAX, f"0 to {ACCEPT_MAX}"),
        }
        for name, (ok, expected) in legal.items():
            if not ok:
                raise RefoldcError(
                    f"adaptation: {name} is {getattr(self, name)!r}, "
                    f"expected {expected}"
                )

    @classmethod
    def alone(cls) -> AdaptConfig:
        """PACE without FORGE: it has further to go, and needs the features' help."""
        return cls(method="pace", sigma=0.3, weight=0.8, source=True)

    @property
    def code(self) -> Method:
        """The method as the firmware numbers it."""
        return Method[self.method.upper().replace("+", "_")]

    @property
    def parts(self) -> frozenset[str]:
        """The methods that must be compiled in."""
        return frozenset(self.method.split("+")) - {"off"}

    @classmethod
    def published(cls) -> AdaptConfig:
        """As published: exact statistics, no shrinkage, no warm start, no gate."""
        return cls(stats="exact", rule="published", gate=False, shrinkage=1.0, warm=0)


class Forge:
    """Running statistics of a model's sites and the tables made from them.

    For each image: :meth:`absorb` every site that :meth:`adapts`, run it under
    :meth:`table` (after absorbing where ``stats`` is exact, else before), and
    :meth:`finish`.

    Args:
        layers: The sites' convolutions in layer order.
        model_hash: 32 bytes that tie a saved state to its model.
        margin, doubt: Of the gate; see :meth:`GateState.decide`.
    """

    def __init__(
        self,
        layers: Sequence[QConv],
        model_hash: bytes,
        *,
        margin: float = 3.0,
        doubt: float = 1.0,
    ) -> None:
        self._sites = tuple(layer.site for layer in layers if layer.site is not None)
        self._static = tuple(layer.requant for layer in layers)
        self._hash = model_hash
        self._margin, self._doubt = margin, doubt
        ends = np.cumsum([0, *(len(site.mean) for site in self._sites)]).tolist()
        self._channels = [slice(*pair) for pair in pairwise(ends)]
        self._mean = self._joined("mean", np.float32)
        self._variance = self._joined("variance", np.float32)
        self._inverse = self._joined("inverse", np.float32)
        self._live = self._joined("live", np.bool_)
        self._scored = np.zeros(ends[-1], np.bool_)
        self._chosen: frozenset[int] = frozenset()
        self.config = AdaptConfig(method="off")
        self.reset()

    def _joined(self, field: str, dtype: DTypeLike) -> NDArray[Any]:
        """A constant of all sites, [channels]."""
        arrays = [getattr(site, field) for site in self._sites]
        return np.concatenate([np.zeros(0, dtype), *arrays])

    def configure(self, config: AdaptConfig, *, keep_state: bool) -> None:
        """Choose a method; ``keep_state`` keeps statistics of the same rule.

        Raises:
            RefoldcError: The model has no sites, or not those of ``config.sites``.
        """
        chosen = self._choose(config)
        same_rule = config.rule == self.config.rule
        self.config, self._chosen = config, chosen
        self._scored = self._live & self._among(chosen)
        if keep_state and same_rule:
            self._rebuild()
        else:
            self.reset()

    def _choose(self, config: AdaptConfig) -> frozenset[int]:
        if config.method == "off":
            return frozenset()
        if "pace" in config.parts:
            raise RefoldcError(
                "adaptation: this model computes FORGE; PACE is computed by the C alone"
            )
        if not self._sites:
            raise RefoldcError(
                "adaptation: the model was compiled without recalibration sites; "
                "use method off"
            )
        if config.sites is None:
            return frozenset(i for i, s in enumerate(self._sites) if s.default_on)
        if not all(0 <= i < len(self._sites) for i in config.sites):
            raise RefoldcError(
                f"adaptation: sites {config.sites}; the model has "
                f"{len(self._sites)} sites, numbered from 0"
            )
        return frozenset(config.sites)

    def _among(self, chosen: frozenset[int]) -> NDArray[np.bool_]:
        """Which channels belong to the sites ``chosen``."""
        mask = np.zeros(len(self._mean), np.bool_)
        for index in chosen:
            mask[self._channels[index]] = True
        return mask

    def reset(self) -> None:
        """Forget the stream: statistics at the targets, static tables in force."""
        self._gate = GateState()
        self._images = 0
        self._shift = np.float32(0)
        self._e1 = self._mean.copy()
        self._e2 = self._variance.copy()
        if not self._published:
            self._e2 += self._mean * self._mean
        self._w1 = self._joined("clean", np.float32)
        self._tables: dict[int, Requant] = {}

    @property
    def _published(self) -> bool:
        return self.config.rule == "published"

    @property
    def is_open(self) -> bool | None:
        """Whether the gate lets recalibrated tables in; None without a gate."""
        if self.config.method == "off" or not self.config.gate:
            return None
        return self._gate.phase == Phase.OPEN

    @property
    def means(self) -> F32:
        """Running E[a] of all sites, [channels]."""
        return self._e1

    def adapts(self, index: int) -> bool:
        """Whether site ``index`` absorbs statistics."""
        return index in self._chosen

    def table(self, index: int) -> Requant:
        """The table in force at site ``index``."""
        return self._tables.get(index, self._static[index])

    def absorb(self, index: int, s1: F64, s2: F64) -> None:
        """Update site ``index`` with one image and, where due, its table.

        Args:
            s1, s2: Exact sums of a and a*a, [C].
        """
        if self._absorbs:
            self._update(index, s1, s2)
        if self.config.gate:
            self._watch(index, s1)
        t = self._images
        due = t < EAGER_IMAGES or (t + 1) % self.config.interval == 0
        if due and self.is_open is not False:
            self._make_table(index)

    @property
    def _absorbs(self) -> bool:
        """Whether the running statistics move; not by images under other tables."""
        return not self.config.gate or self._gate.phase != Phase.RECHECK

    def _update(self, index: int, s1: F64, s2: F64) -> None:
        e1, e2 = image_moments(self._sites[index], s1, s2)
        if self._published:
            e2 = spread(e1, e2)
        own, mom = self._channels[index], self._momentum
        self._e1[own] += mom * (e1 - self._e1[own])
        self._e2[own] += mom * (e2 - self._e2[own])

    @property
    def _momentum(self) -> np.float32:
        return momentum(self._images, self.config.warm, self.config.momentum)

    def _watch(self, index: int, s1: F64) -> None:
        """Take the image into the window: a plain mean, whose oldest images fade."""
        e1, own = image_mean(self._sites[index], s1), self._channels[index]
        weight = momentum(self._gate.images, 1, 1 / self._gate.window)
        self._w1[own] += weight * (e1 - self._w1[own])

    def _make_table(self, index: int) -> None:
        own = self._channels[index]
        self._tables[index] = make_table(
            self._sites[index],
            self._e1[own],
            self._spread(own),
            self._static[index],
            shrinkage=float(self._shrinkage),
            published=self._published,
        )

    def _spread(self, channels: slice | NDArray[np.bool_]) -> F32:
        """Running variance of some channels."""
        if self._published:
            return self._e2[channels]
        return spread(self._e1[channels], self._e2[channels])

    @property
    def _shrinkage(self) -> np.float32:
        """a, graded by the score of the image before."""
        a, grade = np.float32(self.config.shrinkage), np.float32(self.config.grade)
        return a * (self._shift / (self._shift + grade)) if grade else a

    def _rebuild(self) -> None:
        """Bring the tables in line with statistics that were kept or loaded."""
        self._tables = {}
        if self._images and self.is_open is not False:
            for index in self._chosen:
                self._make_table(index)

    def finish(self) -> np.float32:
        """Count the image, let the gate decide and return the shift score."""
        mask = self._scored
        terms = divergence(
            self._mean[mask], self._inverse[mask], self._e1[mask], self._spread(mask)
        )
        shift = self._shift = score(int(terms.sum()), len(terms))
        look, doubt = self._gate.look(self._images), self._doubt
        if look == "stream":
            doubt = float(self._momentum)
        self._images += self._absorbs
        if self.config.gate:
            self._gate, verdict = self._gate.decide(
                look,
                self._distance(look),
                absorbed=self._images,
                margin=self._margin,
                doubt=doubt,
            )
            self._settle(verdict)
        return shift

    def _distance(self, look: Look) -> np.float32:
        """How far the window is from what it is compared with."""
        total, count = 0, 0
        for index in self._chosen if look != "not" else ():
            site, own = self._sites[index], self._channels[index]
            centre = self._e1[own] if look == "stream" else site.clean
            terms = distance(site, self._w1[own], centre)[site.live]
            total, count = total + int(terms.sum()), count + len(terms)
        return score(total, count)

    def _settle(self, verdict: Verdict) -> None:
        """Do what the gate decided; see ``settle_gate`` of firmware/src/adapt.c."""
        if verdict == "forget":
            self.reset()
        if verdict == "open":
            self._images = min(self._images, GATE_FIRST)
        if verdict in ("open", "switch"):
            self._rebuild()

    def save(self) -> bytes:
        """The running statistics as the record of docs/numerics.md."""
        rule = Rule[self.config.rule.upper()]
        count = len(self._mean)
        gate = self._gate
        head = HEADER.pack(
            *(MAGIC, VERSION, rule, gate.phase, self._hash),
            *(self._images, count, gate.images, self._shift),
        )
        arrays = (self._e1, self._e2, self._w1)
        moments = np.concatenate(arrays).astype("<f4")
        record = head + moments.tobytes()
        return record + struct.pack("<I", zlib.crc32(record))

    def load(self, record: bytes) -> None:
        """Restore a record of this model and rule, or reset and refuse it.

        Raises:
            RefoldcError: The record is damaged or belongs to another model.
        """
        self.reset()
        count = len(self._mean)
        images, gate, shift = self._check(record, count)
        moments = np.frombuffer(record[HEADER.size : -4], "<f4").astype(np.float32)
        e1, e2, w1 = moments.reshape(MOMENTS, count).copy()
        limits = ((e1, MEAN_LIMIT), (e2, SQUARE_LIMIT), (w1, MEAN_LIMIT))
        scored = np.array([shift]), MEAN_LIMIT
        if not all((np.abs(x) <= limit).all() for x, limit in (*limits, scored)):
            raise RefoldcError(
                "adaptation state: it holds statistics that no stream can give"
            )
        self._images, self._gate, self._shift = images, gate, np.float32(shift)
        self._e1, self._e2, self._w1 = e1, e2, w1
        self._rebuild()

    def _check(self, record: bytes, channels: int) -> tuple[int, GateState, float]:
        """The record's image count, gate and score, once everything is as expected."""
        rule = Rule[self.config.rule.upper()]
        size = HEADER.size + 4 * MOMENTS * channels + 4
        if len(record) != size:
            raise RefoldcError(
                f"adaptation state: {len(record)} bytes, expected {size}; it belongs "
                "to another model"
            )
        *head, phase, owner, images, count, window, shift = HEADER.unpack_from(record)
        crc = struct.unpack("<I", record[-4:])[0]
        if crc != zlib.crc32(record[:-4]):
            raise RefoldcError("adaptation state: its CRC is wrong; it is damaged")
        found, expected = (*head, owner, count), (MAGIC, VERSION, rule)
        if found != (*expected, self._hash, channels):
            raise RefoldcError(
                "adaptation state: it was saved by another model, rule or version"
            )
        if phase not in tuple(Phase):
            raise RefoldcError("adaptation state: it holds a gate that cannot be")
        gate = GateState(Phase(phase), int(window))
        if window > gate.window:
            raise RefoldcError("adaptation state: it holds a window that cannot be")
        return int(images), gate, float(shift)
