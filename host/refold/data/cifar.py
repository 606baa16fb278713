"""CIFAR-10 in the forms people have it: class folders, zips, official batches."""

from __future__ import annotations

import pickle
import tarfile
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from refold.data.dataset import I64, U8, DataSet, as_labels
from refold.data.folders import read_classes
from refold.data.request import Request
from refold.errors import UserError

CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
_BATCHES = {
    "train": tuple(f"data_batch_{i}" for i in range(1, 6)),
    "test": ("test_batch",),
}
_BATCHES_FOLDER = "cifar-10-batches-py"
_TAR_ENDINGS = (".tar.gz", ".tgz", ".tar")


def load_cifar10(request: Request) -> DataSet:
    """Read ``cifar10:PATH``, whichever form lies there."""
    path = request.path
    if path.name.endswith(_TAR_ENDINGS):
        return _read_batches(request, path, _unpack)
    if (path / "train.zip").exists() or (path / "test.zip").exists():
        return _read_zip_of_split(request, path)
    for folder in (path, path / _BATCHES_FOLDER):
        if any((folder / name).exists() for name in ("data_batch_1", "test_batch")):
            return _read_batches(request, folder, _read_loose)
    return _read_class_folders(request, path)


def _read_zip_of_split(request: Request, folder: Path) -> DataSet:
    path = folder / f"{request.split}.zip"
    if not path.exists():
        raise UserError(
            f"{request.spec}: the {request.split} split is wanted and {path} does not "
            "exist; put it there or name the other split (#train, #test)"
        )
    return _read_class_folders(replace(request, split_given=False), path)


def _read_class_folders(request: Request, path: Path) -> DataSet:
    data = read_classes(request, path, resize=False)
    if data.classes != CLASSES:
        raise UserError(
            f"{request.spec}: found the class folders {', '.join(data.classes)}; "
            f"expected {', '.join(CLASSES)}; for other classes use folder:PATH"
        )
    return data


# --- official Python batches -------------------------------------------------


class _Batch(pickle.Unpickler):
    """Unpickles NumPy arrays and plain containers only: a file is no program."""

    _ALLOWED = frozenset({"_reconstruct", "ndarray", "dtype", "scalar"})

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] == "numpy" and name in self._ALLOWED:
            return super().find_class(module.replace("numpy.core", "numpy._core"), name)
        if (module, name) == ("_codecs", "encode"):
            return super().find_class(module, name)
        raise pickle.UnpicklingError(f"{module}.{name} has no place in a CIFAR batch")


def _read_batches(
    request: Request, path: Path, read: Callable[[Path, str], bytes]
) -> DataSet:
    """Read batches in order until the limit is reached."""
    images: list[U8] = []
    labels: list[I64] = []
    for name in _BATCHES[request.split]:
        try:
            pixels, classes = _parse_batch(request, read(path, name))
        except (OSError, EOFError, KeyError, ValueError, *_UNREADABLE) as error:
            raise UserError(
                f"{request.spec}: {name} of {path} cannot be read ({error}); expected "
                f"the official {_BATCHES_FOLDER} files; download them again"
            ) from error
        images.append(pixels)
        labels.append(classes)
        if request.limit and sum(map(len, labels)) >= request.limit:
            break
    used = np.concatenate(images)[: request.limit]
    request.check_shape(used.shape[1:])
    return DataSet(
        spec=request.spec,
        images=used,
        labels=np.concatenate(labels)[: request.limit],
        classes=CLASSES,
    )


_UNREADABLE = (pickle.UnpicklingError, tarfile.TarError, AttributeError, TypeError)


def _parse_batch(request: Request, content: bytes) -> tuple[U8, I64]:
    """Give images [N, 32, 32, 3] and labels [N] of one batch."""
    batch = _Batch(BytesIO(content), encoding="bytes").load()
    planes = np.asarray(batch[b"data"], np.uint8).reshape(-1, 3, 32, 32)
    return planes.transpose(0, 2, 3, 1), as_labels(batch[b"labels"], request.spec)


def _read_loose(folder: Path, name: str) -> bytes:
    return (folder / name).read_bytes()


def _unpack(archive: Path, name: str) -> bytes:
    with tarfile.open(archive) as files:
        for member in files:
            if PurePosixPath(member.name).name == name:
                content = files.extractfile(member)
                if content is not None:
                    return content.read()
    raise OSError("the archive has no such file")
