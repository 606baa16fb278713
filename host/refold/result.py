"""The result of a run: the structures behind ``result.json``.

Keys and units are a contract (schema ``refold.result/1``); keys may be added,
never renamed. Accuracies are percentages, times microseconds of the device's
clock, ``seconds`` of the host's.
"""

from __future__ import annotations

from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from typing import Literal

import msgspec

from refoldc.version import VERSION

from refold.baseline_record import BaselineRecord
from refold.errors import UserError
from refold.files import write_text

SCHEMA = "refold.result/1"
LIBRARIES = ("numpy", "pillow", "scipy", "onnx", "onnxruntime")

Verdict = Literal["pass", "fail", "infra", "skipped"]


class Percentiles(msgspec.Struct, frozen=True):
    """Of one stream's images, nearest rank."""

    p50: int
    p95: int
    max: int


class Split(msgspec.Struct, frozen=True):
    """Where the device's time went, of a mean image: parts of one sum.

    Attributes:
        network: Layers, and the sums that they take of their accumulators.
        update: FORGE's, from sums to tables.
        search: PACE's, between images.
    """

    network: float
    update: float
    search: float


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """One corruption streamed under one mode.

    Attributes:
        latency_us: Of the network and of FORGE's update; a search comes between images.
        adapt_us: Of FORGE's update, and of the search before the image.
        forward_passes: One an image, and one for each image that a candidate ran.
        full_passes: Those of candidates weighed by the part of the network, in
            multiply-accumulate operations, that they run.
        parity_mismatches: Images whose device output differs from the host
            model in any bit; null where it was not checked.
        gate: Fraction of images with the gate open, null without a gate.
        energy_mj: Per image, null where it is not measured; of it, adaptation takes
            ``adapt_energy_mj``.
        round, repeat, segment: Counted from 0.
        blocks: Correct images in each of consecutive, equally long parts of the
            stream (the last may be shorter), for plots along it.
        latency_quantiles_us: Inference time at 0, 5, ... 100 %.
    """

    corruption: str
    severity: int
    images: int
    correct: int
    accuracy: float
    parity_mismatches: int | None
    frames_resent: int
    latency_us: Percentiles
    adapt_us: Percentiles
    forward_passes: int
    adapted_images: int
    gate: float | None
    energy_mj: float | None
    round: int
    repeat: int
    segment: int
    blocks: tuple[int, ...] = ()
    block_images: int = 0
    latency_quantiles_us: tuple[int, ...] = ()
    mean_shift_score: float = 0.0
    adapt_energy_mj: float | None = None
    full_passes: float | None = None
    split_us: Split | None = None

    @property
    def corrupted(self) -> bool:
        """Whether this is not the clean stream."""
        return self.corruption != "clean"

    @property
    def key(self) -> tuple[str, int, int, int, int]:
        """What tells this stream from the others of its run."""
        where = (self.round, self.repeat, self.segment)
        return (self.corruption, self.severity, *where)


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """All streams under one mode; ``seconds`` is streaming, without checking."""

    adapt: str
    mean_accuracy: float | None
    clean_accuracy: float | None
    seconds: float
    streams: tuple[Stream, ...]


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """The compiled model; ``site_channels`` is the sum over its sites."""

    name: str
    sha256: str
    macs: int
    parameters: int
    sites: int
    site_channels: int


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What the firmware occupies; ``code_bytes`` 0 where it is unknown."""

    arena_bytes: int
    weights_bytes: int
    adapt_state_bytes: int
    code_bytes: int


class BoardRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The board that answered; ``chip`` and ``port`` null where none did."""

    id: str
    chip: str | None
    build: str
    port: str | None


class DataRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The images streamed; ``images`` is the length of one whole stream."""

    spec: str
    images: int
    severity: int
    seed: int
    sha256: str


class LayerTime(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of a profile; ``ticks`` the median over its images."""

    name: str
    op: str
    macs: int
    ticks: int


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What the layers take under one mode, by the device's clock.

    Attributes:
        images: Over which medians were taken.
        unit: Of a tick.
        total: Ticks of a whole inference. The first layer's include the input's
            conversion; what follows the last one is in the total alone.
    """

    adapt: str
    images: int
    unit: str
    ticks_per_us: int
    total: int
    layers: tuple[LayerTime, ...]


class Reset(msgspec.Struct, frozen=True, kw_only=True):
    """A time that the board was lost while it was streamed to.

    Attributes:
        phase: In which it was.
        adapt, stream: Which stream was cut off, as in JUnit XML.
        image: Of that, replies that had come; they count only where the run ended.
        reason: Of its restart, by its Hello or its words: ``unknown``, ``power_on``,
            ``software``, ``panic``, ``watchdog``, ``brownout``, ``deep_sleep``; where
            neither tells of one, ``disconnect`` of a line and ``silent`` of a board.
        boot_count: The board's, after that; null where it did not come back.
        text: What it said of it outside frames; may be empty.
    """

    phase: str
    adapt: str
    stream: str
    image: int
    reason: str
    boot_count: int | None
    text: str


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``result.json``.

    Attributes:
        reasons: Why it is no pass.
        interrupted: The user ended the run, which is then not complete.
        phase: In which a run ended that is not complete: ``connect``, ``hello``,
            ``stream`` or ``finish``; null where it is, or the user ended it.
        resets: Times that the board was lost, in order.
        profile: Of each mode, where it was asked for.
        finished: When the run ended, with its time zone.
        baseline: What the regression gate found, where one was set.
    """

    schema: str
    tool: dict[str, str]
    verdict: Verdict
    complete: bool
    model: Model
    memory: Memory
    board: BoardRecord
    data: DataRecord
    runs: tuple[Run, ...]
    gain: dict[str, float]
    reasons: tuple[str, ...] = ()
    interrupted: bool = False
    phase: str | None = None
    resets: tuple[Reset, ...] = ()
    profile: tuple[Profile, ...] = ()
    finished: datetime | None = None
    baseline: BaselineRecord | None = None

    def run(self, adapt: str) -> Run | None:
        """Return the run under a canonical mode, if there is one."""
        return next((run for run in self.runs if run.adapt == adapt), None)


class _Stamp(msgspec.Struct, frozen=True):
    """What all of refold's files have: read first, for the rest depends on it."""

    schema: str = ""


def tool_versions() -> dict[str, str]:
    """Return the versions every result is stamped with."""
    libraries = {name: version(name) for name in LIBRARIES}
    return {"refold": VERSION, **libraries, "python": python_version()}


def write_result(result: Result, path: Path) -> None:
    """Write ``result`` as indented JSON; see :func:`write_text`."""
    encoded = msgspec.json.format(msgspec.json.encode(result), indent=2)
    write_text(path, encoded.decode() + "\n")


def load_result(path: Path) -> Result:
    """Read a ``result.json``.

    Raises:
        UserError: The file is missing, no result, or of another schema.
    """
    try:
        content = path.read_bytes()
        schema = msgspec.json.decode(content, type=_Stamp).schema
        if schema in (SCHEMA, ""):
            return msgspec.json.decode(content, type=Result)
    except OSError as error:
        raise UserError(
            f"cannot read {path}: {error.strerror}; expected a result.json that "
            "'refold run --json' wrote"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(
            f"{path} is no refold result: {error}; expected a result.json that "
            "'refold run --json' wrote"
        ) from None
    raise UserError(
        f"{path} has schema '{schema}', expected '{SCHEMA}'; read it with the refold "
        "that wrote it"
    )
