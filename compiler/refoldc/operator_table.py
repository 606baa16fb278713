"""docs/operators.md from the code: ``python -m refoldc.operator_table``."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator

from refoldc.importers import OPERATORS, Importer
from refoldc.importers.registry import REMEDIES
from refoldc.loading import OPSETS

_INTRODUCTION = f"""# Operators

Made by `python -m refoldc.operator_table > docs/operators.md`; a test compares.

Opsets {OPSETS.start} to {OPSETS.stop - 1}, default domain, batch one. An operator whose
operands are all constants is evaluated at compile time and needs no row here. What
is not compiled is refused with the node's name and a way round it. Sums, differences
and quotients of constants are those of any shape that broadcasts over one image; views
(reshapes, transposes, tiles) may pass through any number of axes and cost nothing where
the stored axes describe them.
"""


def render() -> str:
    """The page."""
    return "\n".join((_INTRODUCTION, *_compiled(), "", *_refused())) + "\n"


def _compiled() -> Iterator[str]:
    """A row for each function that imports operators."""
    names: dict[Importer, list[str]] = defaultdict(list)
    for name, function in OPERATORS.items():
        names[function].append(name)
    rows = sorted(
        ((sorted(listed), function) for function, listed in names.items()),
        key=lambda row: row[0],
    )
    yield "| operator | compiled as |"
    yield "|---|---|"
    for listed, function in rows:
        text = (function.__doc__ or "").strip().splitlines()[0]
        yield f"| {', '.join(listed)} | {text} |"


def _refused() -> Iterator[str]:
    yield "| refused | instead |"
    yield "|---|---|"
    for name, remedy in sorted(REMEDIES.items()):
        yield f"| {name} | {remedy} |"


if __name__ == "__main__":
    sys.stdout.write(render())
