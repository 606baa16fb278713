"""Faults on a line: what each does, and that the firmware and the host survive it.

The board is real firmware that adapts, so that an image seen twice, or not at all,
shows in its state.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_model import make_images, write_model

from refoldc.adapt import AdaptConfig
from refoldc.pipeline import compile_model

from refold.board_session import connect
from refold.boards import Board, load_board
from refold.build import Build, build
from refold.device import Patience
from refold.errors import InfraError
from refold.fault_proxy import FaultProxy
from refold.faults import BOOT_LOG, Disturbance, Fault, Kind, random_faults
from refold.process import spawn

IMAGES = 8
CONFIG = AdaptConfig(gate=False, momentum=0.5)
PATIENT = Patience(first_s=0.03, image_s=30.0)
HASTY = Patience(first_s=0.02, image_s=1.0)
FRAME = 90
"""About the bytes of an image on the wire."""


# --- what each kind does to bytes --------------------------------------------------


@pytest.mark.parametrize("sizes", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("fault", "arrives"),
    [
        (Fault("drop", 2, 3), b"01567\x0089"),
        (Fault("corrupt", 2, 2), b"016745" + b"67\x0089"),
        (Fault("truncate", 5, 6), b"01234\x0089"),
        (Fault("duplicate", 1, 3), b"0123123" + b"4567\x0089"),
        (Fault("reorder", 1, 4), b"034125" + b"67\x0089"),
        (Fault("insert", 3, text=b"boot"), b"012boot34567\x0089"),
        (Fault("delay", 3, seconds=2), b"01234567\x0089"),
        (Fault("drop", 100), b"01234567\x0089"),
    ],
    ids=lambda value: getattr(value, "kind", None),
)
def test_a_fault_of_each_kind(fault: Fault, arrives: bytes, sizes: int) -> None:
    """It does the same wherever reads cut the bytes."""
    waited: list[float] = []
    line = Disturbance([fault], waited.append)
    sent = b"01234567\x0089"
    pieces = [sent[i : i + sizes] for i in range(0, len(sent), sizes)]
    assert arrives == b"".join(b"".join(line.carry(piece)) for piece in pieces)
    assert [2] * (fault.kind == "delay") == waited
    assert (fault.at < len(sent)) == bool(line.happened)


def test_a_cut_lets_earlier_bytes_pass() -> None:
    """What came before the place of the fault still arrives."""
    line = Disturbance([Fault("disconnect", 2)])
    arriving = line.carry(b"0123")
    assert b"01" == next(arriving)
    with pytest.raises(ConnectionResetError):
        next(arriving)


def test_random_faults_are_seeded_and_of_the_rate() -> None:
    """The same seed gives the same faults, about as many as asked for."""
    kinds: list[Kind] = ["drop", "corrupt"]
    first = list(islice(random_faults(3, 1e-3, kinds, most=4), 500))
    assert first == list(islice(random_faults(3, 1e-3, kinds, most=4), 500))
    assert {"drop", "corrupt"} == {fault.kind for fault in first}
    assert 400_000 < first[-1].at < 600_000
    assert all(b.at >= a.at + a.count for a, b in pairwise(first))


# --- a board behind them -----------------------------------------------------------


@dataclass(frozen=True)
class Setup:
    """A running board and what it answers over a sound line.

    Attributes:
        logits: Of each image.
        states: The adaptation state before any image and after each.
    """

    board: Board
    build: Build
    port: str
    images: list[bytes]
    logits: list[list[int]]
    states: list[bytes]


@pytest.fixture(scope="module")
def setup(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setup]:
    """One board for all tests of this module."""
    folder = tmp_path_factory.mktemp("faults")
    images = make_images(IMAGES)
    artefact = compile_model(write_model(folder / "m.onnx"), images, folder / "a")
    board = load_board("native")
    built = build(artefact.path, board)
    with spawn([str(built.executable), "--tcp", "0"]) as port:
        sound = Setup(board, built, port, [i.tobytes() for i in images], [], [])
        with connect(board, built, port) as device:
            device.begin(CONFIG)
            sound.states.append(device.read_state())
            for image in sound.images:
                (reply,) = device.run([image])
                sound.logits.append(reply.logits.tolist())
                sound.states.append(device.read_state())
        yield sound


def stream(setup: Setup, url: str, patience: Patience) -> tuple[list[list[int]], bytes]:
    """Logits and final state of a whole stream through ``url``."""
    with connect(setup.board, setup.build, url, patience=patience) as device:
        device.begin(CONFIG)
        replies = list(device.run(setup.images))
        return [reply.logits.tolist() for reply in replies], device.read_state()


def state_now(setup: Setup) -> bytes:
    """The board's state, asked for over a sound line."""
    with connect(setup.board, setup.build, setup.port) as device:
        return device.read_state()


