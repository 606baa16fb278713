"""The C of FORGE against the NumPy definition, bit for bit, in every compiler."""

from __future__ import annotations

import ctypes as c
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import ctypes_model
import numpy as np
import pytest
from cbuild import ROOT, compile_shared, compilers
from ctypes_kernels import Guarded, Moments, guard
from numpy.typing import NDArray

from refoldc import recalibrate
from refoldc.ir import Requant as StaticTable
from refoldc.ir import Site

SOURCES = [ROOT / "firmware/src" / name for name in ("forge.c", "float_check.c")]
LEVELS = (("-O0",), ("-O2",), ("-O3", "-march=native"))
BUILDS = [(cc, flags) for cc in compilers() for flags in LEVELS]
RULES = {False: 0, True: 1}
F32 = NDArray[np.float32]


@pytest.fixture(
    scope="module", params=BUILDS, ids=lambda build: " ".join(map(str, build))
)
def lib(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> c.CDLL:
    """forge.c as one compiler makes it at one level."""
    cc, flags = request.param
    out = tmp_path_factory.mktemp("forge")
    library = compile_shared(SOURCES, cc=cc, flags=flags, out_dir=out)
    library.refold_forge_table.restype = c.c_uint8
    library.refold_forge_mean_score.restype = c.c_float
    library.refold_forge_momentum.restype = c.c_float
    library.refold_float_is_ieee.restype = c.c_bool
    return library


def make_site(rng: np.random.Generator, channels: int) -> Site:
    """Targets as wide as compilers make them, dead channels included."""

    def spread(low: float, high: float) -> F32:
        return np.exp(rng.uniform(np.log(low), np.log(high), channels)).astype(
            np.float32
        )

    variance = np.maximum(spread(1e-6, 1e7), np.float32(4e-4))
    return Site(
        layer="site",
        pixels=int(rng.choice([1, 49, 64, 1024, 50176])),
        stat_shift=int(rng.integers(0, 12)),
        mean=rng.normal(0, 500, channels).astype(np.float32),
        variance=variance,
        epsilon=spread(1e-9, 1e3),
        gain=spread(1e-3, 200),
        offset=rng.normal(0, 100, channels).astype(np.float32),
        clean=rng.normal(0, 500, channels).astype(np.float32),
        precision=spread(1e-7, 1e4),
        live=rng.random(channels) < 0.8,
        beta=np.zeros(channels),
        sigma=np.ones(channels),
        origin="exact",
        calibrated_channels=0,
    )


@dataclass
class Twin:
    """One site in C memory."""

    lib: c.CDLL
    site: Site
    published: bool

    def __post_init__(self) -> None:
        """Copy the targets."""
        s, channels = self.site, len(self.site.mean)
        targets = (
            s.mean,
            s.variance,
            s.inverse,
            s.epsilon,
            s.gain,
            s.offset,
            s.clean,
            s.precision,
        )
        live = np.packbits(s.live, bitorder="little")
        self._const = [guard(values) for values in (*targets, live)]
        self.e1, self.e2, self.w1, self.work = (
            Guarded((channels,), np.float32) for _ in range(4)
        )
        self.w1.array[...] = s.clean
        types = np.int16, np.int32, np.int64
        self.m, centre, self.b = (Guarded((channels,), dtype) for dtype in types)
        self._site = ctypes_model.Site(
            0, channels, s.pixels, s.stat_shift, None, *(g.pointer for g in self._const)
        )
        running = self.e1, self.e2, self.w1
        state = (*running, self.m, centre, self.b, self.work)
        self._forge = ctypes_model.Forge(
            c.pointer(self._site), RULES[self.published], *(g.pointer for g in state)
        )
        self._guards = [*self._const, *state]

    def reset(self) -> None:
        """refold_forge_reset."""
        self.lib.refold_forge_reset(c.byref(self._forge))

    def update(
        self,
        momentum: float,
        weight: float,
        s1: NDArray[np.int64],
        s2: NDArray[np.int64],
    ) -> None:
        """refold_forge_update."""
        sums = guard(s1), guard(s2)
        moments = Moments(sums[0].pointer, sums[1].pointer, self.site.stat_shift)
        weights = c.c_float(momentum), c.c_float(weight)
        self.lib.refold_forge_update(c.byref(self._forge), *weights, c.byref(moments))

    def table(self, shrinkage: float) -> int:
        """refold_forge_table and refold_forge_biases; returns the shift."""
        shift: int = self.lib.refold_forge_table(
            c.byref(self._forge), c.c_float(shrinkage)
        )
        self.lib.refold_forge_biases(c.byref(self._forge), c.c_uint8(shift))
        return shift

    def score(self) -> tuple[int, int, np.float32]:
        """Sum, count and mean of the live channels' divergences."""
        score = ctypes_model.Score(0, 0)
        self.lib.refold_forge_add_score(c.byref(self._forge), c.byref(score))
        mean = self.lib.refold_forge_mean_score(c.byref(score))
        return score.sum, score.count, np.float32(mean)

    def distance(self, centre: F32) -> tuple[int, int]:
        """Sum and count of the live channels' distances of the window."""
        score, held = ctypes_model.Score(0, 0), guard(centre)
        self.lib.refold_forge_add_distance(
            c.byref(self._forge), held.pointer, c.byref(score)
        )
        return score.sum, score.count

    def is_intact(self) -> bool:
        """Nothing was written outside the arrays."""
        return all(g.is_intact() for g in self._guards)


def image_sums(
    rng: np.random.Generator, site: Site
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """S1 and S2 of an image whose channels lie near, off and far from the target."""
    channels = len(site.mean)
    shape = (min(site.pixels, 64), channels)
    width = np.sqrt(site.variance) * np.exp(rng.normal(0, 1, channels))
    a = rng.normal(site.mean + rng.normal(0, 300, channels), width, shape)
    a[:, rng.random(channels) < 0.1] = -(2**15)
    a = np.clip(np.floor(a), -(2**15), 2**15 - 1).astype(np.int64)
    repeats = site.pixels // shape[0]
    return a.sum(axis=0) * repeats, (a * a).sum(axis=0) * repeats


def same_bits(expected: F32, got: F32) -> None:
    """Equality of every bit, signs of zero included."""
    np.testing.assert_array_equal(expected.view(np.uint32), got.view(np.uint32))


@pytest.mark.parametrize("channels", [1, 7, 16, 33])
@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("shrinkage", [0.0, 0.3, 0.5, 1.0])
def test_stream(lib: c.CDLL, channels: int, published: bool, shrinkage: float) -> None:
    """Update, table and score equal the definition after each image of a stream."""
    rng = np.random.default_rng([channels, published, int(10 * shrinkage)])
    for _ in range(8):
        site = make_site(rng, channels)
        twin = Twin(lib, site, published)
        twin.reset()
        e1 = site.mean
        e2 = site.variance if published else site.variance + site.mean * site.mean
        same_bits(e1, twin.e1.array)
        same_bits(e2, twin.e2.array)
        for t in range(4):
            s1, s2 = image_sums(rng, site)
            mom = recalibrate.momentum(t, 32, 1 / 640)
            u1, u2 = recalibrate.image_moments(site, s1.astype(float), s2.astype(float))
            second = recalibrate.spread(u1, u2) if published else u2
            e1, e2 = e1 + mom * (u1 - e1), e2 + mom * (second - e2)
            twin.update(float(mom), 0, s1, s2)
            same_bits(e1, twin.e1.array)
            same_bits(e2, twin.e2.array)
            compare_table_and_score(twin, e1, e2, shrinkage)


def compare_table_and_score(twin: Twin, e1: F32, e2: F32, shrinkage: float) -> None:
    """The table and the score made from (e1, e2)."""
    v = e2 if twin.published else recalibrate.spread(e1, e2)
    static = StaticTable(twin.m.array, twin.b.array, 16)
    table = recalibrate.make_table(
        twin.site, e1, v, static, shrinkage=shrinkage, published=twin.published
    )
    assert table.shift == twin.table(shrinkage)
    np.testing.assert_array_equal(table.m, twin.m.array)
    np.testing.assert_array_equal(table.b, twin.b.array)

    site = twin.site
    terms = recalibrate.divergence(site.mean, site.inverse, e1, v)[site.live]
    total, count, mean = twin.score()
    assert (int(terms.sum()), len(terms)) == (total, count)
    assert recalibrate.score(total, count) == mean
    assert twin.is_intact()


@pytest.mark.parametrize("channels", [1, 7, 16, 33])
def test_window(lib: c.CDLL, channels: int) -> None:
    """The window's mean and its distance equal the definition."""
    rng = np.random.default_rng(channels)
    for _ in range(8):
        site = make_site(rng, channels)
        twin = Twin(lib, site, published=False)
        twin.reset()
        mean, still = site.clean, (twin.e1.array.copy(), twin.e2.array.copy())
        for n in range(4):
            s1, s2 = image_sums(rng, site)
            weight = recalibrate.momentum(n, 1, 1 / 32)
            e1 = recalibrate.image_mean(site, s1.astype(float))
            mean = mean + weight * (e1 - mean)
            twin.update(0, float(weight), s1, s2)
            same_bits(mean, twin.w1.array)
            for centre in (site.clean, e1):
                terms = recalibrate.distance(site, mean, centre)[site.live]
                assert (int(terms.sum()), len(terms)) == twin.distance(centre)
        for expected, got in zip(still, (twin.e1, twin.e2), strict=True):
            same_bits(expected, got.array)
        assert twin.is_intact()


@pytest.mark.parametrize(
    "factor",
    [
        0.0,
        1e-45,
        1e-12,
        2.0**-16,
        0.25,
        32767.4 / 2**16,
        32767.6 / 2**16,
        0.5,
        7.0,
        1e6,
    ],
)
def test_shift(lib: c.CDLL, factor: float) -> None:
    """The shift follows the largest multiplier, within [16, 31]."""
    site = make_site(np.random.default_rng(1), 2)
    site = replace(
        site,
        variance=np.ones(2, np.float32),
        epsilon=np.zeros(2, np.float32),
        gain=np.array([factor, 0], np.float32),
        stat_shift=0,
    )
    twin = Twin(lib, site, published=False)
    twin.reset()
    compare_table_and_score(twin, site.mean, twin.e2.array.copy(), 0.0)


def test_no_live_channel(lib: c.CDLL) -> None:
    """A site without live channels adds nothing; the mean of nothing is 0."""
    site = make_site(np.random.default_rng(2), 3)
    twin = Twin(lib, replace(site, live=np.zeros(3, bool)), published=False)
    twin.reset()
    assert (0, 0, np.float32(0)) == twin.score()


@pytest.mark.parametrize("images", [0, 1, 31, 600, 10**6, 2**32 - 1])
@pytest.mark.parametrize("warm", [0, 1, 32, 65535])
def test_momentum(lib: c.CDLL, images: int, warm: int) -> None:
    """Momentum falls from 1/warm to its floor; warm 0 stays at the floor."""
    if images + warm == 0:
        expected = np.float32(1 / 640)
    else:
        expected = recalibrate.momentum(images, warm, 1 / 640)
    got = lib.refold_forge_momentum(
        c.c_uint32(images), c.c_uint16(warm), c.c_float(1 / 640)
    )
    assert expected == np.float32(got)


def test_shipped_flags_are_ieee(lib: c.CDLL) -> None:
    """The self-test accepts every build made with the shipped flags."""
    assert lib.refold_float_is_ieee()


def has_fma() -> bool:
    """The processor fuses multiply and add."""
    info = Path("/proc/cpuinfo")
    return info.exists() and " fma " in info.read_text()


@pytest.mark.skipif(not has_fma(), reason="this processor has no fused multiply-add")
@pytest.mark.parametrize("cc", compilers())
def test_contraction_is_detected(cc: str, tmp_path: Path) -> None:
    """A build that fuses multiply and add fails the self-test."""
    flags = ("-O2", "-ffp-contract=fast", "-mfma")
    library = compile_shared(SOURCES, cc=cc, flags=flags, out_dir=tmp_path)
    library.refold_float_is_ieee.restype = c.c_bool
    assert not library.refold_float_is_ieee()


@pytest.mark.parametrize("cc", compilers())
def test_fast_math_is_refused(cc: str, tmp_path: Path) -> None:
    """A build with -ffast-math stops at an #error that names the flag."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        compile_shared(SOURCES, cc=cc, flags=("-ffast-math",), out_dir=tmp_path)
    assert "build without -ffast-math" in caught.value.__notes__[0]
