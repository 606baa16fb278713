"""An integer graph as arrays and JSON, and the hash that identifies it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from refoldc import ir, ports
from refoldc.ir import QGraph

_TYPES: Mapping[str, type] = {
    kind.__name__: kind
    for kind in (
        *(ir.QConv, ir.QDense, ir.QAdd, ir.QMul, ir.QPool, ir.QTable, ir.QStored),
        *(ir.QConcat, ir.ConcatPart, ir.QPick),
        *(ports.Input, ports.Output),
        *(ir.QGraph, ir.InputSpec, ir.Quant, ir.Requant, ir.Site),
    )
}
_STRUCTURE = "graph"

Arrays = dict[str, np.ndarray]


def save_graph(graph: QGraph, path: Path) -> None:
    """Write ``graph`` as an npz file; equal graphs give equal bytes."""
    write_npz(path, _pack(graph))


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays of any names for ``numpy.load``; equal arrays, equal bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w") as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def load_graph(path: Path) -> QGraph:
    """Read what :func:`save_graph` wrote.

    Raises:
        Exception: Of any kind, whatever zipfile, numpy and json make of damage.
    """
    # Opened here because np.load leaves the file open where it is damaged.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        structure = json.loads(bytes(arrays[_STRUCTURE]).decode())
        graph = _decode(structure, arrays)
    if not isinstance(graph, QGraph):
        raise ValueError(f"{path} holds no integer graph")
    return graph


def graph_hash(graph: QGraph) -> bytes:
    """sha256 over everything the device computes with: 32 bytes."""
    digest = hashlib.sha256()
    for name, array in sorted(_pack(graph).items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.digest()


def _pack(graph: QGraph) -> Arrays:
    arrays: Arrays = {}
    text = json.dumps(_encode(graph, "", arrays), sort_keys=True)
    return {_STRUCTURE: np.frombuffer(text.encode(), np.uint8), **arrays}


def _encode(value: Any, path: str, arrays: Arrays) -> Any:
    """JSON for ``value``; arrays go to ``arrays`` under their path."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if dataclasses.is_dataclass(value):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        encoded = {k: _encode(v, f"{path}.{k}", arrays) for k, v in fields.items()}
        return {"type": type(value).__name__, "fields": encoded}
    if isinstance(value, tuple):
        return [_encode(v, f"{path}.{i}", arrays) for i, v in enumerate(value)]
    if isinstance(value, Mapping):
        items = {k: _encode(v, f"{path}.{k}", arrays) for k, v in value.items()}
        return {"map": items}
    return value


def _decode(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, list):
        return tuple(_decode(v, arrays) for v in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "map" in value:
        return {k: _decode(v, arrays) for k, v in value["map"].items()}
    fields = {k: _decode(v, arrays) for k, v in value["fields"].items()}
    return _TYPES[value["type"]](**fields)
