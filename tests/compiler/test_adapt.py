"""FORGE's arithmetic and state machine."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from graphs import make_images, quantised, small_cnn

from refoldc.adapt import AdaptConfig, Forge
from refoldc.errors import RefoldcError
from refoldc.ir import QConv, QGraph, Site
from refoldc.recalibrate import (
    divergence,
    image_moments,
    log16,
    log32,
    make_table,
    momentum,
    rsqrt32,
    score,
    table_shift,
)
from refoldc.reference import Reference


@pytest.fixture(scope="module")
def graph() -> QGraph:
    """A network of four sites."""
    return quantised(small_cnn())


@pytest.fixture
def site(graph: QGraph) -> Site:
    """Its first site."""
    return graph.sites[0]


def static(graph: QGraph, index: int = 0) -> Any:
    """The static table of a site."""
    name = graph.sites[index].layer
    return next(n for n in graph.layers if n.name == name).requant  # type: ignore[attr-defined]


def forge(graph: QGraph, **options: Any) -> Forge:
    """A switched-on Forge of all sites."""
    layers = [n for n in graph.layers if isinstance(n, QConv) and n.site is not None]
    made = Forge(layers, bytes(range(32)))
    made.configure(AdaptConfig(**{"gate": False, **options}), keep_state=False)
    return made


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("method", "space"),
        ("sigma", 0.0),
        ("population", 3),
        ("stats", "soon"),
        ("rule", "other"),
        ("interval", 0),
        ("interval", 65),
        ("warm", -1),
        ("warm", 65536),
        ("shrinkage", 1.01),
        ("shrinkage", float("nan")),
        ("momentum", 0.0),
        ("momentum", 1.5),
    ],
)
def test_values_out_of_range_are_refused(field: str, value: object) -> None:
    """The message names the field, the value and the range."""
    with pytest.raises(RefoldcError, match=f"{field} is .* expected"):
        AdaptConfig(**{field: value})  # type: ignore[arg-type]


def test_defaults_and_the_published_rule() -> None:
    """refold's FORGE, and the algorithm as published."""
    default, published = AdaptConfig(), AdaptConfig.published()
    assert ("forge", "lagged", "refold") == (
        default.method,
        default.stats,
        default.rule,
    )
    assert (0.5, 1 / 640, 8, 1) == (
        default.shrinkage,
        default.momentum,
        default.warm,
        default.interval,
    )
    assert ("exact", "published", 1.0, 0) == (
        published.stats,
        published.rule,
        published.shrinkage,
        published.warm,
    )


def test_all_arithmetic_stays_in_float32(site: Site, graph: QGraph) -> None:
    """Nothing is promoted to float64 on the way."""
    s = np.arange(8, dtype=np.float64) * 1000
    e1, e2 = image_moments(site, s, s * s)
    assert np.float32 == e1.dtype == e2.dtype
    assert np.float32 == log32(np.array([2.0], np.float32)).dtype
    assert np.float32 == momentum(3, 32, 1 / 640).dtype
    assert np.float32 == score(10, 3).dtype


def test_momentum_starts_warm_and_has_a_floor() -> None:
    """1/(t + warm), not below the floor; the floor alone without a warm start."""
    assert np.float32(1) / np.float32(32) == momentum(0, 32, 1 / 640)
    assert np.float32(1 / 640) == momentum(10_000, 32, 1 / 640)
    assert np.float32(1 / 640) == momentum(0, 0, 1 / 640)


def test_the_reset_table_is_nearly_the_static_one(graph: QGraph) -> None:
    """At the targets, m follows M, and the channel mean maps to itself."""
    for index, place in enumerate(graph.sites):
        table = make_table(
            place,
            place.mean,
            place.variance,
            static(graph, index),
            shrinkage=0.5,
            published=False,
        )
        fixed = static(graph, index)
        expected = fixed.m * 2.0**-fixed.shift
        actual = table.m * 2.0**-table.shift
        np.testing.assert_allclose(actual, expected, rtol=2e-4)
        centre = np.floor(place.mean * 2.0**place.stat_shift + 0.5)
        moved = (centre * actual + table.b * 2.0**-table.shift) - (
            centre * expected + fixed.b * 2.0**-fixed.shift
        )
        assert np.abs(moved).max() < 0.6  # G and O keep the target, not the rounding


