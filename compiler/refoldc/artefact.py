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
from tempfile import TemporaryDirectory

import msgspec
import numpy as np
import onnx

from refoldc.emit import Sources
from refoldc.errors import BadOptions, RefoldcError
from refoldc.ir import QGraph
from refoldc.manifest import SCHEMA, InputRecord, Manifest
from refoldc.serialise import graph_hash, load_graph, save_graph, write_npz

__all__ = ["Artefact", "InputRecord", "Manifest", "load_artefact", "write_artefact"]

MANIFEST = "refold.json"
REFERENCE = "reference.npz"
GOLDEN = "golden.npz"
GOLDEN_INPUT = "input"
LAYERS = "layers.npz"


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
    layers: Mapping[str, np.ndarray] | None = None,
) -> Artefact:
    """Write an artefact to ``out``, replacing one that is there.

    Args:
        out: The directory.
        manifest, graph, sources, qdq, golden: What it holds.
        layers: What else to write for debugging, see ``compare.layer_tensors``.

    Raises:
        BadOptions: ``out`` is in the way, see :func:`check_target`, or the disk
            does not take it.
        RuntimeError: What was written cannot be read: a bug.
    """
    check_target(out)
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    try:
        with replacing(out) as folder:
            (folder / "model.c").write_text(sources.model_c, encoding="ascii")
            (folder / "model.h").write_text(sources.model_h, encoding="ascii")
            (folder / MANIFEST).write_bytes(text + b"\n")
            (folder / "model.int8.onnx").write_bytes(qdq.SerializeToString())
            write_npz(folder / GOLDEN, golden)
            if layers is not None:
                write_npz(folder / LAYERS, layers)
            save_graph(graph, folder / REFERENCE)
            _check_readable(folder)
    except OSError as error:
        raise BadOptions(unwritable(out, error)) from error
    return Artefact(out, manifest, graph)


def _check_readable(folder: Path) -> None:
    """Find out now, not when the artefact is used."""
    try:
        load_artefact(folder)
    except RefoldcError as error:
        raise RuntimeError(
            f"the compiled model cannot be read back: {error}. This is a bug of "
            "refold: please report it with the model"
        ) from error


def load_artefact(path: Path) -> Artefact:
    """Read an artefact.

    Raises:
        RefoldcError: The directory holds none, one of another version, or a
            damaged one.
    """
    remedy = f"make it with 'refold compile MODEL -o {path}'"
    try:
        content = (path / MANIFEST).read_bytes()
    except OSError as error:
        what = f"{MANIFEST}: {error.strerror}"
        raise RefoldcError(f"{path} is no compiled model: {what}; {remedy}") from error
    try:
        schema = msgspec.json.decode(content, type=_Header).schema
        if schema != SCHEMA:
            raise RefoldcError(
                f"{path} was written by another version of refold ({schema}, this one "
                f"reads {SCHEMA}); {remedy}"
            )
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise RefoldcError(_damaged(path, MANIFEST, error)) from error
    try:
        graph = load_graph(path / REFERENCE)
        found = graph_hash(graph).hex()
    except Exception as error:  # a flipped bit makes zip, npy and JSON raise anything
        raise RefoldcError(_damaged(path, REFERENCE, error)) from error
    if found != manifest.model.network_sha256:
        reason = f"it is not the network that {MANIFEST} describes"
        raise RefoldcError(_damaged(path, REFERENCE, reason))
    return Artefact(path, manifest, graph)


def _damaged(path: Path, file: str, reason: object) -> str:
    return (
        f"the compiled model {path} is damaged: {file}: {reason}; make it with "
        f"'refold compile MODEL -o {path}' again"
    )


class _Header(msgspec.Struct):
    schema: str


def check_target(out: Path) -> None:
    """Refuse to write where something else than an artefact would be lost.

    Raises:
        BadOptions: ``out`` is a file, a non-empty directory that is no artefact,
            the working directory, or cannot be made.
    """
    try:
        check_place(out)
    except OSError as error:
        raise BadOptions(unwritable(out, error)) from error
    if out.exists() and not out.is_dir():
        raise BadOptions(
            f"{out} is a file, expected a directory to write; choose another"
        )
    if out.is_dir() and any(out.iterdir()) and not (out / MANIFEST).is_file():
        raise BadOptions(
            f"{out} is not empty and holds no compiled model; choose another directory "
            "or empty it"
        )


def check_place(out: Path) -> None:
    """Make the directory, and take it away again, where its parent will be.

    Raises:
        BadOptions: ``out`` is, or holds, the working directory.
        OSError: It cannot be made.
    """
    place = Path(os.path.abspath(out))
    if Path.cwd().is_relative_to(place.resolve()):
        raise BadOptions(
            f"{out} is or holds the working directory, which an artefact would replace "
            "under the shell's feet: choose another directory, such as one inside it"
        )
    base = next(folder for folder in place.parents if folder.exists())
    with TemporaryDirectory(prefix=".refold", dir=base) as trial:
        (Path(trial) / _beside(place).relative_to(base)).mkdir(parents=True)


def unwritable(out: Path, error: OSError) -> str:
    return (
        f"{out} cannot be written: {error.strerror}; choose a directory that can be "
        "made, on a disk with space"
    )


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """A folder that takes the place of ``out`` if the block succeeds."""
    out = Path(os.path.abspath(out))
    out.parent.mkdir(parents=True, exist_ok=True)
    fresh = _beside(out)
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


def _beside(out: Path) -> Path:
    """Where ``out`` is put together: hidden, of this process alone."""
    return out.with_name(f".{out.name}.{os.getpid()}.new")
