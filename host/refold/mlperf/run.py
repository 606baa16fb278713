"""``refold run --protocol mlperf-tiny``: accuracy, then performance."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact, load_artefact
from refoldc.reference import Reference
from refoldc.softmax import ONE_Q15, softmax_table

from refold.boards import Board
from refold.build import Build, build
from refold.data import DataSet, load_data
from refold.errors import InfraError, UserError
from refold.inputs import device_input
from refold.lock import hold
from refold.mlperf.dut import REMEDY, Dut, open_dut
from refold.mlperf.result import (
    SCHEMA,
    Accuracy,
    MlperfResult,
    Performance,
    Window,
)
from refold.mlperf.score import TARGETS, auc, normalised, top1
from refold.place import address, find_place
from refold.process import spawn
from refold.result import tool_versions
from refold.watch import Watch

WINDOWS = 5
WINDOW_S = 10.0
"""The rules' least length of a window."""
WARMUPS = 1
TRIES = 5
_MARGIN = 1.1
"""A window is planned so much longer than it must be."""
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
        window_s: Least length of a window of the performance mode.
        wait_s: How long to wait for a process that has the board.
    """

    data: str
    board: str = "native"
    port: str | None = None
    images: int | None = None
    check: bool = True
    window_s: float = WINDOW_S
    wait_s: float = 0.0


def run_mlperf(
    path: Path, options: MlperfOptions, *, watch: Watch | None = None
) -> MlperfResult:
    """Drive a device as the public runner does, in both modes.

    Args:
        path: The artefact.
        options: What to run.
        watch: Told about progress.

    Raises:
        UserError, RefoldcError: The input or the environment is at fault.
        InfraError: The device is lost or complains.
    """
    watch = watch or Watch()
    artefact = load_artefact(path)
    board, port = address(options.board, options.port)
    options = replace(options, board=board.id, port=port)
    data = _load(artefact, options)
    images = device_input(artefact.manifest.input, data.images)
    watch.stage(f"connecting to {board.id}")
    with _device(path, board, artefact, options, watch) as dut:
        name = dut.ask("name", r"m-name-dut-\[(.+)\]")
        benchmark = dut.ask("profile", r"m-model-\[(.+)\]")
        watch.plan(len(images))
        vectors = np.array([_answer(dut, image, watch) for image in images])
        watch.stage("performance")
        performance = _measure(dut, images, options.window_s)
    accuracy = Accuracy(
        images=len(images),
        top1=top1(normalised(vectors), data.labels),
        auc=auc(normalised(vectors), data.labels),
        target=TARGETS.get(benchmark),
        differing=_differing(artefact, images, vectors) if options.check else None,
    )
    reasons = tuple(_reasons(accuracy, vectors))
    return MlperfResult(
        schema=SCHEMA,
        tool=tool_versions(),
        verdict="fail" if reasons else "pass",
        reasons=reasons,
        model=artefact.manifest.model.name,
        board=board.id,
        port=dut.url,
        dut=name,
        benchmark=benchmark,
        data=options.data,
        accuracy=accuracy,
        performance=performance,
    )


def _load(artefact: Artefact, options: MlperfOptions) -> DataSet:
    manifest = artefact.manifest
    if len(manifest.outputs) != 1:
        raise UserError(
            f"{artefact.path} has {len(manifest.outputs)} outputs, a device of the "
            "benchmark reports one: compile a model of one output"
        )
    data = load_data(
        options.data,
        split="test",
        limit=options.images,
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
        with hold(place, wait_s=options.wait_s), open_dut(place.url) as dut:
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


def _measure(dut: Dut, images: NDArray[Any], window_s: float) -> Performance:
    """Five windows, each on another image as long as there are others."""
    count = _inferences(dut, images, window_s)
    windows: list[Window] = []
    for number in range(WINDOWS):
        dut.load(images[number % len(images)].tobytes())
        windows.append(_window(dut, count, window_s))
        count = windows[-1].inferences
    throughput = median(window.throughput for window in windows)
    return Performance(
        windows=tuple(windows), throughput=throughput, latency_us=1e6 / throughput
    )


def _window(dut: Dut, count: int, window_s: float) -> Window:
    """One window; run anew with more inferences where it was too short."""
    least_us = 1e6 * window_s
    for _ in range(TRIES):
        us = dut.infer(count, WARMUPS).elapsed_us
        if us >= least_us:
            return Window(inferences=count, us=us)
        count = math.ceil(_MARGIN * count * least_us / us)
    raise InfraError(
        f"port {dut.url}: {TRIES} windows in turn were shorter than the {window_s:g} s "
        "planned by the ones before: the board's speed changes; run again while "
        "nothing else uses it"
    )


def _inferences(dut: Dut, images: NDArray[Any], window_s: float) -> int:
    """How many inferences make a window, found by doubling up to a twentieth of it."""
    dut.load(images[0].tobytes())
    count, us = 1, dut.infer(1, WARMUPS).elapsed_us
    while us < 1e6 * window_s / 20:
        count *= 2
        us = dut.infer(count).elapsed_us
    return math.ceil(_MARGIN * count * 1e6 * window_s / us)


def expected_vectors(artefact: Artefact, images: NDArray[Any]) -> NDArray[np.float64]:
    """What the device must answer [N, classes], by the host model, in thousandths."""
    output = artefact.manifest.output
    reference = Reference(artefact.qgraph)
    reference.configure(AdaptConfig(method="off"), False)
    chosen = slice(output.first, output.first + output.count)
    logits = np.array([reference.infer(image).logits[chosen] for image in images])
    exp, shift = softmax_table(output.scale)
    below = (logits.max(axis=1, keepdims=True).astype(np.int64) - logits) >> shift
    weights = exp[np.minimum(below, len(exp) - 1)].astype(np.int64)
    q15 = weights * ONE_Q15 // weights.sum(axis=1, keepdims=True)
    thousandths: NDArray[np.int64] = (1000 * q15 + ONE_Q15 // 2) // ONE_Q15
    return thousandths / 1000


def _differing(
    artefact: Artefact, images: NDArray[Any], vectors: NDArray[np.float64]
) -> int:
    expected = expected_vectors(artefact, images)
    return int((expected != vectors).any(axis=1).sum())


def _reasons(accuracy: Accuracy, vectors: NDArray[np.float64]) -> Sequence[str]:
    reasons = []
    if accuracy.differing:
        reasons.append(
            f"parity: {accuracy.differing} of {accuracy.images} answers differ from "
            "the host model's; see 'refold run --dump-layers'"
        )
    if accuracy.target is not None and accuracy.top1 < accuracy.target:
        reasons.append(
            f"top-1 is {accuracy.top1:.1f} %, below the benchmark's target of "
            f"{accuracy.target:g} %"
        )
    if (vectors < 0).any():
        reasons.append("some answers are negative, which the runner cannot score")
    return reasons