def test_shrinkage_bounds_the_gain(site: Site, graph: QGraph) -> None:
    """With a = 1/2 a vanished variance raises m by sqrt(2) at most."""
    none = np.zeros_like(site.variance)
    table = make_table(
        site, site.mean, none, static(graph), shrinkage=0.5, published=False
    )
    fixed = static(graph)
    gain = (table.m * 2.0**-table.shift) / (fixed.m * 2.0**-fixed.shift)
    assert np.all(gain < 1.4145)
    assert np.all(gain > 1.40)


@pytest.mark.parametrize(
    ("factor", "shift"),
    [(0.0, 31), (0.25, 16), (0.2499, 17), (2.0, 16), (2.0**-20, 31), (2.0**-16, 30)],
)
def test_table_shift(factor: float, shift: int) -> None:
    """The largest in [16, 31] at which floor(M 2^s + 1/2) fits 15 bits."""
    assert shift == table_shift(np.array([factor / 2, factor], np.float32))


def test_log32_is_accurate() -> None:
    """Within 2e-7 relative or absolute of the logarithm, over all exponents."""
    x = np.float32(2.0) ** np.linspace(-120, 120, 4001).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    error = np.abs(log32(x) - exact) / np.maximum(1, np.abs(exact))
    assert error.max() < 4e-7


def test_log16_is_accurate() -> None:
    """Within 2e-6, and 1e-7 of the exponent's part, over all ratios of variances."""
    x = np.exp(np.linspace(np.log(2.0**-8), np.log(2.0**60), 20001)).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    assert (np.abs(log16(x) - exact) <= 2e-6 + 1e-7 * np.abs(exact)).all()


def test_rsqrt32_is_accurate() -> None:
    """Within 3 ulp of the root's reciprocal, over all exponents."""
    x = np.exp2(np.linspace(-120, 120, 20001)).astype(np.float32)
    exact = 1 / np.sqrt(x.astype(np.float64))
    ulp = np.spacing(exact.astype(np.float32))
    assert (np.abs(rsqrt32(x) - exact) / ulp).max() <= 3


def test_no_term_of_the_score_is_below_zero() -> None:
    """The C truncates what is floored here: rounding must leave nothing negative."""
    one = np.ones(60001, np.float32)
    v = np.concatenate([np.linspace(0.5, 2, 30001), np.linspace(0.99, 1.01, 30000)])
    terms = divergence(one, one, one, v.astype(np.float32))
    assert terms.min() >= 0


def test_divergence_of_equal_gaussians_is_zero() -> None:
    """And of a unit shift one half, in 16 fraction bits."""
    one, zero = np.ones(2, np.float32), np.zeros(2, np.float32)
    e1 = np.array([0.0, 1.0], np.float32)
    assert [0, 32768] == divergence(zero, one, e1, one).tolist()


def test_score_of_no_channels_is_zero() -> None:
    """And of some, their mean."""
    assert 0 == score(0, 0)
    assert np.float32(0.5) == score(3 * 32768, 3)


def feed(target: Forge, graph: QGraph, images: int) -> list[np.float32]:
    """Absorb the same sums at every site; return the scores."""
    scores = []
    for _ in range(images):
        for index, site in enumerate(graph.sites):
            if target.adapts(index):
                a = np.round(site.mean.astype(np.float64) + 20)
                target.absorb(index, a * site.pixels, (a * a + 9) * site.pixels)
        scores.append(target.finish())
    return scores


def test_a_stream_moves_the_moments(graph: QGraph) -> None:
    """The score grows as the running moments leave the targets; reset undoes it."""
    running = forge(graph)
    scores = feed(running, graph, 40)
    assert scores[0] < scores[10] < scores[39]
    running.reset()
    assert feed(running, graph, 1) == scores[:1]


def test_tables_follow_the_interval(graph: QGraph) -> None:
    """Every image for 32 images, then each interval-th."""
    running = forge(graph, interval=4)
    changed = []
    before = running.table(0)
    for _ in range(41):
        feed(running, graph, 1)
        changed.append(running.table(0) is not before)
        before = running.table(0)
    assert [True] * 32 + [t % 4 == 3 for t in range(32, 41)] == changed


