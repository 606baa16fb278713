"""What PACE moves and how it judges, against float64."""

from __future__ import annotations

import ctypes as c

import numpy as np
import pace_model
import pytest
from cbuild import ROOT, compile_shared
from ctypes_model import Model, OutputTensor, Site
from ctypes_pace import SOURCES, Fastfood, address
from numpy.typing import NDArray

FIRMWARE = ROOT / "firmware/src"
CHANNELS = (6, 10, 4)
MOVED = (0, 2)
OUTPUTS = 5


class Plan(c.Structure):
    """The beginning of refold_pace_plan."""

    _fields_ = [
        ("sites", c.c_uint8 * 32),
        ("channels", c.c_uint16),
        ("rest", c.c_uint8 * 64),
    ]


class Space(c.Structure):
    """refold_space."""

    _fields_ = [
        ("model", c.POINTER(Model)),
        ("map", Fastfood),
        *((name, c.c_void_p) for name in ("theta", "gain", "offset")),
    ]


class Confidence(c.Structure):
    """refold_confidence."""

    _fields_ = [
        ("model", c.POINTER(Model)),
        ("images", c.c_uint32),
        ("entropy_sum", c.c_float),
        ("entropy", c.c_float),
        *((name, c.c_void_p) for name in ("sums", "probabilities", "expected")),
    ]


class SoftmaxTable(c.Structure):
    """refold_softmax_table."""

    _fields_ = [("exp", c.c_uint16 * 256), ("shift", c.c_uint8)]


@pytest.fixture(scope="module")
def loss(tmp_path_factory: pytest.TempPathFactory) -> c.CDLL:
    """The code under test, under the sanitizer."""
    names = ("space", "confidence", "softmax")
    library = compile_shared(
        [*SOURCES, *(FIRMWARE / f"{name}.c" for name in names)],
        flags=("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"),
        out_dir=tmp_path_factory.mktemp("loss"),
    )
    for name in ("variety", "part"):
        getattr(library, f"refold_confidence_{name}").restype = c.c_float
    return library


