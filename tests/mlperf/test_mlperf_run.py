"""``refold run --protocol mlperf-tiny``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from refoldc.artefact import Artefact

from refold.boards import load_board
from refold.build import build
from refold.cli import status
from refold.errors import InfraError, UserError
from refold.mlperf import run as run_module
from refold.mlperf.dut import Dut, open_dut
from refold.mlperf.run import MlperfOptions, run_mlperf
from refold.mlperf.score import auc, normalised, top1
from refold.process import spawn

WINDOW_S = 0.05


class FakePort:
    """A serial port whose replies are given."""

    def __init__(self, *replies: bytes) -> None:
        self.timeout: float | None = None
        self.baudrate = 115200
        self._replies = b"".join(replies)

    def write(self, data: bytes) -> int:
        return len(data)

    def read_until(self, end: bytes, size: int) -> bytes:
        line, found, self._replies = self._replies.partition(end)
        return line + found


def dut_of(*replies: bytes) -> Dut:
    """A device that answers so, whatever it is asked."""
    return Dut(FakePort(*replies), "fake")  # type: ignore[arg-type]


def test_late_answers_are_dropped() -> None:
    """Names that were asked for at the start are no answer to the next command."""
    name, profile = b"m-name-dut-[a]\r\nm-ready\r\n", b"m-profile-[b]\r\nm-ready\r\n"
    dut = dut_of(name, b"e-[c]\r\nm-ready\r\n", profile, b"m-d\r\nm-ready\r\n")
    dut.settle()
    assert ["m-d"] == dut.command("d")


def test_both_modes_are_run(artefact: Artefact) -> None:
    """Every answer is the host model's; five windows of the least length."""
    options = MlperfOptions(data="digits", images=40, window_s=WINDOW_S)
    result = run_mlperf(artefact.path, options)
    assert ("pass", 0, 40) == (
        result.verdict,
        result.accuracy.differing,
        result.accuracy.images,
    )
    assert result.accuracy.top1 > 80
    assert result.accuracy.auc is not None
    windows = result.performance.windows
    assert [True] * 5 == [window.us >= 1e6 * WINDOW_S for window in windows]
    rates = sorted(1e6 * window.inferences / window.us for window in windows)
    assert rates[2] == pytest.approx(result.performance.throughput)


def test_the_command_writes_json(
    artefact: Artefact,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The figures of the public runner, on the terminal and in a file."""
    monkeypatch.setattr(run_module, "WINDOW_S", WINDOW_S)
    monkeypatch.setattr(
        MlperfOptions, "__init__", _with_short_windows(MlperfOptions.__init__)
    )
    file = tmp_path / "mlperf.json"
    words = ["run", str(artefact.path), "--data", "digits", "--images", "20"]
    code = status([*words, "--protocol", "mlperf-tiny", "--json", str(file)])
    assert 0 == code
    found = json.loads(file.read_text())
    assert ("refold.mlperf/1", "digits", 5) == (
        found["schema"],
        found["data"],
        len(found["performance"]["windows"]),
    )
    assert "median throughput" in capsys.readouterr().out


def _with_short_windows(init: object) -> object:
    def made(self: MlperfOptions, **fields: object) -> None:
        init(self, **{"window_s": WINDOW_S, **fields})  # type: ignore[operator]

    return made


def test_options_without_meaning_are_refused(
    artefact: Artefact, capsys: pytest.CaptureFixture[str]
) -> None:
    """Adaptation and corruptions are no part of the benchmark."""
    words = ["run", str(artefact.path), "--data", "digits", "--adapt", "forge"]
    assert 2 == status([*words, "--protocol", "mlperf-tiny"])
    assert "takes no --adapt" in capsys.readouterr().err


def test_a_device_that_runs_is_driven_at_its_port(artefact: Artefact) -> None:
    """--port finds the device that someone started, and leaves it running."""
    built = build(artefact.path, load_board("native"))
    with spawn((str(built.executable), "--pty", "--mlperf", "ic01")) as port:
        options = MlperfOptions(
            data="digits", port=port, images=10, window_s=WINDOW_S, check=False
        )
        result = run_mlperf(artefact.path, options)
        assert ("ic01", port, None) == (
            result.benchmark,
            result.port,
            result.accuracy.differing,
        )
        with open_dut(port) as dut:
            assert "refold" == dut.ask("name", r"m-name-dut-\[(.+)\]")


def test_a_board_that_needs_other_firmware_is_named(artefact: Artefact) -> None:
    """Only the native board is started; a chip's firmware is built for it."""
    options = MlperfOptions(data="digits", board="esp32s3-devkitc-1", images=4)
    with pytest.raises(UserError, match="CONFIG_REFOLD_PROTOCOL_MLPERF_TINY"):
        run_mlperf(artefact.path, options)


def test_a_target_that_is_missed_fails(
    artefact: Artefact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The benchmark's least accuracy is a bound."""
    monkeypatch.setitem(run_module.TARGETS, "custom", 100.1)
    options = MlperfOptions(data="digits", images=10, window_s=WINDOW_S)
    result = run_mlperf(artefact.path, options)
    assert "fail" == result.verdict
    assert "below the benchmark's target of 100.1 %" in result.reasons[0]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"", "had no whole answer within"),
        (b"m-lap-us-1\r\n", "had no whole answer within"),
        (b"e-[No input is loaded]\r\nm-ready\r\n", "answered 'infer 1 0' with e-"),
        (b"m-results-[1.000]\r\nm-ready\r\n", "came with times \\[\\]"),
        (b"m-lap-us-1\r\nm-lap-us-2\r\nm-ready\r\n", "expected a line like"),
        (
            b"m-lap-us-9\r\nm-lap-us-2\r\nm-results-[1.000]\r\nm-ready\r\n",
            "expected two that rise",
        ),
    ],
)
def test_bad_answers_are_infrastructure(reply: bytes, message: str) -> None:
    """A line without a checksum is not guessed at."""
    with pytest.raises(InfraError, match=message):
        dut_of(reply).infer(1)


def test_answers_are_normalised() -> None:
    """By their sum; an answer of zeros stays, and counts for class 0."""
    vectors = normalised(np.array([[1.0, 3.0], [0.0, 0.0]]))
    assert [[0.25, 0.75], [0.0, 0.0]] == vectors.tolist()
    assert 50.0 == top1(vectors, np.array([1, 1]))


@pytest.mark.parametrize("classes", [2, 5])
def test_auc_is_scikit_learns(classes: int) -> None:
    """The area that the public runner reports, ties included."""
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(7)
    labels = rng.integers(0, classes, 60)
    labels[:classes] = range(classes)
    vectors = normalised(rng.integers(1, 9, (60, classes)).astype(float))
    if classes == 2:
        expected = metrics.roc_auc_score(labels, vectors[:, 1])
    else:
        expected = metrics.roc_auc_score(labels, vectors, multi_class="ovr")
    assert expected == pytest.approx(auc(vectors, labels))


def test_auc_needs_every_class() -> None:
    """Without images of a class there is no area."""
    assert auc(np.eye(3), np.array([0, 1, 1])) is None
