"""Resuming: a run whose board was lost gives the result of one that was not, or none.

The board is real firmware that adapts; its line has faults, or its process is killed
and started again on the same port.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from small_model import make_images, write_model

from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model

from refold.board_session import Terms, open_session
from refold.boards import Board, load_board
from refold.build import Build, build
from refold.device import Patience
from refold.errors import InfraError
from refold.fault_proxy import FaultProxy
from refold.faults import Fault, Kind
from refold.job import OnReset
from refold.ledger import Ledger
from refold.modes import parse_modes
from refold.power.recorder import recording
from refold.process import spawn
from refold.schedule import Schedule, Step, plan_steps
from refold.streaming import MOST_RESETS, Streaming
from refold.watch import Watch

IMAGES = 6
STREAMS = [("clean", 0), ("fog", 5)]
MODES = {
    "reset": "forge:gate=off;m=0.5",
    "continual": "forge:gate=off;m=0.5",
    "pace": "forge+pace:gate=off;d=4;window=4",
}
"""By how streams follow each other; PACE's are continual."""
TERMS = Terms(patience=Patience(first_s=0.03, image_s=2.0, hello_s=2.0, return_s=2.0))
FRAME = 90
"""About the bytes of an image on the wire."""


@dataclass(frozen=True)
class Setup:
    """A running board, what to stream, and what comes of it on a sound line."""

    board: Board
    build: Build
    port: str
    pixels: dict[str, NDArray[np.uint8]]
    sound: dict[str, Seen] = field(default_factory=dict)


Seen = tuple[list[tuple[str, list[list[int]]]], bytes]
"""Each stream's name and logits, and the adaptation state after the last."""


def steps_of(how: str) -> list[Step]:
    """Two streams; continual ones come twice and keep their state."""
    modes = parse_modes(MODES[how], sites=1, ranking=(0,), shrinkage=0.5)
    schedule = Schedule() if how == "reset" else Schedule(stream="continual", rounds=2)
    return plan_steps(schedule, modes, STREAMS, images=IMAGES)


class Counting(Watch):
    """Counts answered images as a progress bar does."""

    def __init__(self) -> None:
        self.images = 0

    def image(self) -> None:
        """Count one."""
        self.images += 1

    def back(self, images: int) -> None:
        """Take some back."""
        self.images -= images


