"""The command line: arguments in, exit code out; the only place that prints.

Exit codes: 0 ok; 1 a result is below its bound or differs from the host model;
2 the user's input or environment is at fault; 3 infrastructure. A bug keeps its
traceback.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click
from click.core import ParameterSource

from refoldc.errors import BoundMissed, RefoldcError

from refold.cli.group import CONFIG, refold
from refold.errors import RefoldError

INTERRUPTED = 130
"""What shells report for a program ended by Ctrl-C."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit; ``arguments`` default to the process's."""
    # Whoever ends a job this way wants it ended as by Ctrl-C: nothing left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(status(arguments))


def status(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        args = None if arguments is None else list(arguments)
        return refold.main(args, prog_name="refold", standalone_mode=False) or 0
    except click.ClickException as error:
        _with_origin(error).show()
        return 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("refold: interrupted", err=True)
        return INTERRUPTED
    except BoundMissed as error:
        return _complain(error, 1)
    except RefoldcError as error:
        return _complain(error, 2)
    except RefoldError as error:
        return _complain(error, error.exit_code)


def _with_origin(error: click.ClickException) -> click.ClickException:
    """Name refold.toml where the value that click refuses stands there."""
    if not isinstance(error, click.BadParameter) or not (error.ctx and error.param):
        return error
    source = error.ctx.get_parameter_source(str(error.param.name))
    if source is not ParameterSource.DEFAULT_MAP:
        return error
    return click.BadParameter(f"{error.message} ({CONFIG})", error.ctx, error.param)


def _complain(error: Exception, code: int) -> int:
    click.echo(f"refold: error: {error}", err=True)
    return code
