"""Options and parameter types that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import click

from refold.baseline import LATENCY, Baseline, Tolerances
from refold.boards import DEFAULT_BOARD
from refold.errors import UserError
from refold.files import check_place
from refold.result import load_result

MODEL = click.Path(path_type=Path)
"""Not checked here: the compiler's message for a missing model is the better one."""

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)

board_option = click.option(
    "--board",
    default=DEFAULT_BOARD,
    show_default=True,
    metavar="ID",
    help="Board, or the name of one of yours; 'refold boards' lists them.",
)

port_option = click.option(
    "--port",
    metavar="PORT",
    help="Where the board is: its name in your board file, USB serial number, MAC or "
    "usb:PATH ('refold boards scan'), device path, COM port, socket://HOST:PORT or "
    "rfc2217://HOST:PORT; default the one that is attached over USB.",
)

wait_option = click.option(
    "--wait",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default="do not wait",
    metavar="SECONDS",
    help="How long to wait where another refold process has the board.",
)

deadline_option = click.option(
    "--deadline",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="End after so long, wherever it is: exit 3, results so far are kept.",
)

power_cycle_option = click.option(
    "--power-cycle",
    metavar="COMMAND",
    help="Shell command that cuts the power of a board that is silent.",
)

shape_option = click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="NAME:1x3x224x224",
    help="Sizes of an input that the model leaves open; repeatable.",
)


def floats(text: str) -> tuple[float, ...]:
    """Read numbers separated by commas; click reports what cannot be read."""
    return tuple(float(part) for part in text.split(","))


RATIO = click.FloatRange(min=1)
_LIMITS = Tolerances()


def baseline_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add ``--baseline`` and tolerances.

    The command takes ``baseline``, a path or None for :func:`load_baseline`, and
    ``tolerances``.
    """

    @click.option(
        "--baseline",
        type=FILE,
        metavar="RESULT",
        help="Earlier result.json; exit 1 where something is worse than there.",
    )
    @click.option(
        "--accuracy-tolerance",
        "accuracy",
        type=click.FloatRange(min=0),
        default=_LIMITS.accuracy,
        show_default=True,
        metavar="POINTS",
        help="Accuracy that each corruption and the mean may lose to the baseline, and "
        "a result of a history to the median of the earlier ones.",
    )
    @click.option(
        "--latency-tolerance",
        "latency",
        type=RATIO,
        show_default=f"{LATENCY}; any where times are this computer's",
        metavar="RATIO",
        help="Times the baseline's latency, median and 95th percentile.",
    )
    @click.option(
        "--memory-tolerance",
        "memory",
        type=RATIO,
        default=_LIMITS.memory,
        show_default=True,
        metavar="RATIO",
        help="Times each of the baseline's memory sizes.",
    )
    @wraps(command)
    def with_tolerances(
        accuracy: float,
        latency: float | None,
        memory: float,
        **rest: Any,
    ) -> int:
        limits = Tolerances(accuracy=accuracy, latency=latency, memory=memory)
        return command(tolerances=limits, **rest)

    return with_tolerances


def load_baseline(path: Path | None, tolerances: Tolerances) -> Baseline | None:
    """Read what ``--baseline`` names.

    Raises:
        UserError: It is no result.
    """
    if path is None:
        return None
    return Baseline(load_result(path), tolerances, str(path))


def check_outputs(
    outputs: Mapping[str, Path | None], inputs: Iterable[Path] = ()
) -> None:
    """Find out before the work whether files can be written, and lose none by it.

    Args:
        outputs: By the option that names them.
        inputs: Files that are read, and must outlive the command.

    Raises:
        UserError: One cannot be written, or would replace another.
    """
    taken = {path.resolve(): "what is read from there" for path in inputs}
    for option, path in outputs.items():
        if path is None:
            continue
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise UserError(
                f"{option} {path} would replace {other}; choose another place"
            )
        check_place(path)
