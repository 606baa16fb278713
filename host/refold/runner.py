"""Run an artefact on a board: stream, check, score.

:func:`run` reads as the order of events. Whatever the user may have got wrong
is found before the board is touched; whatever goes wrong on the way to the
board or on it ends the run with the results so far.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import Any

from numpy.typing import NDArray

from refoldc.artefact import LAYERS

from refold.board_session import connect
from refold.boards import load_board
from refold.build import Build, build, build_twin
from refold.check import Checker, checking, claim
from refold.device import Device, Reply
from refold.errors import InfraError
from refold.inputs import device_input
from refold.job import Job, RunOptions, prepare
from refold.ledger import Entry, Ledger, conclude
from refold.power.ppk2 import open_meter, parse
from refold.power.recorder import Recorder, recording
from refold.profile import IMAGES, measure, require_times
from refold.result import Result
from refold.schedule import Step
from refold.trace import dump_layers
from refold.watch import Watch

__all__ = ["RunOptions", "run"]

_logger = logging.getLogger(__name__)

Pictures = Callable[[str, int], NDArray[Any]]
"""From corruption and severity to images [N, ...] as the device takes them."""


def run(
    artefact: str | Path, options: RunOptions, *, watch: Watch | None = None
) -> Result:
    """Stream data through the firmware of an artefact and score the replies.

    Args:
        artefact: Compiled model directory; the firmware is built into it where
            it is missing.
        options: What to stream.
        watch: Told about progress.

    Returns:
        The result. Its verdict is ``fail`` where a bound or parity is missed and
        ``infra`` where the board was lost or Ctrl-C ended the run; it then holds
        what was seen till then.

    Raises:
        UserError, RefoldcError: The input or the environment is at fault.
        TensorsDiffer: ``dump_layers`` found a tensor that differs.
    """
    watch, artefact = watch or Watch(), Path(artefact)
    if options.power is not None:
        parse(options.power)
    job = prepare(artefact, options, watch)
    watch.stage(f"building firmware for {job.board.id}")
    built = build(artefact, job.board)
    ledger = Ledger()
    if options.check:
        with checking(artefact, twin=_twin(job, watch)) as checker:
            _stream_all(job, built, ledger, checker, watch)
            watch.stage("finishing the parity check")
    else:
        _stream_all(job, built, ledger, None, watch)
    return conclude(job, built, ledger)


def _twin(job: Job, watch: Watch) -> Path | None:
    """Build the host's twin of the firmware where the parity check needs it."""
    if not any("pace" in mode.config.parts for mode in job.modes):
        return None
    watch.stage("building the host's twin of the firmware")
    return build_twin(job.artefact.path, load_board("native"))


def _stream_all(
    job: Job, built: Build, ledger: Ledger, checker: Checker | None, watch: Watch
) -> None:
    """Run every step; what ends it early leaves the reason in the ledger."""
    pictures = _pictures(job)
    watch.stage(f"connecting to {job.board.id}")
    try:
        with (
            open_meter(job.options.power) as meter,
            connect(
                job.board, built, job.options.port, wait_s=job.options.wait
            ) as device,
            recording(meter) as power,
        ):
            ledger.hello = device.hello()
            ledger.port = device.port
            if job.options.profile:
                require_times(device)
            watch.plan(sum(len(step.indices) for step in job.steps))
            if job.options.dump_layers:
                watch.stage("comparing layer by layer")
                _compare_layers(device, job, built, pictures)
            for step in job.steps:
                watch.step(step)
                _stream(device, step, pictures, ledger, checker, watch, power)
                power.require_meter()
            if job.options.profile:
                _profile(device, job, pictures, ledger, watch)
    except InfraError as error:
        ledger.failure = str(error)
    except KeyboardInterrupt:
        ledger.failure, ledger.interrupted = "interrupted", True
        if checker is not None:
            _logger.warning(
                "interrupted: the replies so far are being checked; interrupt again to "
                "give them up"
            )


def _compare_layers(device: Device, job: Job, built: Build, pictures: Pictures) -> None:
    """On the first images of each mode's first stream."""
    first = {step.mode.text: step for step in reversed(job.steps)}
    count = job.options.dump_layers
    work = (
        (step.mode, pictures(step.corruption, step.severity)[step.indices[:count]])
        for step in reversed(first.values())
    )
    dump_layers(device, job.artefact.qgraph, work, built.directory / LAYERS)


def _pictures(job: Job) -> Pictures:
    """Return where images come from, remembering them as the schedule needs.

    Under ``reset`` a stream's images are used up before the next one's, under
    ``continual`` they come back.
    """
    spec, seed = job.artefact.manifest.input, job.options.schedule.seed
    keep = 1 if job.options.schedule.stream == "reset" else None

    @lru_cache(maxsize=keep)
    def images(corruption: str, severity: int) -> NDArray[Any]:
        return device_input(spec, job.data.stream(corruption, severity, seed))

    return images


def _profile(
    device: Device, job: Job, pictures: Pictures, ledger: Ledger, watch: Watch
) -> None:
    """Measure the layers under every mode, on the first stream's first images."""
    first = job.steps[0]
    images = pictures(first.corruption, first.severity)[first.indices[:IMAGES]]
    for mode in job.modes:
        watch.stage(f"profiling {mode.text}")
        data = [image.tobytes() for image in images]
        ledger.profiles.append(measure(device, mode, data, job.artefact.qgraph))


def _stream(
    device: Device,
    step: Step,
    pictures: Pictures,
    ledger: Ledger,
    checker: Checker | None,
    watch: Watch,
    power: Recorder,
) -> None:
    """Run one step and enter what was answered, all of it or not."""
    images = pictures(step.corruption, step.severity)[step.indices]
    replies: list[Reply] = []
    start = end = None
    mark = power.mark()
    _logger.info("%s under %s: begins", step.corruption, step.mode.text)
    began = perf_counter()
    try:
        device.begin(step.mode.config, keep_state=not step.fresh)
        start = None if step.fresh or checker is None else device.read_state()
        for reply in device.run(image.tobytes() for image in images):
            replies.append(reply)
            watch.image()
        end = None if checker is None else device.read_state()
    finally:
        seconds = perf_counter() - began
        checked = None
        if checker is not None and (step.fresh or start is not None):
            claimed = claim(step.mode.config, images, replies, start=start, end=end)
            checked = checker.submit(claimed)
        energy = power.take(mark, len(replies))
        ledger.entries.append(Entry(step, replies, seconds, checked, energy))
        _logger.info(
            "%s under %s: %d of %d images in %.2f s, %d frames sent again",
            *(step.corruption, step.mode.text, len(replies), len(images), seconds),
            sum(reply.resent for reply in replies),
        )
