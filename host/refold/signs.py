"""What a chip says outside frames when it fails or starts, and what that means.

Words of ESP-IDF's panic handler, of its watchdogs and of the ROM of Espressif's chips.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from refold.facts import ResetReason


@dataclass(frozen=True)
class _Sign:
    words: re.Pattern[str]
    reason: ResetReason


_SIGNS = tuple(
    _Sign(re.compile(words), reason)
    for words, reason in (
        (
            r"Brownout detector was triggered|rst:0x\w+ \(\w*(BROWN|GLITCH)",
            ResetReason.BROWNOUT,
        ),
        (
            r"[Ww]atchdog got triggered|wdt timeout|rst:0x\w+ \(\w*WDT",
            ResetReason.WATCHDOG,
        ),
        (
            r"Guru Meditation|abort\(\) was called|assert failed|"
            r"stack overflow in task|Stack smashing",
            ResetReason.PANIC,
        ),
        (r"rst:0x\w+ \(POWERON", ResetReason.POWER_ON),
        (r"rst:0x\w+ \(DEEPSLEEP", ResetReason.DEEP_SLEEP),
        (r"rst:0x\w+ \(\w", ResetReason.SOFTWARE),
    )
)
"""The first that a line has counts: a watchdog's panic is the watchdog's."""

_MEANS = {
    "disconnect": "check cable and hub; the board may have run on",
    "silent": "its firmware hangs: see that it is powered, and give --power-cycle",
    "brownout": (
        "its supply voltage fell: use a short cable, a port of the computer itself or "
        "a supply of its own"
    ),
    "watchdog": ("its firmware hung: look at the backtrace in the log (--log-file)"),
    "panic": ("its firmware crashed: look at the backtrace in the log (--log-file)"),
    "power_on": "its power came back or RESET was pressed: check its cable",
    "software": (
        "it was restarted by software or over USB: end other programs that use its port"
    ),
}
_SHOWN_CHARACTERS = 160


def telling_lines(text: str) -> Iterator[tuple[str, ResetReason]]:
    """Yield the lines of ``text`` that tell of a failure or a start, in order."""
    for line in text.splitlines():
        sign = next((sign for sign in _SIGNS if sign.words.search(line)), None)
        if sign is not None:
            yield line.strip()[:_SHOWN_CHARACTERS], sign.reason


def remedy_of(reason: str) -> str:
    """Say what to look at after a loss for ``reason``, as in a result's resets."""
    return _MEANS.get(reason, "check the board's cable, power and log (--log-file)")
