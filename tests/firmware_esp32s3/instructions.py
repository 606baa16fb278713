"""The ESP32-S3's SIMD instructions that the kernels may use.

From the Technical Reference Manual v1.8, chapter 1, and from what Espressif's
assembler accepts: no assembler that distributions ship knows these mnemonics, so
this table stands in for one.

Operand kinds: ``q`` a vector register 0..7, ``a`` an address or data register,
otherwise the range of an immediate or lane selector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Range:
    """Immediates from ``least`` to ``most`` in steps."""

    least: int
    most: int
    step: int = 1

    def holds(self, value: int) -> bool:
        """Whether the instruction can encode ``value``."""
        return value in range(self.least, self.most + 1, self.step)


BYTES_16: Final = Range(-2048, 2032, 16)
BYTES_8: Final = Range(-1024, 1016, 8)
BYTES_4: Final = Range(-512, 508, 4)
FUSED: Final = Range(-512, 496, 16)
"""Of loads that ride on an arithmetic instruction."""
ZERO_OR_ONE: Final = Range(0, 1)

Operand = str | Range
INSTRUCTIONS: Final[dict[str, tuple[Operand, ...]]] = {
    "ee.vld.128.ip": ("q", "a", BYTES_16),
    "ee.vld.128.xp": ("q", "a", "a"),
    "ee.vldbc.8": ("q", "a"),
    "ee.vldbc.16": ("q", "a"),
    "ee.vst.128.ip": ("q", "a", BYTES_16),
    "ee.vst.128.xp": ("q", "a", "a"),
    "ee.vst.l.64.ip": ("q", "a", BYTES_8),
    "ee.ld.accx.ip": ("a", BYTES_8),
    "ee.st.accx.ip": ("a", BYTES_8),
    "ee.ld.qacc_l.l.128.ip": ("a", BYTES_16),
    "ee.ld.qacc_l.h.32.ip": ("a", BYTES_4),
    "ee.ld.qacc_h.l.128.ip": ("a", BYTES_16),
    "ee.ld.qacc_h.h.32.ip": ("a", BYTES_4),
    "ee.st.qacc_l.l.128.ip": ("a", BYTES_16),
    "ee.st.qacc_l.h.32.ip": ("a", BYTES_4),
    "ee.st.qacc_h.l.128.ip": ("a", BYTES_16),
    "ee.st.qacc_h.h.32.ip": ("a", BYTES_4),
    "ee.zero.accx": (),
    "ee.zero.qacc": (),
    "ee.mov.s16.qacc": ("q",),
    "ee.vmulas.s8.accx.ld.ip": ("q", "a", FUSED, "q", "q"),
    "ee.vmulas.s8.qacc.ld.xp": ("q", "a", "a", "q", "q"),
    "ee.vmulas.s16.qacc": ("q", "q"),
    "ee.vmulas.s16.qacc.ld.ip": ("q", "a", FUSED, "q", "q"),
    "ee.vmulas.s16.qacc.ld.xp": ("q", "a", "a", "q", "q"),
    "ee.vsmulas.s16.qacc": ("q", "q", Range(0, 7)),
    "ee.srcmb.s16.qacc": ("q", "a", ZERO_OR_ONE),
    "rur.accx_0": ("a",),
    "ee.zero.q": ("q",),
    "ee.xorq": ("q", "q", "q"),
    "ee.vmax.s8": ("q", "q", "q"),
    "ee.vmin.s8": ("q", "q", "q"),
    "ee.vmax.s16": ("q", "q", "q"),
    "ee.vmin.s16": ("q", "q", "q"),
    "ee.vmax.s16.ld.incp": ("q", "a", "q", "q", "q"),
    "ee.vmin.s16.st.incp": ("q", "a", "q", "q", "q"),
    "ee.vzip.8": ("q", "q"),
    "ee.vunzip.8": ("q", "q"),
    "ee.vunzip.16": ("q", "q"),
    "ee.vunzip.32": ("q", "q"),
}


def faults(statement: str, operands: int) -> list[str]:
    """What is wrong with one line of assembly.

    Args:
        statement: Of an asm template, registers the compiler chooses as %0, %1.
        operands: How many the template's constraints supply.
    """
    mnemonic, _, rest = statement.strip().partition(" ")
    given = [text.strip() for text in rest.split(",")] if rest else []
    kinds = INSTRUCTIONS.get(mnemonic)
    if kinds is None:
        return [f"unknown mnemonic {mnemonic}"]
    if len(kinds) != len(given):
        return [f"{statement}: {len(given)} operands, expected {len(kinds)}"]
    pairs = zip(kinds, given, strict=True)
    found = [f"{statement}: {text}" for kind, text in pairs if not _fits(kind, text)]
    named = [text for text in given if text.startswith("%")]
    if named != [f"%{i}" for i in range(operands)]:
        found.append(f"{statement}: constraints for {operands} operands")
    return found


def _fits(kind: Operand, text: str) -> bool:
    if isinstance(kind, Range):
        return text.lstrip("-").isdigit() and kind.holds(int(text))
    if kind == "q":
        return len(text) == 2 and text[0] == "q" and text[1] in "01234567"
    return text[0] == "%"
