"""Whether refold's command line takes what documents tell people to type."""

from __future__ import annotations

from collections.abc import Sequence

import click

from refold.cli.group import refold


def accept(words: Sequence[str]) -> None:
    """Parse a command without running it; an unknown option or value raises."""
    with refold.make_context("refold", list(words)) as ctx:
        _accept_rest(refold, ctx)


def _accept_rest(group: click.Group, ctx: click.Context) -> None:
    """Parse what follows a group's own options, down to the last command."""
    rest = [*ctx._protected_args, *ctx.args]
    if not rest and group.invoke_without_command:
        return
    name, command, arguments = group.resolve_command(ctx, rest)
    assert command is not None, rest
    with command.make_context(name, arguments, parent=ctx) as inner:
        if isinstance(command, click.Group):
            _accept_rest(command, inner)
