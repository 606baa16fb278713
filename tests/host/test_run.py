"""Runs: what is streamed, checked, kept and judged, with a board in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from fake_session import FakeSession
from models import ModelBuilder
from msgspec import structs
from small_model import make_images, write_data, write_model

import refoldc
from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model
from refoldc.reference import Reference

import refold
from refold import check, runner
from refold.baseline import Baseline, Tolerances
from refold.build import Build
from refold.cli import INTERRUPTED
from refold.cli.run import exit_code
from refold.device import Reply
from refold.errors import InfraError, UserError
from refold.phase import Phase
from refold.result import Result
from refold.runner import RunOptions, run
from refold.schedule import Schedule

COUNT = 24


class HostBoard:
    """A device that answers with the host model, or with a fault.

    Attributes:
        die_after: Images after which it is gone, with ``dies_of``.
        lie_at: Image, counted over the run, whose first logit is wrong by one.
        drift: Its saved state is wrong in one bit.
    """

    port = "fake"

    def __init__(self, artefact: Artefact) -> None:
        self._reference = Reference(artefact.qgraph)
        self._shape = artefact.manifest.input.shape
        self._seen = 0
        self.die_after: int | None = None
        self.dies_of: BaseException = InfraError(
            "port fake vanished", "power-cycle the board"
        )
        self.lie_at: int | None = None
        self.drift = False
        self.connections = 0
        self.refuse: Exception | None = None

    def hello(self) -> SimpleNamespace:
        return SimpleNamespace(chip="fake")

    def begin(self, config: AdaptConfig, *, keep_state: bool = False) -> None:
        self._reference.configure(config, keep_state)

    def run(self, images: Iterable[bytes]) -> Iterator[Reply]:
        for index, data in enumerate(images):
            if self._seen == self.die_after:
                raise self.dies_of
            image = np.frombuffer(data, np.uint8).reshape(self._shape)
            outcome = self._reference.infer(image)
            logits = outcome.logits.copy()
            logits[0] += self._seen == self.lie_at
            self._seen += 1
            _, score, adapted, gate, passes = outcome
            yield Reply(index, logits, 100, 10, 0, score, adapted, gate, passes, 0)

    def confirm(self) -> None:
        """It never restarts."""

    def read_state(self) -> bytes:
        state = bytearray(self._reference.save_state())
        state[-1] ^= self.drift
        return bytes(state)


class Inline:
    """An executor that runs a task when it is submitted."""

    def submit(self, task: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(task(*arguments))
        return future


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """Compile the small network."""
    folder = tmp_path_factory.mktemp("compiled")
    model = write_model(folder / "small.onnx")
    return compile_model(model, make_images(64), folder / "small.refold")


@pytest.fixture
def board(artefact: Artefact, monkeypatch: pytest.MonkeyPatch) -> HostBoard:
    """Put a board in Python, and checking in this process, in the runner's way."""
    device = HostBoard(artefact)

    @contextmanager
    def open_session(*_: Any, **__: Any) -> Iterator[FakeSession]:
        device.connections += 1
        if device.refuse:
            raise device.refuse
        yield FakeSession(device)

    @contextmanager
    def checking(_: Path, *, twin: Path | None) -> Iterator[check.Checker]:
        assert twin is None, "the board in Python has no PACE"
        yield check.Checker(Inline())  # type: ignore[arg-type]

    built = Build(Path("none"), "00" * 8, None, Path("none"), (0,))
    monkeypatch.setattr(runner, "open_session", open_session)
    monkeypatch.setattr(runner, "checking", checking)
    monkeypatch.setattr(runner, "build", lambda *_: built)
    model = Reference(artefact.qgraph)
    monkeypatch.setattr(check, "_reference", model, raising=False)
    return device


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write 24 clean and 24 foggy images."""
    return write_data(tmp_path_factory.mktemp("data") / "small.npz", COUNT)


def stream(artefact: Artefact, data: str, /, **changes: Any) -> Result:
    """Run clean and fog under off and forge; ``changes`` replace options."""
    options = {"data": data, "corruptions": "fog", **changes}
    return run(artefact.path, RunOptions(**options))


def test_every_mode_sees_every_stream(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """Clean comes first; all replies are checked and equal the host model."""
    result = stream(artefact, data)
    found = [
        (r.adapt, s.corruption, s.severity, s.images, s.parity_mismatches)
        for r in result.runs
        for s in r.streams
    ]
    expected = [
        ("off", "clean", 0, COUNT, 0),
        ("off", "fog", 5, COUNT, 0),
        ("forge", "clean", 0, COUNT, 0),
        ("forge", "fog", 5, COUNT, 0),
    ]
    assert expected == found
    assert ("pass", True, {"forge"}) == (
        result.verdict,
        result.complete,
        set(result.gain),
    )


def test_the_result_describes_model_board_and_data(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """What ran is in the result."""
    result = stream(artefact, data, images=8, schedule=Schedule(seed=7))
    assert artefact.manifest.model.sha256 == result.model.sha256
    assert (1, 6) == (result.model.sites, result.model.site_channels)
    assert ("native", "fake", "00" * 8, "fake") == (
        result.board.id,
        result.board.chip,
        result.board.build,
        result.board.port,
    )
    assert (data, 8, 5, 7) == (
        result.data.spec,
        result.data.images,
        result.data.severity,
        result.data.seed,
    )


def test_adaptation_counts_only_where_it_runs(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """``adapted_images`` is zero off and every image under forge."""
    off, forge = stream(artefact, data).runs
    assert [0, 0] == [s.adapted_images for s in off.streams]
    assert [COUNT, COUNT] == [s.adapted_images for s in forge.streams]


@pytest.mark.parametrize("mode", ["forge:stats=exact", "forge:rule=published", "off"])
@pytest.mark.parametrize("how", ["reset", "continual"])
def test_parity_holds_under_every_mode(
    mode: str, how: Any, artefact: Artefact, data: str, board: HostBoard
) -> None:
    """The check follows the device's configuration and kept state."""
    result = stream(artefact, data, adapt=mode, schedule=Schedule(stream=how))
    assert [0, 0] == [s.parity_mismatches for s in result.runs[0].streams]
    assert mode == result.runs[0].adapt


