"""Whether refold's command line takes what documents tell people to type."""

from __future__ import annotations

from collections.abc import Sequence

from refold.cli.group import refold


def accept(words: Sequence[str]) -> None:
    """Parse a command without running it; an unknown option or value raises."""
    with refold.make_context("refold", list(words)) as ctx:
        rest = [*ctx._protected_args, *ctx.args]
        name, command, arguments = refold.resolve_command(ctx, rest)
        assert command is not None, words
        with command.make_context(name, arguments, parent=ctx):
            pass
