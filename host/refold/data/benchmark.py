"""The official corrupted sets: ready-made images, no clean ones.

CIFAR-10-C and CIFAR-100-C are one ``<corruption>.npy`` each, uint8 [50000, 32,
32, 3], 10,000 rows a severity in the order of the test split, and
``labels.npy``. Tiny-ImageNet-C is ``<corruption>/<severity>/<class>/<image>``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from refold.corrupt import CORRUPTIONS, SEVERITIES
from refold.data.cifar import CLASSES
from refold.data.dataset import I64, U8, DataSet, ReadyArrays, as_labels
from refold.data.folders import read_classes
from refold.data.request import Request
from refold.errors import UserError

# --- CIFAR-10-C, CIFAR-100-C -------------------------------------------------


def load_cifar10c(request: Request) -> DataSet:
    """Read ``cifar10c:PATH``."""
    return _load_arrays(request, CLASSES)


def load_cifar100c(request: Request) -> DataSet:
    """Read ``cifar100c:PATH``; its files do not name the classes."""
    return _load_arrays(request, tuple(str(i) for i in range(100)))


def _load_arrays(request: Request, classes: tuple[str, ...]) -> DataSet:
    folder = request.path
    labels = as_labels(_open_array(request, folder / "labels.npy"), request.spec)
    present = [name for name in CORRUPTIONS if (folder / f"{name}.npy").exists()]
    if not present:
        raise UserError(
            f"{request.spec}: {folder} holds none of the arrays "
            f"{', '.join(f'{name}.npy' for name in CORRUPTIONS)}; give the unpacked "
            "folder that does"
        )
    readers = {}
    for name in present:
        array = _open_array(request, folder / f"{name}.npy")
        rows = _rows_per_severity(request, name, array, labels)
        used = min(rows, request.limit or rows)
        for severity in SEVERITIES:
            readers[name, severity] = partial(_rows, array, (severity - 1) * rows, used)
    return DataSet(
        spec=request.spec,
        images=np.empty((0, *array.shape[1:]), np.uint8),
        labels=labels[:used],
        classes=classes,
        ready=ReadyArrays(readers),
    )


def _open_array(request: Request, path: Path) -> np.ndarray:
    """Map an array; its pages are read when used."""
    try:
        return np.asarray(np.load(path, mmap_mode="r"))
    except (OSError, ValueError, EOFError) as error:
        raise UserError(
            f"{request.spec}: {path} cannot be read ({error}); expected the unpacked "
            "official files, labels.npy and one .npy a corruption"
        ) from error


def _rows_per_severity(
    request: Request, name: str, array: np.ndarray, labels: I64
) -> int:
    """Check one array; ``labels`` cover one severity or all five."""
    rows, rest = divmod(len(array), len(SEVERITIES))
    fits = array.dtype == np.uint8 and array.ndim == 4 and rest == 0
    if not fits or len(labels) not in (rows, len(array)):
        raise UserError(
            f"{request.spec}: {name}.npy is {array.dtype} {array.shape} and labels.npy "
            f"has {len(labels)} entries; expected uint8 [N, H, W, C] with N / "
            f"{len(SEVERITIES)} or N labels; get the official files again"
        )
    request.check_shape(array.shape[1:])
    return rows


def _rows(array: U8, start: int, count: int) -> U8:
    """Read rows of a mapped array into memory."""
    return np.array(array[start : start + count])


# --- Tiny-ImageNet-C ---------------------------------------------------------


def load_tiny_imagenet_c(request: Request) -> DataSet:
    """Read ``tiny-imagenet-c:PATH``."""
    root = request.path
    folders = {
        (name, severity): root / name / str(severity)
        for name in CORRUPTIONS
        for severity in SEVERITIES
        if (root / name / str(severity)).is_dir()
    }
    if not folders:
        raise UserError(
            f"{request.spec}: {root} holds no folder <corruption>/<severity>, such as "
            f"{CORRUPTIONS[0]}/5; give the unpacked folder that does"
        )
    first = read_classes(request, next(iter(folders.values())), resize=False)
    readers = {
        stream: partial(_read_like, first, request, folder)
        for stream, folder in folders.items()
    }
    return DataSet(
        spec=request.spec,
        images=first.images[:0],
        labels=first.labels,
        classes=first.classes,
        ready=ReadyArrays(readers),
    )


def _read_like(first: DataSet, request: Request, folder: Path) -> U8:
    """Read one corruption's folder, which must hold the same images."""
    data = read_classes(request, folder, resize=False)
    same_classes = data.classes == first.classes
    if not same_classes or not np.array_equal(data.labels, first.labels):
        raise UserError(
            f"{request.spec}: {folder} holds other classes or numbers of images than "
            "the first corruption's folder; unpack the official archive again"
        )
    return data.images
