"""The artefact: one directory with everything that compiling a model gives.

It appears whole or not at all: it is written beside its place and renamed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import onnx

from refoldc.emit import Sources
from refoldc.errors import BadOptions, RefoldcError
from refoldc.ir import QGraph
from refoldc.manifest import SCHEMA, InputRecord, Manifest
from refoldc.serialise import load_graph, save_graph, write_npz

__all__ = ["Artefact", "InputRecord", "Manifest", "load_artefact", "write_artefact"]

MANIFEST = "refold.json"
REFERENCE = "reference.npz"
GOLDEN = "golden.npz"
GOLDEN_INPUT = "input"


@dataclass(frozen=True, eq=False)
class Artefact:
    """A compiled model on disk."""

    path: Path
    manifest: Manifest
    qgraph: QGraph


def write_artefact(
    out: Path,
    *,
    manifest: Manifest,
    graph: QGraph,
    sources: Sources,
    qdq: onnx.ModelProto,
    golden: Mapping[str, np.ndarray],
) -> Artefact:
    """Write an artefact to ``out``, replacing one that is there.

    Raises:
        BadOptions: ``out`` is in the way, see :func:`check_target`.
    """
    check_target(out)
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    with _replacing(out) as folder:
        (folder / "model.c").write_text(sources.model_c, encoding="ascii")
        (folder / "model.h").write_text(sources.model_h, encoding="ascii")
        (folder / MANIFEST).write_bytes(text + b"\n")
        (folder / "model.int8.onnx").write_bytes(qdq.SerializeToString())
        write_npz(folder / GOLDEN, golden)
        save_graph(graph, folder / REFERENCE)
    return Artefact(out, manifest, graph)


def load_artefact(path: Path) -> Artefact:
    """Read an artefact.

    Raises:
        RefoldcError: The directory holds none, or one of another version.
    """
    remedy = f"make it with 'refold compile MODEL -o {path}'"
    try:
        content = (path / MANIFEST).read_bytes()
        schema = msgspec.json.decode(content, type=_Header).schema
        if schema != SCHEMA:
            raise RefoldcError(
                f"{path} was written by another version of refold ({schema}, this one "
                f"reads {SCHEMA}); {remedy}"
            )
        manifest = msgspec.json.decode(content, type=Manifest)
        return Artefact(path, manifest, load_graph(path / REFERENCE))
    except (OSError, msgspec.MsgspecError, ValueError, KeyError) as error:
        raise RefoldcError(f"{path} is no compiled model: {error}; {remedy}") from error


class _Header(msgspec.Struct):
    schema: str


def check_target(out: Path) -> None:
    """Refuse to write where something else than an artefact would be lost.

    Raises:
        BadOptions: ``out`` is a file, or a non-empty directory that is no artefact.
    """
    if out.exists() and not out.is_dir():
        raise BadOptions(
            f"{out} is a file, expected a directory to write; choose another"
        )
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file():
        raise BadOptions(
            f"{out} is not empty and holds no compiled model; choose another directory "
            "or empty it"
        )


@contextmanager
def _replacing(out: Path) -> Iterator[Path]:
    """A folder that takes the place of ``out`` if the block succeeds."""
    out = Path(os.path.abspath(out))
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = out.with_name(f".{out.name}.{os.getpid()}.new")
    stale = fresh.with_suffix(".old")
    fresh.mkdir()
    try:
        yield fresh
        if out.exists():
            out.rename(stale)
        fresh.rename(out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        if stale.exists() and not out.exists():
            stale.rename(out)
        shutil.rmtree(stale, ignore_errors=True)
