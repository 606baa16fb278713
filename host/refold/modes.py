"""Adaptation modes: the strings of ``--adapt`` and what they configure.

A mode is ``off``, or a method of ``METHODS`` and ``[:key=value;...]``. Several are
separated by commas, so no value contains one. The canonical form, which results
carry, keeps the values as they were written and puts the keys in the order of
``KEYS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from refoldc.adapt import LEAST_GRADE, METHODS, AdaptConfig, AdaptMethod
from refoldc.ranking import Ranking, auto_count

from refold.errors import UserError
from refold.facts import ACCEPT_MAX, INTERVAL_MAX, LAMBDA_MAX, SHIFT_MAX, SIGMA_MAX

KEYS = (
    *("sites", "gate", "stats", "rule", "a", "m", "d", "k", "window"),
    *("sigma", "lambda", "interval", "warm", "grade"),
    *("seed", "generations", "settle", "shift", "accept", "source"),
)
"""Every key any method knows, in canonical order."""

WARM_MAX = 65535


@dataclass(frozen=True)
class Mode:
    """One adaptation mode.

    Attributes:
        text: Canonical form, the key of results.
        config: What the device is configured with.
    """

    text: str
    config: AdaptConfig


def parse_modes(
    text: str,
    *,
    sites: int,
    ranking: Ranking | None = None,
    shrinkage: float = AdaptConfig.shrinkage,
) -> tuple[Mode, ...]:
    """Return the modes of a comma-separated list, in its order.

    Args:
        text: For instance ``off,forge:a=0.7``.
        sites: Number of recalibration sites in the model.
        ranking: Of them, which ``sites=auto:K`` needs.
        shrinkage: a of modes that choose neither sites nor a.

    Raises:
        UserError: A method, key or value is unknown, or a mode comes twice.
    """
    modes = tuple(
        parse_mode(part, sites=sites, ranking=ranking, shrinkage=shrinkage)
        for part in text.split(",")
    )
    names = [mode.text for mode in modes]
    for name in names:
        if names.count(name) > 1:
            raise UserError(
                f"--adapt {text}: mode '{name}' is given twice; name each mode once"
            )
    return modes


def parse_mode(
    text: str,
    *,
    sites: int,
    ranking: Ranking | None = None,
    shrinkage: float = AdaptConfig.shrinkage,
) -> Mode:
    """Return the one mode that ``text`` describes; see :func:`parse_modes`.

    ``rule=published`` implies exact statistics, a = 1 and no warm start,
    ``sites=auto:K`` the a that suits them, where the mode does not say otherwise.
    """
    name, _, tail = text.strip().partition(":")
    method = _method(name)
    values = _pairs(text, tail)
    if method == "off":
        if values:
            raise UserError(f"--adapt {text}: 'off' takes no keys; write 'off'")
        return Mode("off", AdaptConfig(method="off"))
    base = AdaptConfig.alone() if method == "pace" else AdaptConfig(method=method)
    plain = dict(values)
    if "sites" not in values:
        base = replace(base, shrinkage=shrinkage)
    elif auto_count(values["sites"]):
        chosen, suited = _ranked(text, plain.pop("sites"), ranking)
        base = replace(base, sites=chosen, shrinkage=suited)
    if values.get("rule") == "published":
        base = replace(AdaptConfig.published(), method=method, sites=base.sites)
    fields = _fields(text, method, plain, sites)
    return Mode(_canonical(method, values), replace(base, **fields))


def _ranked(
    text: str, choice: str, ranking: Ranking | None
) -> tuple[tuple[int, ...], float]:
    """The first K sites of the ranking, and the shrinkage that suits them."""
    if ranking is None:
        raise UserError(
            f"--adapt {text}: this artefact holds no ranking of its sites; compile it "
            f"again with 'refold compile MODEL --calib SPEC -o DIR --sites {choice}'"
        )
    try:
        return ranking.first(auto_count(choice) or 0)
    except ValueError as error:
        raise UserError(f"--adapt {text}: sites={choice}: {error}") from None


def _method(text: str) -> AdaptMethod:
    for method in METHODS:
        if method == text:
            return method
    raise UserError(
        f"--adapt: unknown method '{text}'{_hint(text, METHODS)}; "
        "expected off, forge, pace or forge+pace, and [:key=value;...]"
    )


def _pairs(text: str, tail: str) -> dict[str, str]:
    """Split ``k=v;k=v`` and refuse keys that are unknown or repeated."""
    values: dict[str, str] = {}
    for item in filter(None, tail.split(";")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if key not in KEYS:
            raise UserError(
                f"--adapt {text}: unknown key '{key}'{_hint(key, KEYS)}; "
                f"known keys: {', '.join(KEYS)}"
            )
        if not equals or not value:
            raise UserError(f"--adapt {text}: key '{key}' has no value; write {key}=…")
        if key in values:
            raise UserError(f"--adapt {text}: key '{key}' is given twice")
        values[key] = value
    return values


def _canonical(method: str, values: Mapping[str, str]) -> str:
    ordered = ";".join(f"{key}={values[key]}" for key in KEYS if key in values)
    return f"{method}:{ordered}" if ordered else method


def _fields(
    text: str, method: str, values: Mapping[str, str], sites: int
) -> dict[str, Any]:
    """Turn the pairs into keyword arguments of :class:`AdaptConfig`."""
    readers: dict[str, Reader] = {}
    for part in method.split("+"):
        readers.update(_READERS[part])
    fields: dict[str, Any] = {}
    for key, value in values.items():
        if key not in readers:
            raise UserError(
                f"--adapt {text}: key '{key}' does not belong to {method}; "
                f"its keys are {', '.join(readers)}"
            )
        name, read = readers[key]
        try:
            result = read(value, sites)
        except ValueError as error:
            raise UserError(f"--adapt {text}: {key}={value}: {error}") from None
        fields[name] = result
    return fields


def _hint(word: str, known: tuple[str, ...]) -> str:
    match = get_close_matches(word, known, n=1)
    return f" (did you mean '{match[0]}'?)" if match else ""


# --- values: each reader takes the text and the number of sites ----------------


def _sites(text: str, sites: int) -> tuple[int, ...] | None:
    if text == "all":
        return tuple(range(sites))
    try:
        chosen = tuple(sorted({int(part) for part in text.split("+")}))
    except ValueError:
        raise ValueError(
            "expected 'all', 'auto:K' or site numbers such as 14+6+5"
        ) from None
    if not sites or chosen[0] < 0 or chosen[-1] >= sites:
        raise ValueError(
            f"the model has {sites} sites, numbered from 0; 'refold inspect' lists them"
        )
    return chosen


def _switch(key: str) -> Callable[[str, int], bool]:
    def read(text: str, _sites: int) -> bool:
        if text not in ("on", "off"):
            raise ValueError(f"expected {key}=on or {key}=off")
        return text == "on"

    return read


def _choice(*allowed: str) -> Callable[[str, int], str]:
    def read(text: str, _sites: int) -> str:
        if text not in allowed:
            raise ValueError(f"expected {' or '.join(allowed)}")
        return text

    return read


def _integer(low: int, high: int) -> Callable[[str, int], int]:
    def read(text: str, _sites: int) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise ValueError(f"expected a whole number from {low} to {high}")
        return value

    return read


_LEAST = float(np.finfo(np.float32).tiny)


def _number(*, most: float = 1, zero: bool) -> Callable[[str, int], float]:
    """Read a number in [0, most], or in (0, most] without ``zero``; also as ``1/640``.

    The device takes a float32, so a positive one must be one there too; smaller
    than normal numbers are zero to some chips.
    """
    interval = f"[0, {most}]" if zero else f"(0, {most}], at least {_LEAST:.3g},"

    def read(text: str, _sites: int) -> float:
        top, slash, bottom = text.partition("/")
        try:
            value = float(top) / (float(bottom) if slash else 1.0)
        except (ValueError, ZeroDivisionError):
            value = -1.0
        if not (0 if zero else _LEAST) <= value <= most:
            raise ValueError(f"expected a number in {interval}")
        return value

    return read


def _grade(text: str, sites: int) -> float:
    value = _number(zero=True)(text, sites)
    if 0 < value < LEAST_GRADE:
        raise ValueError(f"expected 0 or a number from {LEAST_GRADE:g} to 1")
    return value


Reader = tuple[str, Callable[[str, int], Any]]
"""Field of AdaptConfig and how to read its value."""

_READERS: Mapping[str, Mapping[str, Reader]] = {
    "forge": {
        "sites": ("sites", _sites),
        "gate": ("gate", _switch("gate")),
        "stats": ("stats", _choice("lagged", "exact")),
        "rule": ("rule", _choice("published", "refold")),
        "a": ("shrinkage", _number(zero=True)),
        "m": ("momentum", _number(zero=False)),
        "interval": ("interval", _integer(1, INTERVAL_MAX)),
        "warm": ("warm", _integer(0, WARM_MAX)),
        "grade": ("grade", _grade),
    },
    "pace": {
        "d": ("dimension", _integer(1, 0xFFFF)),
        "k": ("population", _integer(4, 64)),
        "window": ("window", _integer(1, 0xFF)),
        "sigma": ("sigma", _number(most=SIGMA_MAX, zero=False)),
        "lambda": ("weight", _number(most=LAMBDA_MAX, zero=True)),
        "seed": ("seed", _integer(0, 2**32 - 1)),
        "generations": ("generations", _integer(0, 0xFFFF)),
        "settle": ("settle", _number(zero=True)),
        "shift": ("shift", _number(most=SHIFT_MAX, zero=True)),
        "accept": ("accept", _number(most=ACCEPT_MAX, zero=True)),
        "source": ("source", _switch("source")),
    },
}
"""Keys of each method."""
