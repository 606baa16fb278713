"""Options and parameter types that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from refold.boards import DEFAULT_BOARD

MODEL = click.Path(path_type=Path)
"""Not checked here: the compiler's message for a missing model is the better one."""

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)

board_option = click.option(
    "--board",
    default=DEFAULT_BOARD,
    show_default=True,
    metavar="ID",
    help="Board; 'refold boards' lists them.",
)

port_option = click.option(
    "--port",
    metavar="URL",
    help="Where the board is: device path, COM port, socket://HOST:PORT or "
    "rfc2217://HOST:PORT; default the one that is attached over USB.",
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
