"""Run an artefact on a board: stream, check, score.

:func:`run` reads as the order of events. Whatever the user may have got wrong
is found before the board is touched; whatever goes wrong on the way to the
board or on it ends the run with the results so far.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from refoldc.artefact import LAYERS

from refold.board_session import Terms, open_session
from refold.boards import load_board
from refold.build import Build, build, build_twin
from refold.check import Checker, checking
from refold.deadline import Deadline
from refold.device import Device
from refold.errors import InfraError, during
from refold.inputs import device_input
from refold.job import Job, RunOptions, prepare
from refold.ledger import Ledger, conclude
from refold.phase import Phase
from refold.power.ppk2 import open_meter, parse
from refold.power.recorder import recording
from refold.profile import IMAGES, measure, require_times
from refold.result import Result
from refold.session import Session
from refold.streaming import Pictures, Streaming
from refold.trace import dump_layers
from refold.watch import Watch

__all__ = ["RunOptions", "run"]

_logger = logging.getLogger(__name__)


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
        ``infra`` where the board was lost, a deadline passed or Ctrl-C ended the run;
        it then holds what was seen till then.

    Raises:
        UserError, RefoldcError: The input or the environment is at fault.
        TensorsDiffer: ``dump_layers`` found a tensor that differs.
    """
    watch, artefact = watch or Watch(), Path(artefact)
    deadline = Deadline(options.deadline)
    if options.power is not None:
        parse(options.power)
    job = prepare(artefact, options, watch)
    watch.stage(f"building firmware for {job.board.id}")
    built = build(artefact, job.board)
    ledger = Ledger()
    if options.check:
        twin = _twin(job, watch)
        try:
            with checking(artefact, twin=twin) as checker:
                _stream_all(job, built, ledger, checker, watch, deadline)
                watch.stage("finishing the parity check")
                ledger.await_checks(deadline)
        except InfraError as error:
            ledger.fail(error)
    else:
        _stream_all(job, built, ledger, None, watch, deadline)
    return conclude(job, built, ledger)


def _twin(job: Job, watch: Watch) -> Path | None:
    """Build the host's twin of the firmware where the parity check needs it."""
    if not any("pace" in mode.config.parts for mode in job.modes):
        return None
    watch.stage("building the host's twin of the firmware")
    return build_twin(job.artefact.path, load_board("native"))


def _stream_all(
    job: Job,
    built: Build,
    ledger: Ledger,
    checker: Checker | None,
    watch: Watch,
    deadline: Deadline,
) -> None:
    """Run every step; what ends it early leaves the reason in the ledger."""
    watch.stage(f"connecting to {job.board.id}")
    try:
        with during(Phase.STREAM), ExitStack() as stack:
            with during(Phase.CONNECT):
                meter = stack.enter_context(open_meter(job.options.power))
            session = stack.enter_context(_session(job, built, deadline))
            ledger.hello = session.device.hello()
            ledger.port = session.device.port
            power = stack.enter_context(recording(meter))
            streaming = Streaming(
                session=session,
                pictures=_pictures(job),
                ledger=ledger,
                watch=watch,
                power=power,
                checker=checker,
                on_reset=job.options.on_reset,
                keeps=job.options.schedule.stream == "continual",
            )
            _work(job, built, streaming)
    except InfraError as error:
        ledger.fail(error)
    except KeyboardInterrupt:
        ledger.failure, ledger.interrupted = "interrupted", True
        if checker is not None:
            _logger.warning(
                "interrupted: the replies so far are being checked; interrupt again to "
                "give them up"
            )


def _session(
    job: Job, built: Build, deadline: Deadline
) -> AbstractContextManager[Session]:
    terms = Terms(
        wait_s=job.options.wait,
        power_cycle=job.options.power_cycle,
        deadline=deadline,
    )
    return open_session(job.board, built, job.options.port, terms=terms)


def _work(job: Job, built: Build, streaming: Streaming) -> None:
    """What is done with a board that answers."""
    session, watch, options = streaming.session, streaming.watch, job.options
    if options.profile:
        require_times(session.device)
    watch.plan(sum(len(step.indices) for step in job.steps))
    if options.dump_layers:
        watch.stage("comparing layer by layer")
        _compare_layers(session.device, job, built, streaming.pictures)
    for step in job.steps:
        watch.step(step)
        streaming.run(step)
        streaming.power.require_meter()
    if options.profile:
        _profile(session.device, job, streaming)


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


def _profile(device: Device, job: Job, streaming: Streaming) -> None:
    """Measure the layers under every mode, on the first stream's first images."""
    first = job.steps[0]
    images = streaming.pictures(first.corruption, first.severity)
    data = [image.tobytes() for image in images[first.indices[:IMAGES]]]
    for mode in job.modes:
        streaming.watch.stage(f"profiling {mode.text}")
        profile = measure(device, mode, data, job.artefact.qgraph)
        streaming.ledger.profiles.append(profile)