def test_one_wrong_bit_fails_the_run(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """A single logit off by one is a mismatch that names stream, image, command."""
    board.lie_at = COUNT + 3  # the second step: forge on clean
    result = stream(artefact, data)
    off, forge = result.runs
    assert [0, 0] == [s.parity_mismatches for s in off.streams]
    assert [1, 0] == [s.parity_mismatches for s in forge.streams]
    assert "fail" == result.verdict
    (reason,) = result.reasons
    assert "1 of 24 images" in reason
    assert "stream clean under 'forge', first image 3" in reason
    assert f"refold run {artefact.path} --data" in reason
    assert "--corruptions none --adapt forge --seed 0" in reason


def test_a_state_that_strays_is_a_mismatch(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """The adaptation state after a stream is compared too."""
    board.drift = True
    result = stream(artefact, data, adapt="forge", corruptions="none")
    assert [1] == [s.parity_mismatches for s in result.runs[0].streams]
    assert "first image 23" in result.reasons[0]


def test_a_lost_board_keeps_what_was_answered(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """The run ends as infra, incomplete, with the replies till then, all checked."""
    board.die_after = 2 * COUNT + 5  # in the third step: off on fog
    result = stream(artefact, data)
    off, forge = result.runs
    assert ("infra", False) == (result.verdict, result.complete)
    assert [COUNT, 5] == [s.images for s in off.streams]
    assert [COUNT] == [s.images for s in forge.streams]
    assert [0, 0] == [s.parity_mismatches for s in off.streams]
    reason = "phase stream: port fake vanished; power-cycle the board"
    assert ((reason,), "stream") == (result.reasons, result.phase)
    assert {} == result.gain


def test_a_lost_board_that_also_lied_fails(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """A parity mismatch that was seen is no cable's fault; the phase is still told."""
    board.lie_at, board.die_after = 3, COUNT
    result = stream(artefact, data, adapt="off")
    assert ("fail", False, "stream") == (
        result.verdict,
        result.complete,
        result.phase,
    )
    assert ["parity", "phase stream"] == [r.partition(":")[0] for r in result.reasons]


def test_bounds_of_a_lost_board_are_not_judged(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """What was answered till then is no measurement of the model."""
    board.die_after = COUNT + 1
    result = stream(artefact, data, adapt="off", fail_under=("accuracy>=101",))
    assert ("infra", 1) == (result.verdict, len(result.reasons))


def test_a_run_that_is_whole_has_no_phase(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """Nor has it resets."""
    result = stream(artefact, data, adapt="off")
    assert (None, ()) == (result.phase, result.resets)


def test_a_check_that_is_late_counts_as_none(
    artefact: Artefact,
    data: str,
    board: HostBoard,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The finish phase ends, too: what is not checked then is null, not zero."""
    held: list[Future[Any]] = []

    class Late(Inline):
        def submit(self, task: Callable[..., Any], *arguments: Any) -> Future[Any]:
            held.append(super().submit(task, *arguments))
            return held[-1] if len(held) == 1 else Future()

    @contextmanager
    def late(_: Path, *, twin: Path | None) -> Iterator[check.Checker]:
        yield check.Checker(Late())  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "checking", late)
    result = stream(artefact, data, adapt="off", deadline=2)
    assert ("infra", False, "finish") == (
        result.verdict,
        result.complete,
        result.phase,
    )
    assert [0, None] == [s.parity_mismatches for s in result.runs[0].streams]
    assert "phase finish: the deadline of 2 s has passed" in result.reasons[0]


def test_a_board_that_never_answers_is_infra(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """Failing to connect leaves a result without streams."""
    board.refuse = InfraError("silent", phase=Phase.HELLO)
    result = stream(artefact, data)
    assert ("infra", False, None, "hello") == (
        result.verdict,
        result.complete,
        result.board.port,
        result.phase,
    )
    assert [(), ()] == [r.streams for r in result.runs]


def test_a_wrong_port_is_the_users(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """What the user can mend is raised, not recorded."""
    board.refuse = UserError("no such port")
    with pytest.raises(UserError, match="no such port"):
        stream(artefact, data)


def test_a_missed_bound_fails(artefact: Artefact, data: str, board: HostBoard) -> None:
    """Every bound that is missed is a reason."""
    limits = ("accuracy>=101", "parity==0", "latency_p95_us<=99")
    result = stream(artefact, data, fail_under=limits)
    assert "fail" == result.verdict
    assert 2 == len(result.reasons)


def test_a_run_worse_than_its_baseline_fails(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """What was lost is a reason; a run passes against itself."""
    earlier = stream(artefact, data)
    exact = Tolerances(accuracy=0, latency=1, memory=1)
    same = stream(artefact, data, baseline=Baseline(earlier, exact, "e.json"))
    assert "pass" == same.verdict
    small = structs.replace(earlier.memory, arena_bytes=1)
    smaller = Baseline(structs.replace(earlier, memory=small), exact, "e.json")
    result = stream(artefact, data, baseline=smaller)
    assert "fail" == result.verdict
    (reason,) = result.reasons
    assert "worse than the baseline: arena_bytes is" in reason


def test_a_baseline_of_another_kind_is_found_before_the_board(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """Other images are refused, before anything is streamed."""
    earlier = stream(artefact, data, images=8)
    board.connections = 0
    with pytest.raises(UserError, match="its images is 8, here it is 24"):
        stream(artefact, data, baseline=Baseline(earlier, Tolerances(), "e.json"))
    assert 0 == board.connections


@pytest.mark.parametrize(
    "changes",
    [
        {"fail_under": ("pace.gain>=1",)},
        {"adapt": "forge:b=1"},
        {"corruptions": "frog"},
        {"board": "esp33"},
        {"port": ""},
        {"port": " "},
        {"data": "npz:missing.npz"},
    ],
)
def test_the_users_faults_are_found_before_the_board(
    changes: dict[str, Any], artefact: Artefact, data: str, board: HostBoard
) -> None:
    """Nothing is connected where the input is at fault."""
    with pytest.raises(UserError):
        stream(artefact, data, **changes)
    assert 0 == board.connections


def test_labels_beyond_the_outputs_are_found_before_the_board(
    artefact: Artefact, tmp_path: Path, board: HostBoard
) -> None:
    """Images of another model's classes are refused with both numbers."""
    images = make_images(2)
    np.savez(tmp_path / "other.npz", labels=np.array([3, 4]), clean=images)
    with pytest.raises(UserError, match=r"labels 3\.\.4, the model has 4 outputs"):
        stream(artefact, f"npz:{tmp_path / 'other.npz'}", corruptions="none")
    assert 0 == board.connections


def test_corruptions_made_beside_ready_ones_are_named(
    artefact: Artefact, data: str, board: HostBoard, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that brings fog alone does not pass for the source of the others."""
    stream(artefact, data, corruptions="fog,snow,frost", adapt="off", images=2)
    assert "brings no snow, frost at severity 5: made here" in caplog.text
    caplog.clear()
    stream(artefact, data, corruptions="fog", adapt="off", images=2)
    assert "made here" not in caplog.text


def test_without_checking_parity_is_unknown(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """Null says that nothing was compared."""
    result = stream(artefact, data, check=False)
    found = {s.parity_mismatches for r in result.runs for s in r.streams}
    assert ({None}, "pass") == (found, result.verdict)


def test_segments_and_rounds_reach_the_result(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """A continual run has one entry a round, segment and corruption."""
    schedule = Schedule(stream="continual", switch_every=12, rounds=2)
    result = stream(artefact, data, adapt="forge", schedule=schedule)
    found = [(s.corruption, s.round, s.segment) for s in result.runs[0].streams]
    expected = [
        (corruption, round_, segment)
        for round_ in (0, 1)
        for segment in (0, 1)
        for corruption in ("clean", "fog")
    ]
    assert expected == found
    assert {0} == {s.parity_mismatches for s in result.runs[0].streams}
    assert {12} == {s.images for s in result.runs[0].streams}


def test_a_mode_without_code_names_the_remedy(
    tmp_path: Path, data: str, board: HostBoard
) -> None:
    """Firmware compiled with --adapt none cannot run forge."""
    model = write_model(tmp_path / "small.onnx")
    options = CompileOptions(adapt="none")
    plain = compile_model(model, make_images(64), tmp_path / "a", options=options)
    with pytest.raises(UserError, match=r"refold compile .* --adapt forge"):
        stream(plain, data, adapt="off,forge")


def test_a_model_without_sites_runs_off(
    tmp_path: Path, data: str, board: HostBoard, caplog: pytest.LogCaptureFixture
) -> None:
    """That nothing can adapt is said, and is no fault unless it is asked for."""
    b = ModelBuilder((1, 8, 8))
    model = b.model(b.gemm(b.op("Flatten", b.op("GlobalAveragePool", "x")), 4))
    onnx.save(model, tmp_path / "flat.onnx")
    flat = compile_model(tmp_path / "flat.onnx", make_images(64), tmp_path / "a")
    result = stream(flat, data, check=False)
    assert ["off"] == [r.adapt for r in result.runs]
    assert "no recalibration sites" in caplog.text
    with pytest.raises(UserError, match=r"no recalibration sites .*--adapt off"):
        stream(flat, data, adapt="off,forge")


def test_accuracy_over_a_map_is_warned_of(
    tmp_path: Path, data: str, board: HostBoard, caplog: pytest.LogCaptureFixture
) -> None:
    """The largest value of a map is no class."""
    b = ModelBuilder((1, 8, 8))
    onnx.save(b.model(b.conv("x", 3)), tmp_path / "map.onnx")
    flat = compile_model(tmp_path / "map.onnx", make_images(64), tmp_path / "a")
    stream(flat, data, check=False)
    assert "the model's output 'conv0' is a map of" in caplog.text


def test_ctrl_c_keeps_what_was_answered(
    artefact: Artefact, data: str, board: HostBoard
) -> None:
    """An interrupted run is incomplete, checked as far as it went, and says so."""
    board.die_after, board.dies_of = COUNT + 5, KeyboardInterrupt()
    result = stream(artefact, data)
    assert ("infra", False, True) == (
        result.verdict,
        result.complete,
        result.interrupted,
    )
    assert [COUNT, 5] == [s.images for r in result.runs for s in r.streams]
    assert {0} == {s.parity_mismatches for r in result.runs for s in r.streams}
    assert INTERRUPTED == exit_code(result)


def test_a_path_may_be_text(artefact: Artefact, data: str, board: HostBoard) -> None:
    """Scripts need not import pathlib."""
    assert "pass" == run(str(artefact.path), RunOptions(data=data)).verdict


@pytest.mark.parametrize("package", [refold, refoldc])
def test_packages_list_their_public_names(package: ModuleType) -> None:
    """Also those that are imported on first use."""
    assert sorted(package.__all__) == dir(package)