def test_only_chosen_sites_adapt(graph: QGraph) -> None:
    """The others keep the static table."""
    running = forge(graph, sites=(1,))
    feed(running, graph, 2)
    assert static(graph, 0) is running.table(0)
    assert static(graph, 1) is not running.table(1)


def test_a_site_that_does_not_exist_is_refused(graph: QGraph) -> None:
    """By its number, with how many there are."""
    with pytest.raises(RefoldcError, match=r"\(4,\).*4 sites"):
        forge(graph, sites=(4,))


def test_another_rule_resets(graph: QGraph) -> None:
    """keep_state keeps statistics of the same rule only."""
    running = forge(graph)
    feed(running, graph, 3)
    kept = running.save()
    running.configure(AdaptConfig(shrinkage=0.1), keep_state=True)
    assert kept == running.save()
    running.configure(AdaptConfig.published(), keep_state=True)
    assert 0 == int.from_bytes(running.save()[40:44], "little")


def test_the_record(graph: QGraph) -> None:
    """Magic, version, rule, phase, model, three counts, score, moments, CRC."""
    running = forge(graph)
    feed(running, graph, 5)
    record = running.save()
    channels = sum(len(site.mean) for site in graph.sites)
    assert b"RFST\x02\x00\x00\x00" + bytes(range(32)) == record[:40]
    assert (5, channels, 0) == tuple(np.frombuffer(record[40:52], "<u4"))
    assert 56 + 12 * channels + 4 == len(record)


def test_a_loaded_record_continues_the_stream(graph: QGraph) -> None:
    """Scores and tables are those of the stream that was saved."""
    first, second = forge(graph), forge(graph)
    feed(first, graph, 7)
    second.load(first.save())
    np.testing.assert_array_equal(first.table(2).m, second.table(2).m)
    assert feed(first, graph, 3) == feed(second, graph, 3)


def flip(position: int) -> Callable[[bytes], bytes]:
    """Damage one byte."""

    def damage(record: bytes) -> bytes:
        changed = bytearray(record)
        changed[position] ^= 1
        return bytes(changed)

    return damage


def poison(value: float) -> Callable[[bytes], bytes]:
    """Put a value in the place of the first mean, with a CRC that is right."""

    def damage(record: bytes) -> bytes:
        body = record[:48] + struct.pack("<f", value) + record[52:-4]
        return body + struct.pack("<I", zlib.crc32(body))

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        flip(0),
        flip(4),
        flip(6),
        flip(8),
        flip(44),
        flip(60),
        flip(-1),
        lambda r: r[:-4],
        poison(float("nan")),
        poison(2.0**32),
    ],
    ids=[
        *("magic", "version", "rule", "model", "channels", "moment", "crc", "length"),
        *("nan", "excess"),
    ],
)
def test_a_bad_record_is_refused_and_resets(
    damage: Callable[[bytes], bytes], graph: QGraph
) -> None:
    """Whatever is wrong with it, nothing of it is used."""
    running = forge(graph)
    clean = running.save()
    feed(running, graph, 2)
    with pytest.raises(RefoldcError, match="adaptation state"):
        running.load(damage(running.save()))
    assert clean == running.save()


def test_a_model_without_sites_cannot_adapt() -> None:
    """Method off is all it has."""
    none = Forge([], bytes(32))
    with pytest.raises(RefoldcError, match="without recalibration sites"):
        none.configure(AdaptConfig(), keep_state=False)


def test_exact_statistics_include_the_present_image(graph: QGraph) -> None:
    """The first image is adapted under exact, not under lagged."""
    image = make_images(graph.shapes["t0"], 1, seed=4)[0] // 5
    answers = {}
    for stats in ("off", "lagged", "exact"):
        reference = Reference(graph)
        if stats != "off":
            reference.configure(AdaptConfig(stats=stats, gate=False))  # type: ignore[arg-type]
        answers[stats] = reference.infer(image).logits.tolist()
    assert answers["off"] == answers["lagged"]
    assert answers["off"] != answers["exact"]
