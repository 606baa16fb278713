"""``refold run --protocol mlperf-tiny``: accuracy, then performance; or energy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from refoldc.artefact import Artefact, load_artefact

from refold.boards import Board
from refold.build import Build, build
from refold.data import DataSet, load_data
from refold.errors import UserError, during
from refold.inputs import device_input
from refold.lock import hold
from refold.mlperf.dut import (
    BAUD,
    ENERGY_BAUD,
    ENERGY_REMEDY,
    REMEDY,
    Dut,
    open_dut,
)
from refold.mlperf.energy import Instrument, measure_energy
from refold.mlperf.expected import differing
from refold.mlperf.result import (
    SCHEMA,
    Accuracy,
    Energy,
    MlperfResult,
    Performance,
    Window,
)
from refold.mlperf.score import TARGETS, auc, normalised, top1
from refold.mlperf.windows import WINDOW_S, WINDOWS, windows
from refold.phase import Phase
from refold.place import address, find_place
from refold.power.ppk2 import open_meter, parse
from refold.power.recorder import Meter, recording
from refold.process import spawn
from refold.result import tool_versions
from refold.watch import Watch

BENCHMARKS: dict[tuple[int, ...], str] = {(32, 32, 3): "ic01", (96, 96, 3): "vww01"}
OTHER = "custom"


@dataclass(frozen=True, kw_only=True)
class MlperfOptions:
    """What to run.

    Attributes:
        data: Data spec of labelled images.
        board: Its id.
        port: Of a device that runs already; None starts the native board.
        images: At most so many; None for all.
        check: Compare every answer with the host model's.
        wait_s: How long to wait for a process that has the board.
        window_s: Least length of a window of the performance or energy mode.
        power: An instrument, as ``--power`` names it; then the energy mode is run.
    """

    data: str
    board: str = "native"
    port: str | None = None
    images: int | None = None
    check: bool = True
    window_s: float = WINDOW_S
    wait_s: float = 0.0
    power: str | None = None


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What the modes that were run gave, and why it is no pass."""

    accuracy: Accuracy | None = None
    performance: Performance | None = None
    energy: Energy | None = None
    reasons: tuple[str, ...]


def run_mlperf(
    path: Path, options: MlperfOptions, *, watch: Watch | None = None
) -> MlperfResult:
    """Drive a device as the public runner does.

    Args:
        path: The artefact.
        options: What to run.
        watch: Told about progress.

    Raises:
        UserError, RefoldcError: The input or the environment is at fault.
        InfraError: The device or the instrument is lost, or the device complains.
    """
    watch = watch or Watch()
    _check_power(options)
    artefact = load_artefact(path)
    board, port = address(options.board, options.port)
    options = replace(options, board=board.id, port=port)
    data = _load(artefact, options)
    watch.stage(f"connecting to {board.id}")
    with (
        during(Phase.STREAM),
        open_meter(options.power) as meter,
        _device(path, board, artefact, options, watch) as dut,
    ):
        name = dut.ask("name", r"m-name-dut-\[(.+)\]")
        benchmark = dut.ask("profile", r"m-model-\[(.+)\]")
        if meter is None:
            found = _accuracy_performance(
                dut, artefact, data, benchmark, options, watch
            )
        else:
            watch.stage("energy")
            found = _energy(dut, meter, artefact, data, options)
    return MlperfResult(
        schema=SCHEMA,
        tool=tool_versions(),
        verdict="fail" if found.reasons else "pass",
        reasons=found.reasons,
        model=artefact.manifest.model.name,
        board=board.id,
        port=dut.url,
        dut=name,
        benchmark=benchmark,
        data=options.data,
        accuracy=found.accuracy,
        performance=found.performance,
        energy=found.energy,
    )


def _accuracy_performance(
    dut: Dut,
    artefact: Artefact,
    data: DataSet,
    benchmark: str,
    options: MlperfOptions,
    watch: Watch,
) -> _Found:
    images = device_input(artefact.manifest.input, data.images)
    watch.plan(len(images))
    vectors = np.array([_answer(dut, image, watch) for image in images])
    watch.stage("performance")
    performance = _performance(dut, images, options.window_s)
    accuracy = Accuracy(
        images=len(images),
        top1=top1(normalised(vectors), data.labels),
        auc=auc(normalised(vectors), data.labels),
        target=TARGETS.get(benchmark),
        differing=differing(artefact, images, vectors) if options.check else None,
    )
    reasons = tuple(_reasons(accuracy, vectors))
    return _Found(accuracy=accuracy, performance=performance, reasons=reasons)