class Sites:
    """Three sites of random targets, of which the first and the last move."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self.gain = [rng.uniform(5, 90, n).astype(np.float32) for n in CHANNELS]
        self.offset = [rng.uniform(-90, 90, n).astype(np.float32) for n in CHANNELS]
        self.sites = (Site * 3)(
            *(
                Site(
                    channels=n,
                    gain=address(self.gain[i]),
                    offset=address(self.offset[i]),
                )
                for i, n in enumerate(CHANNELS)
            )
        )
        mask = (c.c_uint8 * 32)(sum(1 << site for site in MOVED))
        self.plan = Plan(sites=mask, channels=sum(CHANNELS[i] for i in MOVED))
        self.model = Model(
            site_count=3,
            sites=self.sites,
            pace=c.cast(c.pointer(self.plan), c.c_void_p),
        )

    def go(self, lib: c.CDLL, v: NDArray[np.float32]) -> NDArray[np.float32]:
        """Gains and offsets [2, channels] of the moved sites at v."""
        found = np.full((2, self.plan.channels), np.nan, np.float32)
        theta = np.full(32, np.nan, np.float32)
        space = Space(
            c.pointer(self.model),
            Fastfood(7, len(v), 2 * self.plan.channels),
            *(address(theta), address(found[0]), address(found[1])),
        )
        lib.refold_space_go(c.byref(space), address(v))
        return found

    def expected(self, v: NDArray[np.float32]) -> NDArray[np.float64]:
        """The definition of space.h in float64."""
        outputs = 2 * self.plan.channels
        theta = pace_model.fastfood_matrix(7, len(v), outputs) @ v.astype(float)
        log_gain, shift = np.split(theta, 2)
        gains, offsets, first = [], [], 0
        for site in MOVED:
            own = slice(first, first + CHANNELS[site])
            first = own.stop
            g, s = (
                x[own] + x[own].sum() / np.sqrt(len(x[own])) for x in (log_gain, shift)
            )
            gains.append(self.gain[site] * np.exp(np.clip(g, -3, 3)))
            offsets.append(self.offset[site] + self.gain[site] * np.clip(s, -64, 64))
        return np.stack([np.concatenate(gains), np.concatenate(offsets)])


def test_zero_is_the_models_own_targets(loss: c.CDLL) -> None:
    """v = 0 gives gain and offset of the moved sites bit for bit."""
    sites = Sites()
    expected = [
        np.concatenate([x[i] for i in MOVED]) for x in (sites.gain, sites.offset)
    ]
    found = sites.go(loss, np.zeros(8, np.float32))
    np.testing.assert_array_equal(expected, found)


@pytest.mark.parametrize("sigma", [0.03, 0.5, 20.0])
def test_targets_move_as_defined(loss: c.CDLL, sigma: float) -> None:
    """Projection, common part, exponential and clamps agree with float64 to 1e-5."""
    sites = Sites()
    v = (sigma * np.random.default_rng(3).normal(size=8)).astype(np.float32)
    found, expected = sites.go(loss, v), sites.expected(v)
    scale = np.maximum(np.abs(expected), 1 + 64 * (sigma > 1))
    np.testing.assert_array_less(np.abs(found - expected) / scale, 1e-5)


def test_nothing_leaves_the_clamps(loss: c.CDLL) -> None:
    """Infinite and undefined vectors give finite targets."""
    for value in (np.inf, -np.inf, np.nan, 1e38):
        found = Sites().go(loss, np.full(8, value, np.float32))
        assert np.isfinite(found).all()


def softmax_table(scale: float) -> SoftmaxTable:
    """exp15 in steps of one unit of the logits."""
    values = np.round(32767 * np.exp(-scale * np.arange(256))).astype(int)
    return SoftmaxTable((c.c_uint16 * 256)(*values), 0)


SCALE = 0.05


class Predictions:
    """A model's confidence after a stream of 12 images and a window of 12."""

    def __init__(self, loss: c.CDLL) -> None:
        self.table = softmax_table(SCALE)
        self.model = Model(
            output_count=OUTPUTS,
            outputs=c.pointer(OutputTensor(scale=SCALE)),
            softmax=c.cast(c.pointer(self.table), c.c_void_p),
        )
        self.sums, self.scratch = (
            np.ones(OUTPUTS, np.uint32),
            np.zeros(OUTPUTS, np.uint16),
        )
        self.expected = np.zeros(OUTPUTS, np.float32)
        arrays = map(address, (self.sums, self.scratch, self.expected))
        self.c = Confidence(c.pointer(self.model), 1, 1.0, 1.0, *arrays)
        here = c.byref(self.c)
        loss.refold_confidence_reset(here)
        loss.refold_confidence_clear(here)
        rng = np.random.default_rng(4)
        stream, self.window = rng.integers(-90, 90, (2, 12, OUTPUTS)).astype(np.int32)
        for row in stream:
            loss.refold_confidence_expect(here, address(row))
        self.parts = []
        for row in self.window:
            loss.refold_confidence_add(here, address(row))
            self.parts.append(loss.refold_confidence_part(here))
        self.stream_mean = np.full(OUTPUTS, 1 / OUTPUTS)
        for p in probabilities(stream, SCALE):
            self.stream_mean += 0.02 * (p - self.stream_mean)


def test_variety_is_the_entropy_of_the_mean(loss: c.CDLL) -> None:
    """A third of the window's mean prediction and two of the stream's, to 1e-3."""
    got = Predictions(loss)
    mean = got.stream_mean
    mean = mean + (probabilities(got.window, SCALE).mean(axis=0) - mean) / 3
    variety = loss.refold_confidence_variety(c.byref(got.c))
    assert -(mean * np.log(mean)).sum() == pytest.approx(variety, abs=1e-3)
    entropies = sum(pace_model.entropy(row, SCALE) for row in got.window)
    assert (12, entropies) == (got.c.images, pytest.approx(got.c.entropy_sum))


def test_parts_are_the_losss_first_order(loss: c.CDLL) -> None:
    """An image's part is its entropy and the slope of the variety along its own."""
    got = Predictions(loss)
    slopes = probabilities(got.window, SCALE) @ np.log(got.stream_mean) / 3
    entropies = [pace_model.entropy(row, SCALE) for row in got.window]
    assert entropies + slopes == pytest.approx(got.parts, abs=1e-3)


def probabilities(logits: NDArray[np.int32], scale: float) -> NDArray[np.float64]:
    """Softmax of rows."""
    e = np.exp(scale * (logits - logits.max(axis=1, keepdims=True)))
    return np.asarray(e / e.sum(axis=1, keepdims=True))