def stream(
    setup: Setup,
    url: str | None,
    how: str,
    ledger: Ledger,
    on_reset: OnReset = "resume",
    watch: Watch | None = None,
) -> Seen:
    """Stream all steps through ``url`` and return what was entered."""
    with (
        open_session(setup.board, setup.build, url, terms=TERMS) as session,
        recording(None) as power,
    ):
        streaming = Streaming(
            session=session,
            pictures=lambda corruption, _: setup.pixels[corruption],
            ledger=ledger,
            watch=watch or Watch(),
            power=power,
            checker=None,
            on_reset=on_reset,
            keeps=True,
        )
        for step in steps_of(how):
            streaming.run(step)
        entries = [
            (entry.step.label, [reply.logits.tolist() for reply in entry.replies])
            for entry in ledger.entries
        ]
        return entries, session.device.read_state()


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    """One board for all tests of this module."""
    folder = tmp_path_factory.mktemp("resume")
    images = make_images(IMAGES)
    artefact = compile_model(
        write_model(folder / "m.onnx"),
        images,
        folder / "a",
        options=CompileOptions(adapt="forge+pace"),
    )
    board = load_board("native")
    built = build(artefact.path, board)
    pixels = {"clean": images, "fog": np.uint8(100) + images // 2}
    with spawn([str(built.executable), "--tcp", "0"]) as port:
        made = Setup(board, built, port, pixels)
        for how in MODES:
            made.sound[how] = stream(made, port, how, Ledger())
        yield made


HOW = pytest.mark.parametrize("how", MODES)


def test_streams_and_schedules_differ(setup: Setup) -> None:
    """What the tests below compare would show a stream that is missing or twice."""
    for how, (streams, _) in setup.sound.items():
        assert len(steps_of(how)) == len({str(logits) for _, logits in streams})
    assert setup.sound["continual"][0] != setup.sound["pace"][0]


@pytest.mark.parametrize(
    ("how", "at"),
    [("reset", 3), ("reset", 6), ("reset", 9), ("reset", 12)]
    + [("continual", at) for at in range(4, 25, 4)]
    + [("pace", at) for at in range(9, 25, 7)],
)
def test_a_line_that_is_cut_and_comes_back(setup: Setup, how: str, at: int) -> None:
    """Wherever it is cut the result is that of a sound line; the loss is entered."""
    cut = [[Fault("disconnect", at * FRAME)]]
    ledger, watch = Ledger(), Counting()
    with FaultProxy(setup.port, to_board=cut) as proxy:
        assert setup.sound[how] == stream(setup, proxy.url, how, ledger, watch=watch)
    (reset,) = ledger.resets
    assert ("stream", "disconnect", 1) == (
        reset.phase,
        reset.reason,
        reset.boot_count,
    )
    assert reset.image <= IMAGES
    assert len(steps_of(how)) * IMAGES == watch.images


def test_without_resuming_the_run_ends(setup: Setup) -> None:
    """What was answered stays, what happened is entered, and how to go on is said."""
    ledger = Ledger()
    cut = [[Fault("disconnect", 10 * FRAME)]]
    with (
        FaultProxy(setup.port, to_board=cut) as proxy,
        pytest.raises(InfraError, match=r"lost \(disconnect\).*--on-reset resume"),
    ):
        stream(setup, proxy.url, "reset", ledger, "fail")
    assert [("fog", "disconnect")] == [(r.stream, r.reason) for r in ledger.resets]
    (clean, fog) = ledger.entries
    assert IMAGES == len(clean.replies)
    assert ledger.resets[0].image == len(fog.replies) < IMAGES


def test_a_reset_loop_is_the_end(setup: Setup) -> None:
    """A board that is lost again and again is not resumed for ever."""
    ledger = Ledger()
    cut = [[Fault("disconnect", 6 * FRAME)] for _ in range(MOST_RESETS + 1)]
    with (
        FaultProxy(setup.port, to_board=cut) as proxy,
        pytest.raises(InfraError, match=rf"lost {MOST_RESETS + 1} times in this run"),
    ):
        stream(setup, proxy.url, "reset", ledger)
    assert MOST_RESETS + 1 == len(ledger.resets)


# --- killed processes ----------------------------------------------------------------


class Killed:
    """A board's process on one TCP port, killed and started again.

    Attributes:
        url: Its port.
    """

    def __init__(self, program: Path) -> None:
        self._command = [str(program), "--tcp", "0"]
        self._child = self._start()
        self.url = self._line
        self._command[-1] = self.url.rpartition(":")[2]

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        child = subprocess.Popen(self._command, stdin=pipe, stdout=pipe)
        assert child.stdout is not None
        self._line = child.stdout.readline().decode().split()[-1]
        return child

    def restart(self) -> None:
        """As if its power had failed for a moment."""
        self.kill()
        self._child = self._start()

    def kill(self) -> None:
        """End it at once."""
        os.kill(self._child.pid, signal.SIGKILL)
        self._child.communicate()


class Killer(Watch):
    """Restarts a board after some answered images."""

    def __init__(self, after: int, restart: Callable[[], None]) -> None:
        self._left, self._restart = after, restart

    def image(self) -> None:
        """Count down."""
        self._left -= 1
        if self._left == 0:
            self._restart()


@HOW
@pytest.mark.parametrize("after", [2, IMAGES, 2 * IMAGES - 1])
def test_a_process_that_is_killed_and_restarted(
    setup: Setup, how: str, after: int
) -> None:
    """With all that it had learnt gone the result is still the same."""
    ledger, board = Ledger(), Killed(setup.build.executable)
    try:
        watch = Killer(after, board.restart)
        assert setup.sound[how] == stream(setup, board.url, how, ledger, watch=watch)
    finally:
        board.kill()
    assert 1 == len(ledger.resets)


@HOW
def test_a_board_that_was_started_here_is_started_anew(setup: Setup, how: str) -> None:
    """Without a port: the process is the session's own."""
    ledger = Ledger()

    def kill() -> None:
        os.kill(_child_of(os.getpid(), setup.build.executable), signal.SIGKILL)

    watch = Killer(IMAGES + 2, kill)
    assert setup.sound[how] == stream(setup, None, how, ledger, watch=watch)
    assert 1 == len(ledger.resets)


def _child_of(parent: int, program: Path) -> int:
    """A child of this process that runs ``program`` on a pty."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0")
            of = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if of == parent and words[:2] == [os.fsencode(program), b"--pty"]:
                return int(folder.name)
    raise AssertionError("the board is not there")


# --- any faults ------------------------------------------------------------------

KINDS: tuple[Kind, ...] = (
    *("drop", "corrupt", "truncate", "duplicate", "reorder", "insert", "delay"),
    *("disconnect", "disconnect"),
)
LOG = b"Guru Meditation Error: Core  0 panic'ed (LoadProhibited)\r\n\0"
faults = st.lists(
    st.builds(
        Fault,
        st.sampled_from(KINDS),
        st.integers(0, 30 * FRAME),
        st.integers(1, 5 * FRAME),
        seconds=st.floats(0, 0.05),
        text=st.sampled_from([b"\0", LOG]),
    ),
    max_size=4,
).map(lambda drawn: sorted(drawn, key=lambda fault: fault.at))
plans = st.lists(faults, max_size=3)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],  # another's load fails no test
)
@given(how=st.sampled_from(sorted(MODES)), to_board=plans, to_host=plans)
def test_a_resumed_result_is_right_or_none(
    setup: Setup, how: str, to_board: list[list[Fault]], to_host: list[list[Fault]]
) -> None:
    """Whatever the faults of each connection: a sound line's result, or infra.

    What was entered before the end is a sound line's, too.
    """
    ledger = Ledger()
    with (
        suppress(InfraError),
        FaultProxy(setup.port, to_board=to_board, to_host=to_host) as proxy,
    ):
        assert setup.sound[how] == stream(setup, proxy.url, how, ledger)
    whole = setup.sound[how][0]
    for entry, (label, logits) in zip(ledger.entries, whole, strict=False):
        answered = [reply.logits.tolist() for reply in entry.replies]
        assert (label, logits[: len(answered)]) == (entry.step.label, answered)
