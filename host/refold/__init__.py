"""Run FORGE-adapted int8 networks on boards and measure them.

    >>> import refold
    >>> options = refold.RunOptions(data="digits", images=100)
    >>> result = refold.run("demo.refold", options)  # doctest: +SKIP

A script that calls :func:`run` keeps the call under ``if __name__ ==
"__main__":``, for the parity check starts processes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from refold.baseline import Baseline, Tolerances
    from refold.report import write_report
    from refold.result import Result, load_result
    from refold.runner import RunOptions, run
    from refold.schedule import Schedule

__all__ = [
    "Baseline",
    "Result",
    "RunOptions",
    "Schedule",
    "Tolerances",
    "load_result",
    "run",
    "write_report",
]

_HOMES = {
    "Baseline": "baseline",
    "Result": "result",
    "RunOptions": "runner",
    "Schedule": "schedule",
    "Tolerances": "baseline",
    "load_result": "result",
    "run": "runner",
    "write_report": "report",
}


def __getattr__(name: str) -> Any:
    """Import public names on first use, so that ``import refold`` stays light."""
    if name not in _HOMES:
        raise AttributeError(f"module 'refold' has no attribute '{name}'")
    return getattr(import_module(f"refold.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return list(__all__)
