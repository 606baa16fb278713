"""One npz file: ``labels``, ``clean`` and ``<corruption>_<severity>``, NHWC.

Pixels are uint8. For a model compiled with ``--input tensor`` they may be float32
values of its input, channels last; of several inputs, all elements in model order.
"""

from __future__ import annotations

import zipfile
import zlib
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from refold.corrupt import CORRUPTIONS, SEVERITIES
from refold.data.dataset import DataSet, ReadyArrays, as_labels
from refold.data.request import Request, by
from refold.errors import UserError

_LAYOUT = (
    "arrays labels [N], clean and <corruption>_<severity>, uint8 [N, H, W, C] or, as "
    "values of the input tensor, float32 [N, ...]"
)
_KINDS = (np.dtype(np.uint8), np.dtype(np.float32))


def load_npz(request: Request) -> DataSet:
    """Read ``npz:PATH``: the first images of each array."""
    path = request.path
    shapes = _image_shapes(request, path)
    streams = {
        (name, severity): f"{name}_{severity}"
        for name in CORRUPTIONS
        for severity in SEVERITIES
        if f"{name}_{severity}" in shapes
    }
    if not streams and "clean" not in shapes:
        raise UserError(
            f"{request.spec}: found the arrays {', '.join(shapes) or 'none'}; "
            f"expected {_LAYOUT}"
        )
    labels = as_labels(_read(request, path, "labels"), request.spec)
    for name in ("clean", *streams.values()):
        if name in shapes:
            _check(request, name, shapes[name], len(labels))
    shape = shapes["clean" if "clean" in shapes else next(iter(streams.values()))]
    images = np.empty((0, *shape[1:]), np.uint8)
    if "clean" in shapes:
        images = _read(request, path, "clean")
    readers = {s: partial(_read, request, path, n) for s, n in streams.items()}
    return DataSet(
        spec=request.spec,
        images=images,
        labels=labels,
        classes=(),
        ready=ReadyArrays(readers) if readers else None,
    )


def _image_shapes(request: Request, path: Path) -> dict[str, tuple[int, ...]]:
    """Shapes from the headers alone; () for what is of another type."""
    shapes: dict[str, tuple[int, ...]] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                with archive.open(member) as stream:
                    shape, dtype = _header(stream)
                shapes[member.removesuffix(".npy")] = shape if dtype in _KINDS else ()
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UserError(
            f"{request.spec}: {path} is no readable npz ({error}); expected {_LAYOUT}"
        ) from error
    return shapes


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an .npy stream."""
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    return shape, dtype


def _check(request: Request, name: str, shape: tuple[int, ...], count: int) -> None:
    rank = 4 if request.shape is None else 1 + len(request.shape)
    if len(shape) != rank or shape[0] < count:
        raise UserError(
            f"{request.spec}: array {name} is {by(shape) or 'not uint8'} for {count} "
            f"labels; expected {_LAYOUT}"
        )
    request.check_shape(shape[1:])


def _read(request: Request, path: Path, name: str) -> NDArray[Any]:
    """Read the first rows of one array."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            values: NDArray[Any] = arrays[name]
    except KeyError as error:
        raise UserError(
            f"{request.spec}: {path} has no array {name}; expected {_LAYOUT}"
        ) from error
    except (OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"{request.spec}: array {name} of {path} cannot be read ({error}); "
            "write the file again"
        ) from error
    return values[: request.limit] if values.ndim else values
