"""MLPerf Tiny's energy mode: the native board, and an instrument that sees its pin."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

import pytest

from refoldc.artefact import Artefact

from refold.boards import load_board
from refold.build import build
from refold.cli import status
from refold.errors import InfraError, UserError
from refold.mlperf.dut import Dut, open_dut
from refold.mlperf.energy import Instrument
from refold.mlperf.run import MlperfOptions, run_mlperf
from refold.power.energy import Edge
from refold.process import spawn

ppk2lab = pytest.importorskip("ppk2lab", reason="the test extra brings ppk2lab")

WINDOW_S = 0.02
HZ, SAMPLE_US = 100_000, 10
REST_UA, WORK_UA = 5_000.0, 80_000.0
HIGH, LOW = 0b100, 0
"""Levels of D2."""
PULSE = 3
"""Samples that an edge's pulse is low."""
STEP = 200
"""Samples at rest before the pin's file is read again."""
WAIT_S = 30.0
TOLERANCE = 0.01
"""The simulated instrument has ten bits a range."""
RATE_HZ = 20_000
"""Samples a second of real time; unlimited ones would queue up before a slow reader."""


class Watched:
    """Current and level of the native board's pin (ppk2lab's Profile).

    The pin's file tells the times of its falling edges: at the board's start, at the
    check of the wire, then before and after each row of inferences.
    """

    def __init__(self, pin: TextIO) -> None:
        self._pin = pin
        self._due = self._samples()

    def sample(self, index: int) -> tuple[float, int]:
        """The next sample; they are asked for in order."""
        return next(self._due)

    def _samples(self) -> Iterator[tuple[float, int]]:
        number = 0
        yield REST_UA, HIGH
        while True:
            edge = self._edge()
            if edge is None:
                yield from STEP * [(REST_UA, HIGH)]
                continue
            yield from PULSE * [(WORK_UA, LOW)]
            number += 1
            if number > 2 and number % 2:
                count = samples_of(self._next_edge() - edge)
                number += 1
                yield from (count - PULSE) * [(WORK_UA, HIGH)]
                yield from PULSE * [(REST_UA, LOW)]
            yield REST_UA, HIGH

    def _edge(self) -> int | None:
        line = self._pin.readline()
        return int(line) if line else None

    def _next_edge(self) -> int:
        end = time.monotonic() + WAIT_S
        while (edge := self._edge()) is None:
            assert time.monotonic() < end, "the board ends no inference"
        return edge


def samples_of(us: int) -> int:
    """How many samples lie between two edges; some of them high."""
    return max(round(us / SAMPLE_US), PULSE + 1)


@pytest.fixture
def pin(tmp_path: Path) -> Path:
    """The file that stands for the board's pin."""
    (tmp_path / "pin").touch()
    return tmp_path / "pin"


@pytest.fixture
def port(artefact: Artefact, pin: Path) -> Iterator[str]:
    """A device in energy mode."""
    board = str(build(artefact.path, load_board("native")).executable)
    words = (board, "--pty", "--mlperf", "ic01", "--mlperf-pin", str(pin))
    with spawn(words) as url:
        yield url


