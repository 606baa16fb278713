"""Adaptation modes: canonical form and what they configure."""

from __future__ import annotations

import pytest

from refoldc.adapt import AdaptConfig
from refoldc.ranking import RankedSite, Ranking

from refold.errors import UserError
from refold.modes import parse_mode, parse_modes

SITES = 21


def test_bare_modes_mean_the_defaults() -> None:
    """``off`` and ``forge`` keep their names and take the defaults."""
    off, forge = parse_modes("off, forge", sites=SITES)
    assert ("off", AdaptConfig(method="off")) == (off.text, off.config)
    assert ("forge", AdaptConfig()) == (forge.text, forge.config)


def test_canonical_form_orders_keys_and_keeps_values() -> None:
    """Keys come in the documented order; values stay as written."""
    mode = parse_mode("forge:warm=8;a=0.50;gate=off;sites=14+6+5", sites=SITES)
    assert "forge:sites=14+6+5;gate=off;a=0.50;warm=8" == mode.text


def test_keys_reach_their_fields() -> None:
    """Every key of forge sets one field."""
    mode = parse_mode(
        "forge:sites=14+6+5;stats=exact;a=0.7;m=1/640;interval=4;warm=0;grade=0.01",
        sites=SITES,
    )
    expected = AdaptConfig(
        stats="exact",
        shrinkage=0.7,
        momentum=1 / 640,
        interval=4,
        warm=0,
        grade=0.01,
        sites=(5, 6, 14),
    )
    assert expected == mode.config


def test_keys_of_a_search_reach_their_fields() -> None:
    """Every key of pace sets one field."""
    mode = parse_mode(
        "pace:d=8;k=6;window=4;sigma=0.1;lambda=0;seed=3;generations=5;settle=0.01;"
        "shift=1;accept=1.5;source=on",
        sites=SITES,
    )
    expected = AdaptConfig(
        method="pace",
        dimension=8,
        population=6,
        window=4,
        sigma=0.1,
        weight=0,
        seed=3,
        generations=5,
        settle=0.01,
        shift=1,
        accept=1.5,
        source=True,
    )
    assert expected == mode.config


def test_all_sites_are_every_site() -> None:
    """``sites=all`` names also those that are off by default."""
    assert (0, 1, 2) == parse_mode("forge:sites=all", sites=3).config.sites


def test_published_rule_brings_its_settings() -> None:
    """``rule=published`` implies exact statistics, a = 1 and no warm start."""
    config = parse_mode("forge:rule=published", sites=SITES).config
    assert ("exact", 1.0, 0) == (config.stats, config.shrinkage, config.warm)


def test_what_is_given_beats_what_published_implies() -> None:
    """A key beside ``rule=published`` overrides what the rule implies."""
    config = parse_mode("forge:rule=published;a=0.5;warm=16", sites=SITES).config
    assert (0.5, 16) == (config.shrinkage, config.warm)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("forg", "did you mean 'forge'"),
        ("forge:stat=exact", "did you mean 'stats'"),
        ("forge:d=3", "does not belong to forge"),
        ("forge:a=1.5", "number in [0, 1]"),
        ("forge:m=0", "number in (0, 1]"),
        ("forge:m=1e-300", "number in (0, 1], at least 1.18e-38"),
        ("forge:m=1e-40", "at least 1.18e-38"),
        ("forge:m=1/1e39", "at least 1.18e-38"),
        ("forge:m=nan", "number in (0, 1]"),
        ("forge:a=inf", "number in [0, 1]"),
        ("forge:interval=0", "from 1 to 64"),
        ("forge:warm=x", "whole number"),
        ("forge:sites=21", "has 21 sites"),
        ("forge:sites=-1", "has 21 sites"),
        ("forge:sites=a+b", "14+6+5"),
        ("forge:gate=auto", "gate=on or gate=off"),
        ("forge:source=on", "does not belong to forge"),
        ("pace:source=1", "source=on or source=off"),
        ("pace:accept=-1", "expected a number in [0, 100]"),
        ("forge:grade=1e-9", "0 or a number from"),
        ("forge:rule=new", "published or refold"),
        ("forge:a", "has no value"),
        ("forge:a=1;a=1", "given twice"),
        ("off:a=1", "takes no keys"),
        ("off,off", "given twice"),
        ("pace:a=1", "does not belong to pace"),
        ("forge+pace:k=3", "whole number from 4 to 64"),
        ("pace:sigma=0", "expected a number in (0, 10]"),
        ("space", "did you mean 'pace'?"),
        ("", "unknown method ''"),
    ],
)
def test_faults_name_what_is_expected(text: str, words: str) -> None:
    """A mode that means nothing is a user error that says what would."""
    with pytest.raises(UserError) as caught:
        parse_modes(text, sites=SITES)
    assert words in str(caught.value)
    assert 2 == caught.value.exit_code


# --- sites by measurement ------------------------------------------------------

RANKING = Ranking(
    images=8,
    corruptions=("snow",),
    off=3.0,
    all=1.0,
    sites=tuple(
        RankedSite(site=site, loss=2.0, shrinkage=shrinkage, alone=2.0)
        for site, shrinkage in ((14, 1.0), (6, 0.9), (5, 0.8))
    ),
)


@pytest.mark.parametrize(
    ("text", "sites", "shrinkage"),
    [
        ("forge:sites=auto:2", (6, 14), 0.9),
        ("forge:sites=auto:3", (5, 6, 14), 0.8),
        ("forge:sites=auto:3;a=0.5", (5, 6, 14), 0.5),
        ("forge:sites=auto:3;rule=published", (5, 6, 14), 1.0),
        ("forge:sites=14", (14,), 0.5),
        ("forge", None, 0.7),
    ],
)
def test_ranked_sites_bring_their_shrinkage(
    text: str, sites: tuple[int, ...] | None, shrinkage: float
) -> None:
    """``auto:K`` takes K of the ranking and their a; no choice takes the artefact's."""
    mode = parse_mode(text, sites=SITES, ranking=RANKING, shrinkage=0.7)
    assert (text, sites) == (mode.text, mode.config.sites)
    assert shrinkage == mode.config.shrinkage


@pytest.mark.parametrize(
    ("ranking", "text", "message"),
    [
        (None, "forge:sites=auto:3", "refold compile .* --sites auto:3"),
        (RANKING, "forge:sites=auto:4", "expected auto:1 to auto:3"),
        (RANKING, "forge:sites=auto:0", "auto:K"),
    ],
)
def test_sites_that_were_not_ranked(
    ranking: Ranking | None, text: str, message: str
) -> None:
    """The message has the command that ranks them, or how many there are."""
    with pytest.raises(UserError, match=message):
        parse_mode(text, sites=SITES, ranking=ranking)
