"""The test streams of the results, the orders they come in, and the networks."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from held_out import CALIBRATION_IMAGES, MEAN, STD, Stream
from numpy.typing import NDArray
from work import Work, file_hash, source_hash

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact
from refoldc.inspection import inspect_model
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model
from refoldc.rank_sites import IMAGES as RANKED_IMAGES
from refoldc.ranking import auto_count

from refold.corrupt import CORRUPTIONS
from refold.data import DataSet, load_data
from refold.held_out import corrupted_versions
from refold.modes import Mode
from refold.schedule import Schedule, plan_steps

SEVERITY = 5
ORDERS = 5
COMPILER = ("compiler/refoldc", "host/refold/corrupt", "host/refold/held_out.py")
"""Sources that an artefact follows from."""
FIRMWARE = ("firmware/include", "firmware/src")

Order = NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """A network, how it is compiled, and what calibrates it.

    Attributes:
        calib: Data specification.
        sites, adapt, mean, std: As :class:`CompileOptions` has them.
    """

    model: Path
    calib: str
    sites: str = "all"
    adapt: str = "forge"
    mean: tuple[float, ...] = MEAN
    std: tuple[float, ...] = STD


def load_streams(spec: str, *, limit: int | None = None) -> dict[str, Stream]:
    """The clean stream, then the corrupted ones in table order."""
    data = load_data(spec, split="test", limit=limit)
    images = {
        "clean": data.images,
        **{name: data.stream(name, SEVERITY, 0) for name in CORRUPTIONS},
    }
    return {name: Stream(found, data.labels) for name, found in images.items()}


def streams_hash(streams: Mapping[str, Stream]) -> str:
    """SHA-256 of names, images and labels."""
    digest = hashlib.sha256()
    for name, stream in streams.items():
        digest.update(f"{name} {stream.images.shape}\n".encode())
        for array in (stream.images, stream.labels):
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def orders(images: int) -> list[Order]:
    """Those of ``refold run --repeats 5 --shuffle``."""
    off = Mode("off", AdaptConfig(method="off"))
    schedule = Schedule(repeats=ORDERS, shuffle=True)
    steps = plan_steps(schedule, (off,), [("clean", 0)], images=images)
    return [step.indices for step in steps]


def compiled_once(work: Work, source: Source) -> Artefact:
    """The artefact, compiled where the work folder does not hold it yet."""
    shape = inspect_model(source.model).input_shape
    data = load_data(source.calib, split="train", limit=CALIBRATION_IMAGES, shape=shape)
    depends = {
        "model": file_hash(source.model),
        "calibration": data.sha256,
        "options": [source.sites, source.adapt, source.mean, source.std],
        "compiler": source_hash(*COMPILER),
    }
    return work.artefact(
        source.model.stem, depends, lambda out: _compile(source, data, out)
    )


def _compile(source: Source, data: DataSet, out: Path) -> Artefact:
    options = CompileOptions(
        mean=source.mean, std=source.std, sites=source.sites, adapt=source.adapt
    )
    ranked = auto_count(source.sites) is not None
    return compile_model(
        source.model,
        data.images,
        out,
        options=options,
        corrupted=corrupted_versions(data, RANKED_IMAGES) if ranked else None,
    )
