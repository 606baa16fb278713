"""What ``refold doctor --board`` tells: a board is reached, greeted, its link tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from refold.board_session import Terms, open_session
from refold.boards import Board
from refold.build import Build, build
from refold.errors import UserError
from refold.facts import ResetReason
from refold.finding import Finding
from refold.link_check import SIZES, LinkReport, check_link
from refold.protocol import Hello


def check_board(
    board: Board, port: str | None, artefact: Path | None, *, terms: Terms
) -> Iterator[Finding]:
    """Yield what is found of a board, step by step.

    Args:
        board: Which it is.
        port: As :func:`refold.place.find_place` takes it; None starts a board that is
            spawned, and takes the one other that is attached.
        artefact: What must run there; None takes any firmware of a board that runs.
        terms: What the board is given.

    Raises:
        UserError: It is not attached, its port cannot be opened, or other firmware
            runs there.
        InfraError: It does not answer, or is lost.
    """
    built = _built(board, port, artefact)
    with open_session(board, built, port, terms=terms) as session:
        link, hello = session.link, session.device.hello()
        yield Finding("port", True, link.url)
        yield Finding("hello", True, _words(hello, built))
        yield from link_findings(check_link(link, hello))


def _built(board: Board, port: str | None, artefact: Path | None) -> Build | None:
    if artefact is not None:
        return build(artefact, board)
    if port is None and board.link.kind == "spawn":
        raise UserError(
            f"board {board.id} runs only as long as a command that starts it: name a "
            "compiled model with --artefact DIR, or the --port of one that runs"
        )
    return None


def _words(hello: Hello, built: Build | None) -> str:
    known = {reason.value: reason.name.lower() for reason in ResetReason}
    reset = known.get(hello.reset_reason, str(hello.reset_reason))
    match = ", the artefact's" if built is not None else ""
    return (
        f"{hello.chip}, build {hello.build_hash}{match}; starts since power-on: "
        f"{hello.boot_count}, the last by {reset.replace('_', ' ')}"
    )


def link_findings(report: LinkReport) -> Iterator[Finding]:
    """Yield what a link is worth, in words."""
    bad = report.lost + report.differing
    tried = f"{report.frames} frames with up to {max(SIZES):,} bytes of data"
    if bad:
        text = (
            f"{tried}: {report.lost} lost, {report.differing} with other content "
            f"({100 * bad / report.frames:.2g} %): use a shorter cable at a port of "
            "the computer itself, or a lower baud rate"
        )
    else:
        text = f"{tried}: all answered"
    yield Finding("frames", not bad, text)
    fetched = "no state to read"
    if report.to_host is not None:
        fetched = f"{report.to_host:,.0f} bytes/s from it, a piece at a time"
    yield Finding(
        "throughput",
        True,
        f"{report.to_board:,.0f} bytes/s to the board, {fetched}; a turn takes "
        f"{1000 * report.turn_s:.1f} ms",
    )