def test_states_tell_images_apart(setup: Setup) -> None:
    """What the tests below compare changes with every image."""
    assert IMAGES + 1 == len(set(setup.states))


@pytest.mark.parametrize("towards", ["board", "host"])
@pytest.mark.parametrize(
    "fault",
    [
        Fault("drop", 5 * FRAME, 3),
        Fault("corrupt", 5 * FRAME, 3),
        Fault("truncate", 5 * FRAME, FRAME),
        Fault("duplicate", 4 * FRAME, 2 * FRAME),
        Fault("reorder", 4 * FRAME, 2 * FRAME),
        Fault("insert", 5 * FRAME),
        Fault("delay", 5 * FRAME, seconds=0.1),
    ],
    ids=lambda fault: fault.kind,
)
def test_one_fault_changes_nothing(setup: Setup, fault: Fault, towards: str) -> None:
    """Logits and adaptation state are those of a sound line."""
    plans = {f"to_{towards}": [[fault]]}
    with FaultProxy(setup.port, **plans) as proxy:
        logits, state = stream(setup, proxy.url, PATIENT)
        assert 1 == proxy.faults
    assert setup.logits == logits
    assert setup.states[-1] == state


@pytest.mark.parametrize("towards", ["board", "host"])
def test_a_cut_is_infrastructure_and_the_next_run_is_sound(
    setup: Setup, towards: str
) -> None:
    """No image was seen twice till then; the same port serves the run after it."""
    plans = {f"to_{towards}": [[Fault("disconnect", 6 * FRAME)]]}
    with FaultProxy(setup.port, **plans) as proxy:
        with pytest.raises(InfraError, match="vanished"):
            stream(setup, proxy.url, PATIENT)
        assert state_now(setup) in setup.states
        assert (setup.logits, setup.states[-1]) == stream(setup, proxy.url, PATIENT)


KINDS: tuple[Kind, ...] = (
    *("drop", "corrupt", "truncate", "duplicate", "reorder", "insert", "delay"),
    "disconnect",
)
faults = st.lists(
    st.builds(
        Fault,
        st.sampled_from(KINDS),
        st.integers(0, 15 * FRAME),
        st.integers(1, 4 * FRAME),
        seconds=st.floats(0, 0.05),
        text=st.sampled_from([BOOT_LOG, b"\0", b"Guru Meditation Error\r\n\0"]),
    ),
    max_size=6,
).map(lambda drawn: sorted(drawn, key=lambda fault: fault.at))


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],  # another's load fails no test
)
@given(to_board=faults, to_host=faults)
def test_a_result_is_right_or_none(
    setup: Setup, to_board: list[Fault], to_host: list[Fault]
) -> None:
    """Whatever the faults: the sound line's result, or infrastructure at fault.

    Either way the board has seen the first images of the stream once each.
    """
    with (
        contextlib.suppress(InfraError),
        FaultProxy(setup.port, to_board=[to_board], to_host=[to_host]) as proxy,
    ):
        assert (setup.logits, setup.states[-1]) == stream(setup, proxy.url, HASTY)
    assert state_now(setup) in setup.states
