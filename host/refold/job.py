"""What a run will do, found to be in order before any board is touched."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from refoldc.artefact import Artefact, load_artefact
from refoldc.manifest import OutputRecord

from refold import bounds
from refold.baseline import Baseline, Setting, require_comparable
from refold.boards import Board
from refold.data import DataSet, load_data
from refold.errors import InfraError, UserError
from refold.modes import Mode, parse_modes
from refold.place import address, find_place
from refold.schedule import CLEAN, Schedule, Step, parse_corruptions, plan_steps
from refold.watch import Watch

DEFAULT_MODES = "off,forge"

OnReset = Literal["fail", "resume"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What to run; the fields are the options of ``refold run``.

    ``adapt`` None is ``off,forge``, or ``off`` where the artefact cannot adapt.
    ``dump_layers``: first compare every layer on so many images, mode by mode.
    ``output`` None scores the first output that is a vector.
    ``baseline``: The earlier result that this one must not be worse than.
    ``power`` names the instrument, as :func:`refold.power.ppk2.parse` reads it.
    ``board`` and ``port`` are read together by :func:`refold.place.address`.
    ``wait``: Seconds to wait for a process that has the board.
    ``deadline``: Seconds after which the run ends as it is; None: only what is waited
    for has deadlines.
    ``on_reset``: Whether a board that was lost ends the run, or its stream is streamed
    again once it is back.
    ``power_cycle``: Shell command that cuts the power of a board that is silent.
    """

    data: str
    board: str = "native"
    port: str | None = None
    corruptions: str = "all"
    severity: int = 5
    adapt: str | None = None
    images: int | None = None
    schedule: Schedule = field(default_factory=Schedule)
    check: bool = True
    dump_layers: int = 0
    fail_under: tuple[str, ...] = ()
    output: str | None = None
    profile: bool = False
    baseline: Baseline | None = None
    power: str | None = None
    wait: float = 0.0
    deadline: float | None = None
    on_reset: OnReset = "fail"
    power_cycle: str | None = None


@dataclass(frozen=True, eq=False)
class Job:
    """What :func:`prepare` found to be in order; ``steps`` in the order they run."""

    artefact: Artefact
    board: Board
    data: DataSet
    modes: tuple[Mode, ...]
    steps: tuple[Step, ...]
    bounds: tuple[bounds.Bound, ...]
    options: RunOptions
    output: OutputRecord


def prepare(path: Path, options: RunOptions, watch: Watch) -> Job:
    """Check everything the user may have got wrong.

    Raises:
        UserError, RefoldcError: Something is.
    """
    artefact = load_artefact(path)
    manifest = artefact.manifest
    _check_port(options.port)
    board, port = address(options.board, options.port)
    options = replace(options, board=board.id, port=port)
    _find(board, port)
    adapt = options.adapt or _default_modes(artefact)
    modes = parse_modes(
        adapt,
        sites=len(manifest.sites),
        ranking=manifest.ranking,
        shrinkage=manifest.shrinkage,
    )
    _check_code(path, artefact, modes)
    limits = tuple(bounds.parse_bound(text) for text in options.fail_under)
    corruptions = parse_corruptions(options.corruptions)
    output = _scored(artefact, options.output)
    watch.stage(f"reading {options.data}")
    data = load_data(
        options.data,
        split="test",
        limit=options.images,
        shape=tuple(manifest.input.shape),
        classes=_classes(output),
    )
    if manifest.input.mode == "pixels" and data.images.dtype != np.uint8:
        raise UserError(
            f"{options.data} holds {data.images.dtype} values, the model in {path} "
            "takes pixels: give uint8, or compile it with --input tensor"
        )
    streams = _streams(data, corruptions, options.severity)
    bounds.check_bounds(
        limits,
        modes=[mode.text for mode in modes],
        clean=(CLEAN, 0) in streams,
        corrupted=bool(corruptions),
        checked=options.check,
    )
    steps = plan_steps(options.schedule, modes, streams, images=len(data.labels))
    job = Job(artefact, board, data, modes, tuple(steps), limits, options, output)
    if options.baseline is not None:
        require_comparable(options.baseline, _setting(job))
    return job


