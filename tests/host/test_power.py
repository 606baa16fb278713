"""Energy per image, with ppk2lab's simulated Power Profiler Kit II."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_session import FakeSession, fake_open_session
from small_model import make_images, write_data, write_model

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact
from refoldc.pipeline import compile_model

from refold import runner
from refold.build import Build
from refold.device import Reply
from refold.errors import InfraError, UserError
from refold.power.energy import Edges, Pulses, Samples, mj_per_ua
from refold.power.ppk2 import Ppk2, Spec, open_meter, parse
from refold.power.recorder import Recorder, recording
from refold.result import Result
from refold.runner import RunOptions, run

ppk2lab = pytest.importorskip("ppk2lab", reason="the test extra brings ppk2lab")

SPEC = Spec("", 3300, False)
HZ = 100_000
IDLE_UA, INFER_UA, ADAPT_UA = 5_000.0, 80_000.0, 60_000.0
INFER, ADAPT = 1, 3
"""Levels of D1 and D0: adaptation lies within an inference."""
TOLERANCE = 0.01
"""The simulated instrument has ten bits a range."""
RATE_HZ = 20_000
"""Samples a second of real time; unlimited ones would queue up before a slow reader."""


class Board:
    """What the instrument sees: current and levels, as if of a board.

    Attributes:
        due: Runs of samples to come: current, levels, count. Then it is idle.
    """

    def __init__(self) -> None:
        self.due: deque[tuple[float, int, int]] = deque()

    def sample(self, index: int) -> tuple[float, int]:
        """Of one sample (ppk2lab's Profile)."""
        if not self.due:
            return IDLE_UA, 0
        current, logic, left = self.due.popleft()
        if left > 1:
            self.due.appendleft((current, logic, left - 1))
        return current, logic

    def image(self, samples: int = 200, adapt: int = 50) -> None:
        """Let it run an image, which takes so long, so much of it adaptation.

        All of it in one step: the instrument samples in another thread, and an image
        of which only a part was due would look like two.
        """
        pause = (IDLE_UA, 0, 20)
        whole = [pause, (INFER_UA, INFER, samples - adapt)]
        if adapt:
            whole.append((ADAPT_UA, ADAPT, adapt))
        self.due.extend([*whole, pause])


def image_mj(samples: int = 200, adapt: int = 50) -> float:
    """The energy of such an image: amperes x volts x seconds, in millijoules."""
    charge = INFER_UA * (samples - adapt) + ADAPT_UA * adapt
    return charge * 1e-6 * 3.3 / HZ * 1e3


# --- pulses -----------------------------------------------------------------------


def block(start: int, *runs: tuple[float, int, int]) -> Samples:
    """Samples in runs of current, levels and count."""
    current = np.concatenate([np.full(n, c) for c, _, n in runs])
    logic = np.concatenate([np.full(n, level, np.uint8) for _, level, n in runs])
    return Samples(start, current, logic)


def test_a_pulse_is_the_sum_of_its_samples() -> None:
    """10 mA at 3.3 V for 100 samples of 10 us are 33 uJ."""
    pulses = Pulses(0, mj_per_ua(3300, HZ))
    pulses.add(block(0, (1.0, 0, 5), (10_000.0, 1, 100), (1.0, 0, 5)))
    assert [pytest.approx(0.033)] == pulses.energies


def test_blocks_may_cut_pulses_anywhere() -> None:
    """The sum goes on in the next block."""
    whole, cut = Pulses(0, 1.0), Pulses(0, 1.0)
    samples = block(0, (1.0, 0, 5), (2.0, 1, 7), (1.0, 0, 3), (3.0, 3, 2), (1.0, 2, 4))
    whole.add(samples)
    for i in range(len(samples.logic)):
        cut.add(Samples(i, samples.current_ua[i : i + 1], samples.logic[i : i + 1]))
    assert [14.0, 6.0] == whole.energies == cut.energies


def test_a_pulse_without_beginning_is_none() -> None:
    """The instrument may be switched on in the middle of one."""
    pulses = Pulses(1, 1.0)
    pulses.add(block(0, (9.0, 2, 4), (1.0, 0, 2), (2.0, 2, 3), (1.0, 0, 1)))
    assert [6.0] == pulses.energies


def test_lost_samples_spoil_their_pulse_alone() -> None:
    """It counts as a pulse and has no energy."""
    pulses = Pulses(0, 1.0)
    pulses.add(block(0, (1.0, 0, 2), (2.0, 1, 3)))
    pulses.add(block(9, (2.0, 1, 3), (1.0, 0, 2), (2.0, 1, 1), (1.0, 0, 1)))
    assert [True, False] == np.isnan(pulses.energies).tolist()
    assert 2.0 == pulses.energies[1]


def test_edges_split_the_energy() -> None:
    """Each has its sample and what was spent since the one before, wherever cut."""
    samples = block(0, (1.0, 4, 5), (2.0, 0, 2), (3.0, 5, 4), (4.0, 1, 3), (5.0, 4, 2))
    whole, cut = Edges(2, 1.0), Edges(2, 1.0)
    whole.add(samples)
    for i in range(len(samples.logic)):
        cut.add(Samples(i, samples.current_ua[i : i + 1], samples.logic[i : i + 1]))
    assert [5, 11] == [edge.sample for edge in whole.found]
    assert np.isnan(whole.found[0].mj)
    assert 2 * 2.0 + 4 * 3.0 == whole.found[1].mj
    assert str(whole.found) == str(cut.found)


def test_a_low_level_at_the_start_is_no_edge() -> None:
    """The instrument may be switched on within a pulse."""
    edges = Edges(2, 1.0)
    edges.add(block(0, (1.0, 0, 3), (1.0, 4, 3)))
    assert [] == edges.found


def test_lost_samples_spoil_the_energy_between_two_edges() -> None:
    """That of the next two is known again."""
    edges = Edges(2, 1.0)
    edges.add(block(0, (1.0, 4, 2), (1.0, 0, 1), (1.0, 4, 3)))
    edges.add(block(9, (1.0, 0, 1), (1.0, 4, 3), (1.0, 0, 1)))
    assert [2, 9, 13] == [edge.sample for edge in edges.found]
    assert [True, True, False] == [bool(np.isnan(edge.mj)) for edge in edges.found]


# --- the instrument ---------------------------------------------------------------


def simulated(board: Board, **faults: Any) -> Any:
    """An open simulated instrument that watches ``board``."""
    from ppk2lab.transport.mock import SimulatedPPK2

    simulator = SimulatedPPK2(
        profile=board, max_samples_per_read=1000, rate_limit_hz=RATE_HZ, **faults
    )
    return simulator, ppk2lab.PPK2.open(simulator=simulator)


def test_the_energy_of_images_is_measured() -> None:
    """Of an inference, and of the adaptation within it."""
    board = Board()
    _, device = simulated(board)
    with device, recording(Ppk2(device, SPEC)) as recorder:
        mark = recorder.mark()
        for _ in range(5):
            board.image()
        energy = recorder.take(mark, 5)
    assert energy is not None
    assert energy.image_mj == pytest.approx(image_mj(), rel=TOLERANCE)
    adapt = ADAPT_UA * 1e-6 * 3.3 * 50 / HZ * 1e3
    assert energy.adapt_mj == pytest.approx(adapt, rel=TOLERANCE)


def test_power_is_given_only_where_it_was_asked_for() -> None:
    """A board with its own supply must not get another."""
    for supplies, mode in ((False, ppk2lab.Mode.AMPERE), (True, ppk2lab.Mode.SOURCE)):
        simulator, device = simulated(Board())
        with device:
            Ppk2(device, Spec("", 3000, supplies))
            assert (supplies, mode, 3000) == (
                simulator.dut_power,
                simulator.mode,
                simulator.vdd_mv,
            )
        assert not simulator.dut_power


def test_a_wire_that_is_off_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Where the pulses are not as many as the images there is no energy."""
    board = Board()
    _, device = simulated(board)
    with device, recording(Ppk2(device, SPEC)) as recorder:
        recorder_settles_at_once(recorder)
        mark = recorder.mark()
        board.image()
        assert recorder.take(mark, 2) is None
    assert "check the wire from the board's pin to D0" in caplog.text


def recorder_settles_at_once(recorder: Recorder) -> None:
    """Do not wait for what will not come."""
    recorder._changed.wait_for = lambda predicate, _: predicate()  # type: ignore[method-assign]


def test_an_instrument_that_is_unplugged_is_infrastructure() -> None:
    """It ends the recording, and says so."""
    simulator, device = simulated(Board())
    with recording(Ppk2(device, SPEC)) as recorder:
        simulator.unplug()
        recorder.take(recorder.mark(), 1)
        with pytest.raises(InfraError, match=r"the PPK2 was lost: .*check its cable"):
            recorder.require_meter()


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("ppk2:/dev/ttyACM1", Spec("/dev/ttyACM1", 3300, False)),
        ("ppk2:", Spec("", 3300, False)),
        ("ppk2:COM5;supply=meter;mv=5000", Spec("COM5", 5000, True)),
    ],
)
def test_the_option_is_read(text: str, spec: Spec) -> None:
    """Port, voltage and who supplies the board."""
    assert spec == parse(text)


@pytest.mark.parametrize(
    "text", ["ppk", "ppk2:x;mv=9000", "ppk2:x;volts=3", "ppk2:x;supply=usb", "joule:x"]
)
def test_a_wrong_option_names_the_right_form(text: str) -> None:
    """With the range of voltages."""
    with pytest.raises(UserError, match=r"expected ppk2:PORT\[;mv=3300\]"):
        parse(text)


def test_without_the_library_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The core installs without it."""
    monkeypatch.setitem(sys.modules, "ppk2lab", None)
    with pytest.raises(UserError, match=r"refold\[power\]"), open_meter("ppk2:x"):
        pass


def test_a_port_without_instrument_is_told(tmp_path: Path) -> None:
    """By its name."""
    text = f"ppk2:{tmp_path / 'none'}"
    with pytest.raises(UserError, match="connect the instrument"), open_meter(text):
        pass


def test_without_a_meter_nothing_is_measured() -> None:
    """And nobody waits."""
    with open_meter(None) as meter, recording(meter) as recorder:
        assert recorder.take(recorder.mark(), 3) is None


# --- a run ------------------------------------------------------------------------


class RunningBoard:
    """Answers any image with zeros; ``seen`` takes energy, and more under forge."""

    port = "fake"

    def __init__(
        self, seen: Board, unplug: Callable[[], None], lose_at: int | None
    ) -> None:
        self._seen, self._unplug, self._lose_at = seen, unplug, lose_at
        self._adapt = 0

    def hello(self) -> SimpleNamespace:
        return SimpleNamespace(chip="fake")

    def begin(self, config: AdaptConfig, *, keep_state: bool = False) -> None:
        self._adapt = 0 if config.method == "off" else 50

    def run(self, images: Iterable[bytes]) -> Iterator[Reply]:
        for index, _ in enumerate(images):
            self._seen.image(adapt=self._adapt)
            if index == self._lose_at:
                self._unplug()
            zeros = np.zeros(4, np.int32)
            yield Reply(index, zeros, 9, 1, 0, np.float32(0), False, None, 1, 0)

    def confirm(self) -> None:
        """It never restarts."""

    def read_state(self) -> bytes:
        return b""


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """Compile the small network."""
    folder = tmp_path_factory.mktemp("compiled")
    model = write_model(folder / "small.onnx")
    return compile_model(model, make_images(64), folder / "small.refold")


@pytest.fixture
def measured(
    artefact: Artefact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Callable[[], Result]]:
    """Return what makes a run that an instrument watches, up to an image."""

    def make(lose_at: int | None = None) -> Callable[[], Result]:
        seen = Board()
        simulator, device = simulated(seen)

        def open_session(*_: Any, **__: Any) -> AbstractContextManager[FakeSession]:
            return fake_open_session(RunningBoard(seen, simulator.unplug, lose_at))

        built = Build(Path("none"), "00" * 8, None, Path("none"), (0,))
        monkeypatch.setattr(runner, "open_session", open_session)
        monkeypatch.setattr(runner, "build", lambda *_: built)
        monkeypatch.setattr(ppk2lab.PPK2, "open", lambda **_: device)
        data = write_data(tmp_path / "small.npz", 8)
        options = RunOptions(
            data=data, corruptions="fog", check=False, power="ppk2:/dev/ttyACM9"
        )
        return lambda: run(artefact.path, options)

    return make


def test_a_run_has_the_energy_of_each_stream(
    measured: Callable[..., Callable[[], Result]],
) -> None:
    """``energy_mj`` is a mean image's; adaptation costs only where it runs."""
    result = measured()()
    assert "pass" == result.verdict
    off, forge = result.runs
    for found, adapt in ((off, 0), (forge, 50)):
        expected = pytest.approx(image_mj(adapt=adapt), rel=TOLERANCE)
        assert [expected, expected] == [s.energy_mj for s in found.streams]
    assert [0.0, 0.0] == [s.adapt_energy_mj for s in off.streams]
    assert all(s.adapt_energy_mj for s in forge.streams)


def test_a_lost_instrument_ends_the_run_as_infra(
    measured: Callable[..., Callable[[], Result]],
) -> None:
    """What was asked for cannot be given; the replies so far are kept."""
    result = measured(lose_at=5)()
    assert ("infra", False) == (result.verdict, result.complete)
    assert "the PPK2 was lost" in result.reasons[0]
    assert [8] == [s.images for s in result.runs[0].streams]
