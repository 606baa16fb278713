"""pytest plugin: tests that run a compiled model on a board.

    def test_fog(refold_run):
        result = refold_run("digits", corruptions="fog", images=100)
        assert result.gain["forge"] > 5

pytest loads it where refold is installed, in every project; it imports the rest of
refold only where one of its fixtures is used. docs/ci.md describes its use.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from refold.pool import Place
    from refold.result import Result

WAIT_SECONDS = 600.0
MARKER = "refold_board"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("refold", "refold: tests on boards")
    group.addoption(
        "--refold-board",
        action="append",
        metavar="ID",
        help="Board to test on, or the name of one of yours, default native; again for "
        "each further port.",
    )
    group.addoption(
        "--refold-port",
        action="append",
        metavar="PORT",
        help="Where a board is, as for refold run; repeatable, tests share them out.",
    )
    group.addoption(
        "--refold-artefact",
        type=os.path.abspath,
        metavar="DIR",
        help="Compiled model that refold_run takes where a test names none.",
    )
    group.addoption(
        "--refold-wait",
        type=float,
        default=WAIT_SECONDS,
        metavar="SECONDS",
        help=f"How long a test waits for a free board, default {WAIT_SECONDS:g}.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker, and refuse options that do not fit together."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(id, ...): boards that a test is for; skipped where none is given",
    )
    if config.getoption("--refold-board") or config.getoption("--refold-port"):
        _places(config)


def pytest_report_header(config: pytest.Config) -> str | None:
    """Name the boards where some were given."""
    if not (config.getoption("--refold-board") or config.getoption("--refold-port")):
        return None
    return f"refold: {', '.join(map(str, _places(config)))}"


def _places(config: pytest.Config) -> tuple[Place, ...]:
    from refold.boards import DEFAULT_BOARD  # noqa: PLC0415 - see above
    from refold.errors import UserError  # noqa: PLC0415
    from refold.place import address  # noqa: PLC0415
    from refold.pool import Place, places  # noqa: PLC0415

    boards = config.getoption("--refold-board") or [DEFAULT_BOARD]
    try:
        given = places(boards, config.getoption("--refold-port") or [])
        pairs = [address(place.board, place.port) for place in given]
    except UserError as error:
        raise pytest.UsageError(f"--refold-board, --refold-port: {error}") from None
    return tuple(Place(board.id, port) for board, port in pairs)


@pytest.fixture
def refold_board(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A board that no other test uses meanwhile: ``board`` (its id) and ``port``.

    Waits until one is free. The marker ``refold_board`` says which boards will do.
    """
    from refold.errors import RefoldError  # noqa: PLC0415
    from refold.pool import take  # noqa: PLC0415

    given = _places(request.config)
    wanted = {board for mark in _marks(request) for board in mark.args}
    candidates = [place for place in given if not wanted or place.board in wanted]
    if not candidates:
        pytest.skip(f"is for {', '.join(sorted(wanted))}; see --refold-board")
    try:
        with take(
            candidates, wait_seconds=request.config.getoption("--refold-wait")
        ) as place:
            yield place
    except RefoldError as error:
        pytest.fail(f"infra: {error}", pytrace=False)


def _marks(request: pytest.FixtureRequest) -> Iterator[pytest.Mark]:
    node: pytest.Item = request.node
    return node.iter_markers(MARKER)


@dataclass(frozen=True, eq=False)
class BoardRun:
    """What ``refold_run`` is: call it to run a model on the test's board."""

    place: Place
    artefact: str | None
    properties: list[tuple[str, object]]
    wait_seconds: float = 0.0

    def __call__(
        self, data: str, *, artefact: str | Path | None = None, **options: Any
    ) -> Result:
        """Run and return the result, which is then a pass; else the test fails.

        Args:
            data: Spec of labelled images.
            artefact: Compiled model; default ``--refold-artefact``.
            options: Other fields of :class:`refold.RunOptions`.
        """
        from refoldc.errors import RefoldcError  # noqa: PLC0415

        from refold.errors import RefoldError  # noqa: PLC0415
        from refold.job import RunOptions  # noqa: PLC0415
        from refold.runner import run  # noqa: PLC0415

        chosen = artefact or self.artefact
        if chosen is None:
            pytest.fail(
                "no compiled model: give --refold-artefact DIR, or "
                "refold_run(data, artefact=DIR)",
                pytrace=False,
            )
        board, port = self.place.board, self.place.port
        try:
            # A command outside pytest may have it: then the run waits, too.
            options.setdefault("wait", self.wait_seconds)
            wanted = RunOptions(data=data, board=board, port=port, **options)
            result = run(chosen, wanted)
        except (RefoldError, RefoldcError) as error:
            pytest.fail(str(error), pytrace=False)
        self._enter(result)
        if result.verdict != "pass":
            reasons = "\n".join(result.reasons)
            pytest.fail(f"{result.verdict}: {reasons}", pytrace=False)
        return result

    def _enter(self, result: Result) -> None:
        """Leave the numbers in the test's report, and so in pytest's JUnit XML."""
        self.properties.append(("refold_board", str(self.place)))
        self.properties.append(("refold_verdict", result.verdict))
        for run in result.runs:
            for name in ("clean_accuracy", "mean_accuracy"):
                value = getattr(run, name)
                if value is not None:
                    entry = (f"refold_{name}[{run.adapt}]", f"{value:g}")
                    self.properties.append(entry)


@pytest.fixture
def refold_run(refold_board: Place, request: pytest.FixtureRequest) -> BoardRun:
    """Return what runs a compiled model on ``refold_board``; see :class:`BoardRun`."""
    artefact: str | None = request.config.getoption("--refold-artefact")
    wait_seconds: float = request.config.getoption("--refold-wait")
    properties = request.node.user_properties
    return BoardRun(refold_board, artefact, properties, wait_seconds)