def _setting(job: Job) -> Setting:
    """Return what the result will have been measured under."""
    return Setting(
        model=job.artefact.manifest.model.name,
        board=job.board.id,
        images=len(job.data.labels),
        data_sha256=job.data.sha256,
        seed=job.options.schedule.seed,
        streams={
            mode.text: frozenset(s.key for s in job.steps if s.mode is mode)
            for mode in job.modes
        },
    )


def _scored(artefact: Artefact, name: str | None) -> OutputRecord:
    """The output whose largest value is the class."""
    outputs = artefact.manifest.outputs
    if name is None:
        return artefact.manifest.output
    found = next((output for output in outputs if output.name == name), None)
    if found is None:
        raise UserError(
            f"--output is '{name}', the model's outputs are "
            f"{', '.join(output.name for output in outputs)}: choose one of them"
        )
    return found


def _check_code(path: Path, artefact: Artefact, modes: Sequence[Mode]) -> None:
    contained = frozenset(artefact.manifest.adapt.split("+"))
    compiled = artefact.manifest.options.adapt
    for mode in modes:
        needed = mode.config.parts
        if needed <= contained:
            _check_features(path, artefact, mode)
            continue
        if artefact.manifest.sites or compiled == "none":
            adapt = "+".join(sorted((needed | contained) - {"none"}))
            raise UserError(
                f"{path} contains no code for mode '{mode.text}': it was compiled with "
                f"--adapt {compiled}; compile it again with 'refold compile … --adapt "
                f"{adapt}', or choose other modes with --adapt"
            )
        raise UserError(
            f"{path} cannot run mode '{mode.text}': the model has no recalibration "
            "sites ('refold inspect' says why of each layer); use --adapt off"
        )


def _check_features(path: Path, artefact: Artefact, mode: Mode) -> None:
    """Refuse to compare features where none of clean images are stored."""
    search, config = artefact.manifest.search, mode.config
    if "pace" not in config.parts or search is None or search.features:
        return
    if config.weight or config.source:
        raise UserError(
            f"{path} cannot run mode '{mode.text}': it compares what the last layer "
            "reads, and this model's last layer is no dense one, or reads too much; "
            f"write --adapt '{config.method}:lambda=0;source=off', or add these keys"
        )


def _contained(artefact: Artefact) -> tuple[str, ...]:
    """The methods, FORGE alone first: it is what the others are compared with."""
    adapt = artefact.manifest.adapt
    return ("forge", adapt) if "forge" in adapt else (adapt,)


def _default_modes(artefact: Artefact) -> str:
    if artefact.manifest.adapt != "none":
        return ",".join(dict.fromkeys(("off", *_contained(artefact))))
    compiled_without = artefact.manifest.options.adapt == "none"
    why = "compiled with --adapt none" if compiled_without else "no recalibration sites"
    _logger.warning("%s cannot adapt (%s): only 'off' runs", artefact.path, why)
    return "off"


def _check_port(port: str | None) -> None:
    if port is not None and not port.strip():
        raise UserError(
            "--port is empty; name the port ('refold boards' lists what is attached), "
            "or leave --port out to start the native board"
        )


def _find(board: Board, port: str | None) -> None:
    """Before a build, which may take minutes, be sure that one board is meant."""
    if port is not None or board.link.kind == "serial":
        with suppress(InfraError):  # a board that is away now is the session's to tell
            find_place(board, port)


def _classes(output: OutputRecord) -> int | None:
    """The number of classes; None where the output is a map, which has no label."""
    if output.count == output.shape[-1]:
        return output.count
    _logger.warning(
        "the model's output '%s' is a map of %s, no vector of classes: accuracies mean "
        "nothing, parity and times do",
        output.name,
        " x ".join(map(str, output.shape)),
    )
    return None


def _streams(
    data: DataSet, corruptions: Sequence[str], severity: int
) -> list[tuple[str, int]]:
    streams = [(name, severity) for name in corruptions]
    if data.has_clean:
        streams.insert(0, (CLEAN, 0))
    if not streams:
        raise UserError(
            f"{data.spec} has no clean images and --corruptions is none: nothing to "
            "stream; choose --corruptions"
        )
    data.require(streams)
    made = [name for name in corruptions if (name, severity) not in (data.ready or {})]
    if data.ready and made:
        _logger.warning(
            "%s brings no %s at severity %d: made here from its clean images",
            *(data.spec, ", ".join(made), severity),
        )
    return streams
