"""Bit-exact parity, checked beside the stream.

What the device answered is handed, one stream at a time, to worker processes
that run the host model over the same images: :class:`refoldc.reference.Reference`,
or :class:`refold.twin.Twin` where PACE is on. Streaming never waits for them, and
they give way to it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.artefact import load_artefact
from refoldc.reference import Reference

from refold.device import Reply
from refold.twin import Twin

BLAS_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
NICENESS = 10

HostModel = Reference | Twin


@dataclass(frozen=True, eq=False, kw_only=True)
class Claim:
    """What a device says about one stream.

    Attributes:
        config: The adaptation it was configured with.
        start: Its adaptation state before the first image; None is the clean one,
            empty that of a model without sites.
        images: As it received them [N, ...].
        logits: int32 [N, C].
        scores: Shift scores, float32 [N].
        adapted: bool [N].
        passes: Forward passes of each image.
        gates: Whether each image found the gate open; None without a gate.
        end: Its state after the last image; None where it could not be read.
    """

    config: AdaptConfig
    start: bytes | None
    images: NDArray[np.generic]
    logits: NDArray[np.int32]
    scores: NDArray[np.float32]
    adapted: NDArray[np.bool_]
    passes: tuple[int, ...]
    gates: tuple[bool | None, ...]
    end: bytes | None


def claim(
    config: AdaptConfig,
    images: NDArray[np.generic],
    replies: Sequence[Reply],
    *,
    start: bytes | None,
    end: bytes | None,
) -> Claim:
    """Gather the replies to the first ``len(replies)`` images into a claim."""
    return Claim(
        config=config,
        start=start,
        images=images[: len(replies)],
        logits=np.array([r.logits for r in replies], dtype=np.int32),
        scores=np.array([r.shift_score for r in replies], dtype=np.float32),
        adapted=np.array([r.adapted for r in replies], dtype=np.bool_),
        passes=tuple(r.forward_passes for r in replies),
        gates=tuple(r.gate for r in replies),
        end=end,
    )


def differing(reference: HostModel, claimed: Claim) -> tuple[int, ...]:
    """Return the positions of images whose outcome differs in any bit.

    A state that differs after the last image counts as that image's.
    """
    reference.configure(claimed.config)
    if claimed.start:
        reference.load_state(claimed.start)
    wrong = []
    for index, image in enumerate(claimed.images):
        outcome = reference.infer(image)
        same = (
            np.array_equal(outcome.logits, claimed.logits[index])
            and np.float32(outcome.shift_score).tobytes()
            == claimed.scores[index].tobytes()
            and outcome.adapted == claimed.adapted[index]
            and outcome.gate == claimed.gates[index]
            and outcome.forward_passes == claimed.passes[index]
        )
        if not same:
            wrong.append(index)
    last = len(claimed.images) - 1
    strayed = claimed.end is not None and claimed.end != _state(reference)
    if strayed and last not in wrong:
        wrong.append(last)
    return tuple(wrong)


def _state(reference: HostModel) -> bytes:
    """Return the state as a device saves it: nothing where nothing can adapt."""
    return reference.save_state() if reference.graph.sites else b""


class Checker:
    """Checks claims in worker processes, each with its own host model."""

    def __init__(self, executor: Executor) -> None:
        """Use ``executor``, whose workers were started by :func:`checking`."""
        self._executor = executor

    def submit(self, claimed: Claim) -> Future[tuple[int, ...]]:
        """Queue a claim; the future gives what :func:`differing` returns."""
        return self._executor.submit(_check, claimed)


@contextmanager
def checking(
    artefact: Path, *, twin: Path | None = None, workers: int | None = None
) -> Iterator[Checker]:
    """Start workers for one artefact and end them with the block.

    A block left by an exception drops all claims that are not checked yet.

    Args:
        artefact: Compiled model directory.
        twin: The artefact's twin, where a mode with PACE is to be checked.
        workers: Processes; by default one a CPU.
    """
    context = multiprocessing.get_context("spawn")
    lifeline, held = context.Pipe(duplex=False)
    with lifeline, held, _single_threaded_blas():
        executor = ProcessPoolExecutor(
            max_workers=workers or os.cpu_count() or 1,
            mp_context=context,
            initializer=_start_worker,
            initargs=(artefact, twin, lifeline),
        )
        try:
            yield Checker(executor)
            executor.shutdown()
        except BaseException:
            held.close()
            executor.shutdown(cancel_futures=True)
            raise


@contextmanager
def _single_threaded_blas() -> Iterator[None]:
    """Have processes started in the block use one thread each.

    The variables are read when NumPy is imported, so this process, which has
    imported it, is not affected.
    """
    before = {name: os.environ.get(name) for name in BLAS_THREADS}
    os.environ.update(dict.fromkeys(BLAS_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# --- in the worker ---------------------------------------------------------------

_reference: Reference
_twin: Twin | None


def _start_worker(artefact: Path, twin: Path | None, lifeline: Connection) -> None:
    global _reference, _twin  # noqa: PLW0603 - a worker process serves one artefact
    # Ctrl-C reaches the whole group; the parent ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, args=(lifeline,), daemon=True).start()
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    graph = load_artefact(artefact).qgraph
    _reference = Reference(graph)
    _twin = Twin(twin, graph) if twin else None


def _end_with_parent(lifeline: Connection) -> None:
    """End this process when the other end of ``lifeline`` closes.

    The parent closes it when nobody waits for the outcome any more. The system
    does when the parent dies, of which a pool's workers would not hear.
    """
    lifeline.poll(None)
    os._exit(1)


def _check(claimed: Claim) -> tuple[int, ...]:
    if "pace" not in claimed.config.parts:
        return differing(_reference, claimed)
    if _twin is None:
        raise ValueError("no twin was given for a mode with PACE")
    return differing(_twin, claimed)