def _energy(
    dut: Dut, meter: Meter, artefact: Artefact, data: DataSet, options: MlperfOptions
) -> _Found:
    images = device_input(artefact.manifest.input, data.images)
    with recording(meter) as recorder:
        instrument = Instrument(dut, meter, recorder)
        energy, answers = measure_energy(instrument, dut, images, options.window_s)
    if options.check:
        shown = images[np.arange(WINDOWS) % len(images)]
        missed = differing(artefact, shown, np.array(answers))
        energy = structs.replace(energy, differing=missed)
    reasons = tuple(_parity_reasons(energy.differing, WINDOWS))
    return _Found(energy=energy, reasons=reasons)


def _check_power(options: MlperfOptions) -> None:
    if options.power is None:
        return
    parse(options.power)
    if options.port is None:
        raise UserError(
            f"--power measures a board that runs already: {ENERGY_REMEDY}, and name "
            "its --port"
        )


def _load(artefact: Artefact, options: MlperfOptions) -> DataSet:
    manifest = artefact.manifest
    if len(manifest.outputs) != 1:
        raise UserError(
            f"{artefact.path} has {len(manifest.outputs)} outputs, a device of the "
            "benchmark reports one: compile a model of one output"
        )
    limit = options.images
    if options.power is not None:
        limit = min(limit or WINDOWS, WINDOWS)
    data = load_data(
        options.data,
        split="test",
        limit=limit,
        shape=tuple(manifest.input.shape),
        classes=manifest.output.count,
    )
    if not data.has_clean:
        raise UserError(
            f"{options.data} has no clean images, which the benchmark is run on; give "
            "data that has, such as cifar10:PATH"
        )
    return data


def benchmark_of(artefact: Artefact) -> str:
    """Return the benchmark whose input the model takes, or ``custom``."""
    return BENCHMARKS.get(tuple(artefact.manifest.input.shape), OTHER)


@contextmanager
def _device(
    path: Path, board: Board, artefact: Artefact, options: MlperfOptions, watch: Watch
) -> Iterator[Dut]:
    if options.port is not None:
        place = find_place(board, options.port)
        baud = BAUD if options.power is None else ENERGY_BAUD
        with hold(place, wait_s=options.wait_s), open_dut(place.url, baud) as dut:
            yield dut
        return
    if board.port != "native":
        raise UserError(
            f"board {board.id} is not started in MLPerf Tiny's protocol; {REMEDY}"
        )
    watch.stage(f"building firmware for {board.id}")
    command = native_command(build(path, board), artefact)
    with spawn(command) as port, open_dut(port) as dut:
        yield dut


def native_command(built: Build, artefact: Artefact) -> tuple[str, ...]:
    """The native board as a device of the benchmark, behind a pseudo-terminal."""
    return (str(built.executable), "--pty", "--mlperf", benchmark_of(artefact))


def _answer(dut: Dut, image: NDArray[Any], watch: Watch) -> tuple[float, ...]:
    dut.load(image.tobytes())
    results = dut.infer(1).results
    watch.image()
    return results


def _performance(dut: Dut, images: NDArray[Any], window_s: float) -> Performance:
    def measure(inferences: int, warmups: int) -> Window:
        us = dut.infer(inferences, warmups).elapsed_us
        return Window(inferences=inferences, us=us)

    found = tuple(windows(dut, images, measure, window_s))
    throughput = median(window.throughput for window in found)
    return Performance(
        windows=found, throughput=throughput, latency_us=1e6 / throughput
    )


def _reasons(accuracy: Accuracy, vectors: NDArray[np.float64]) -> Sequence[str]:
    reasons = list(_parity_reasons(accuracy.differing, accuracy.images))
    if accuracy.target is not None and accuracy.top1 < accuracy.target:
        reasons.append(
            f"top-1 is {accuracy.top1:.1f} %, below the benchmark's target of "
            f"{accuracy.target:g} %"
        )
    if (vectors < 0).any():
        reasons.append("some answers are negative, which the runner cannot score")
    return reasons


def _parity_reasons(differing: int | None, of: int) -> Iterator[str]:
    if differing:
        yield (
            f"parity: {differing} of {of} answers differ from the host model's; see "
            "'refold run --dump-layers'"
        )
