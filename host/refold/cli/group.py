"""The ``refold`` group: global options, refold.toml, commands loaded on use."""

from __future__ import annotations

import logging
import tomllib
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from refoldc.version import VERSION

from refold.errors import UserError

COMMANDS = (
    "demo",
    "inspect",
    "compile",
    "build",
    "flash",
    "run",
    "export",
    "report",
    "data",
    "boards",
    "doctor",
)
"""Each is the attribute ``command`` of the module of its name."""

CONFIG = Path("refold.toml")


class LazyGroup(click.Group):
    """Imports a command's module when it is asked for, which keeps start-up short."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order of work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one command, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"refold.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Take the defaults from refold.toml, unless the command needs none.

        A fault in the file must not keep its author from help and diagnosis.
        """
        name, command, rest = super().resolve_command(ctx, args)
        helped = name == "doctor" or not {"-h", "--help"}.isdisjoint(rest)
        if CONFIG.is_file() and not (helped or ctx.resilient_parsing):
            ctx.default_map = read_config(CONFIG, ctx)
        return name, command, rest


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("-v", "--verbose", count=True, help="Say what is done; twice: all of it.")
@click.option(
    "--log-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a full log there.",
)
@click.version_option(VERSION, prog_name="refold")
def refold(verbose: int, log_file: Path | None) -> None:
    """Compile BatchNorm networks to int8 C that adapts itself, and measure it.

    Options given again and again may sit in refold.toml in the working directory:
    one table a command, one key an option.
    """
    _log(verbose, log_file)


class _Terminal(logging.Handler):
    """Writes ``warning: ...`` to stderr, above a progress bar if there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"{record.levelname.lower()}: {self.format(record)}", err=True)


def _log(verbose: int, log_file: Path | None) -> None:
    level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    handlers: list[logging.Handler] = [_Terminal(level)]
    if log_file is not None:
        try:
            handlers.append(logging.FileHandler(log_file, mode="w", encoding="utf-8"))
        except OSError as error:
            raise UserError(
                f"cannot write --log-file {log_file}: {error.strerror}"
            ) from None
        handlers[-1].setFormatter(
            logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
        )
    for name in ("refold", "refoldc"):
        logger = logging.getLogger(name)
        logger.setLevel(logging.DEBUG)
        for handler in logger.handlers:
            handler.close()
        logger.handlers = handlers


def read_config(path: Path, ctx: click.Context) -> dict[str, dict[str, Any]]:
    """Return the defaults that a refold.toml sets, by command and parameter.

    Raises:
        UserError: It is no TOML, or names an unknown command or option.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path}: {error}; mend the file or remove it") from None
    return {name: _defaults(path, name, table, ctx) for name, table in tables.items()}


def _defaults(
    path: Path, name: str, table: object, ctx: click.Context
) -> dict[str, Any]:
    group = ctx.command
    command = group.get_command(ctx, name) if isinstance(group, click.Group) else None
    if command is None or not isinstance(table, dict):
        raise UserError(
            f"{path}: '{name}' is no table named after a command; "
            f"expected [{'], ['.join(COMMANDS)}]"
        )
    known = {
        option.lstrip("-"): parameter.name
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for option in parameter.opts
        if option.startswith("--")
    }
    for key in table:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f" (did you mean '{close[0]}'?)" if close else ""
            raise UserError(
                f"{path}: refold {name} has no option '--{key}'{hint}; "
                f"'refold {name} --help' lists them"
            )
    return {str(known[key]): _value(value) for key, value in table.items()}


def _value(value: object) -> object:
    """Write numbers and lists of them as on a command line: ``[0.5, 1]``: 0.5,1."""
    if isinstance(value, list) and not all(isinstance(v, str) for v in value):
        return ",".join(str(item) for item in value)
    return value
