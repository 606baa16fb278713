"""What a run has seen, and the result and verdict that follow from it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from msgspec import structs

from refold import bounds, score
from refold.baseline import compare
from refold.build import Build
from refold.deadline import Deadline
from refold.device import Hello, Reply
from refold.errors import InfraError, during
from refold.job import Job
from refold.modes import Mode
from refold.phase import Phase
from refold.placement import constants_bytes
from refold.power.recorder import Energy
from refold.result import (
    SCHEMA,
    BoardRecord,
    DataRecord,
    Memory,
    Model,
    Profile,
    Reset,
    Result,
    Run,
    Verdict,
    tool_versions,
)
from refold.schedule import CLEAN, Step

FINISH_S = 60.0
FINISH_IMAGE_S = 30.0
"""How long the host may take to check the streams: once, and for each image."""


@dataclass(frozen=True, eq=False)
class Entry:
    """One stream's replies; ``checked`` gives the differing positions."""

    step: Step
    replies: Sequence[Reply]
    seconds: float
    checked: Future[tuple[int, ...]] | None
    energy: Energy | None = None

    @property
    def mismatches(self) -> int | None:
        """How many images differ; waits for the check. None without one."""
        return None if self.checked is None else len(self.checked.result())


@dataclass(eq=False)
class Ledger:
    """What has been seen so far; grows by one entry a stream."""

    hello: Hello | None = None
    port: str | None = None
    failure: str | None = None
    phase: Phase | None = None
    interrupted: bool = False
    resets: list[Reset] = field(default_factory=list)
    profiles: list[Profile] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def fail(self, error: InfraError) -> None:
        """Enter what ended the run; what came first counts."""
        if self.failure is None:
            self.failure, self.phase = str(error), error.phase

    def await_checks(self, deadline: Deadline) -> None:
        """Wait until every entry is checked; what is late counts as not checked.

        Raises:
            InfraError: The host takes too long, or the deadline passed.
        """
        waiting = [entry for entry in self.entries if entry.checked is not None]
        images = sum(len(entry.replies) for entry in waiting)
        limit_s = FINISH_S + images * FINISH_IMAGE_S
        late = wait(
            [entry.checked for entry in waiting if entry.checked is not None],
            timeout=min(limit_s, deadline.left),
        ).not_done
        if late:
            self.entries = [
                replace(entry, checked=None) if entry.checked in late else entry
                for entry in self.entries
            ]
            with during(Phase.FINISH):
                deadline.require()
                raise InfraError(
                    f"the parity check of {images} images took longer than "
                    f"{limit_s:g} s",
                    "free this computer of other work, or run with --no-check",
                )


def conclude(job: Job, built: Build, ledger: Ledger) -> Result:
    """Compose the result and judge it; a lost board leaves bounds unjudged."""
    result = _compose(job, built, ledger)
    complaints = tuple(_parity_complaints(job, ledger))
    reasons = complaints
    verdict: Verdict = "pass"
    if ledger.failure is not None:
        verdict, reasons = "infra", (*reasons, ledger.failure)
    else:
        reasons = (*reasons, *bounds.missed(job.bounds, result))
        if job.options.baseline is not None:
            record = compare(job.options.baseline, result)
            result = structs.replace(result, baseline=record)
            reasons = (*reasons, *map(str, record.worse))
    if complaints or (reasons and verdict == "pass"):
        verdict = "fail"
    return structs.replace(result, verdict=verdict, reasons=reasons)


def _compose(job: Job, built: Build, ledger: Ledger) -> Result:
    manifest, options, hello = job.artefact.manifest, job.options, ledger.hello
    runs = tuple(_run_record(job, ledger, mode) for mode in job.modes)
    return Result(
        schema=SCHEMA,
        tool=tool_versions(),
        verdict="pass",
        complete=ledger.failure is None,
        model=Model(
            name=manifest.model.name,
            sha256=manifest.model.sha256,
            macs=manifest.model.macs,
            parameters=manifest.model.parameters,
            sites=len(manifest.sites),
            site_channels=sum(site.channels for site in manifest.sites),
        ),
        memory=Memory(
            arena_bytes=manifest.memory.arena_bytes,
            weights_bytes=constants_bytes(
                job.artefact.qgraph, job.board, search=manifest.search
            ),
            adapt_state_bytes=manifest.memory.adapt_state_bytes,
            code_bytes=built.code_bytes or 0,
        ),
        board=BoardRecord(
            id=job.board.id,
            chip=hello.chip if hello else None,
            build=built.build_hash,
            port=ledger.port,
        ),
        data=DataRecord(
            spec=options.data,
            images=len(job.data.labels),
            severity=options.severity,
            seed=options.schedule.seed,
            sha256=job.data.sha256,
        ),
        runs=runs,
        gain=score.gains(runs),
        interrupted=ledger.interrupted,
        phase=ledger.phase,
        resets=tuple(ledger.resets),
        profile=tuple(ledger.profiles),
        finished=datetime.now(UTC).replace(microsecond=0),
    )


def _run_record(job: Job, ledger: Ledger, mode: Mode) -> Run:
    entries = [entry for entry in ledger.entries if entry.step.mode is mode]
    manifest = job.artefact.manifest
    part = manifest.search.cut.macs / manifest.model.macs if manifest.search else 1.0
    streams = [
        score.score_stream(
            entry.step.key,
            entry.replies,
            labels=job.data.labels[entry.step.indices],
            parity_mismatches=entry.mismatches,
            scored=slice(job.output.first, job.output.first + job.output.count),
            energy=entry.energy,
            candidate_part=part,
        )
        for entry in entries
    ]
    return score.score_run(
        mode.text, streams, seconds=sum(entry.seconds for entry in entries)
    )


def _parity_complaints(job: Job, ledger: Ledger) -> Iterator[str]:
    """Say, for each stream that differs, where first and how to run it again."""
    for entry in ledger.entries:
        if entry.mismatches and entry.checked is not None:
            first = entry.checked.result()[0]
            yield (
                f"parity: {entry.mismatches} of {len(entry.replies)} images differ "
                f"from the host model in stream {entry.step.corruption} under "
                f"'{entry.step.mode.text}', first image {first}; run it alone with: "
                f"{_again(job, entry.step)}"
            )


def _again(job: Job, step: Step) -> str:
    """Return the command that repeats one stream."""
    options = job.options
    words = ["refold", "run", str(job.artefact.path), "--data", options.data]
    words += ["--board", options.board, "--severity", str(options.severity)]
    words += ["--corruptions", "none" if step.corruption == CLEAN else step.corruption]
    words += ["--adapt", step.mode.text, "--seed", str(options.schedule.seed)]
    if options.images is not None:
        words += ["--images", str(options.images)]
    if options.output is not None:
        words += ["--output", options.output]
    return shlex.join(words)