@pytest.fixture
def watched(pin: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let ``--power`` open an instrument that sees the pin."""
    from ppk2lab.transport.mock import SimulatedPPK2

    with pin.open(encoding="ascii") as lines:
        simulator = SimulatedPPK2(profile=Watched(lines), rate_limit_hz=RATE_HZ)
        device = ppk2lab.PPK2.open(simulator=simulator)
        monkeypatch.setattr(ppk2lab.PPK2, "open", lambda **_: device)
        yield


def options(port: str | None, **changes: Any) -> MlperfOptions:
    """Return those of a run in energy mode."""
    fields = {"data": "digits", "window_s": WINDOW_S, "power": "ppk2:", **changes}
    return MlperfOptions(port=port, **fields)


def edge_times(pin: Path) -> list[int]:
    """Return the microseconds of all edges."""
    return [int(line) for line in pin.read_text().split()]


@pytest.mark.usefixtures("watched")
def test_energy_is_measured_between_the_edges(
    artefact: Artefact, port: str, pin: Path
) -> None:
    """Five windows of the least length, their median, and the host model's answers."""
    result = run_mlperf(artefact.path, options(port))
    assert ("pass", None, None) == (
        result.verdict,
        result.accuracy,
        result.performance,
    )
    energy = result.energy
    assert energy is not None
    assert (0, 5) == (energy.differing, len(energy.windows))
    _, _, *times = edge_times(pin)
    shown = {
        SAMPLE_US * samples_of(end - start)
        for start, end in zip(times[::2], times[1::2], strict=True)
    }
    for window in energy.windows:
        assert window.us >= 1e6 * WINDOW_S
        assert window.us in shown
        work_uj = WORK_UA * 1e-6 * 3.3 * window.us
        assert window.uj == pytest.approx(work_uj, rel=TOLERANCE)
    each = sorted(window.uj / window.inferences for window in energy.windows)
    assert each[2] == pytest.approx(energy.inference_uj)
    assert energy.power_mw == pytest.approx(WORK_UA * 1e-3 * 3.3, rel=TOLERANCE)


@pytest.mark.usefixtures("watched")
def test_the_command_shows_and_writes_energy(
    artefact: Artefact,
    port: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--power runs the energy mode instead of the two others."""
    monkeypatch.setattr(
        "refold.cli.run.MlperfOptions",
        lambda **fields: MlperfOptions(**fields, window_s=WINDOW_S),
    )
    file = tmp_path / "energy.json"
    words = ["run", str(artefact.path), "--data", "digits", "--port", port]
    words += ["--protocol", "mlperf-tiny", "--power", "ppk2:", "--json", str(file)]
    assert 0 == status(words)
    assert "median energy, uJ/inference" in capsys.readouterr().out
    found = json.loads(file.read_text())
    assert (None, None, 5) == (
        found["accuracy"],
        found["performance"],
        len(found["energy"]["windows"]),
    )


def test_timestamps_are_edges_and_no_text(port: str, pin: Path) -> None:
    """One at the start, one a command, two around the inferences and none elsewhere."""
    with open_dut(port) as dut:
        assert 1 == len(edge_times(pin))
        dut.mark_time()
        assert 2 == len(edge_times(pin))
        dut.load(bytes(576))
        assert 10 == len(dut.infer_silently(3, 2))
        assert 4 == len(edge_times(pin))
        with pytest.raises(InfraError, match="build it for performance"):
            dut.infer(1)


def test_firmware_in_performance_mode_is_told(artefact: Artefact) -> None:
    """What to build is in the message."""
    board = str(build(artefact.path, load_board("native")).executable)
    with spawn((board, "--pty", "--mlperf", "ic01")) as url, open_dut(url) as dut:
        with pytest.raises(InfraError, match="CONFIG_REFOLD_PIN_TIMESTAMP"):
            dut.mark_time()
        dut.load(bytes(576))
        with pytest.raises(InfraError, match="performance mode"):
            dut.infer_silently(1)


def test_a_process_takes_no_power_of_its_own(artefact: Artefact) -> None:
    """The board to be measured is named by its port; nothing is started."""
    with pytest.raises(UserError, match=r"and name\s+its --port"):
        run_mlperf(artefact.path, options(None, power="ppk2:/dev/none"))


class Silent(Dut):
    """A device whose answers are always the same."""

    def __init__(self) -> None:
        self.url = "fake"

    def mark_time(self) -> None:
        pass

    def infer_silently(self, images: int, warmups: int = 0) -> tuple[float, ...]:
        return (1.0,)


class Seen:
    """A recorder that sees given edges at every wait."""

    def __init__(self, *edges: Edge) -> None:
        self._edges = edges

    def edges(self) -> int:
        return 7

    def await_edges(self, since: int, count: int) -> tuple[Edge, ...]:
        assert 7 == since
        return self._edges


class Meter:
    """An instrument of which only the rate counts."""

    sample_hz = HZ


def instrument(*edges: Edge) -> Instrument:
    """Return one that sees these edges."""
    return Instrument(Silent(), Meter(), Seen(*edges))  # type: ignore[arg-type]


def test_a_window_is_the_time_and_energy_from_edge_to_edge() -> None:
    """The energy before the first edge is none of it."""
    window = instrument(Edge(100, 99.0), Edge(300, 2.0)).measure(4, 0)
    assert (4, 2000, 2000.0) == (window.inferences, window.us, window.uj)
    assert (500.0, 1000.0) == (window.inference_uj, window.power_mw)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ((), "saw 0 timestamps of the 2"),
        ((Edge(1, 0.0),), "saw 1 timestamps"),
        ((Edge(1, 0.0), Edge(9, 1.0), Edge(11, 1.0)), "saw 3 timestamps"),
        ((Edge(1, 0.0), Edge(9, float("nan"))), "lost samples within a window"),
    ],
)
def test_what_was_not_seen_is_not_guessed(
    edges: tuple[Edge, ...], message: str
) -> None:
    """Infrastructure, with what to check."""
    with pytest.raises(InfraError, match=message):
        instrument(*edges).measure(1, 0)


def test_the_wire_is_checked_first() -> None:
    """A timestamp that does not arrive is told before any window."""
    instrument(Edge(1, 0.0)).check_wire()
    with pytest.raises(InfraError, match="check the wire from its pin to D2"):
        instrument().check_wire()
