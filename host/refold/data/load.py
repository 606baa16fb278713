"""From a data spec to its source."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from math import prod
from types import MappingProxyType
from typing import get_args

import numpy as np

from refold.data.benchmark import load_cifar10c, load_cifar100c, load_tiny_imagenet_c
from refold.data.cifar import load_cifar10
from refold.data.dataset import DataSet
from refold.data.digits import load_digits
from refold.data.folders import load_folder
from refold.data.npz import load_npz
from refold.data.request import Request, Shape, Split
from refold.errors import UserError

_logger = logging.getLogger(__name__)


RANDOM_BYTES = 1 << 30
"""Most pixels that are made up."""


def _load_random(request: Request) -> DataSet:
    """Make ``random:N``: uniform noise, 32x32x3 unless the model says otherwise."""
    shape = request.shape or (32, 32, 3)
    most = RANDOM_BYTES // prod(shape)
    try:
        count = int(request.argument)
    except ValueError:
        count = 0
    count = min(count, request.limit or count)
    if not 1 <= count <= most:
        raise UserError(
            f"{request.spec}: expected random:N with a number of images from 1 to "
            f"{most}, which take 1 GiB"
        )
    _logger.warning(
        "%s is noise: ranges calibrated on it and accuracies mean nothing; "
        "use it only to see whether a model compiles and runs",
        request.spec,
    )
    rng = np.random.default_rng(0)
    return DataSet(
        spec=request.spec,
        images=rng.integers(0, 256, (count, *shape), np.uint8),
        labels=rng.integers(0, request.classes or 10, count),
        classes=(),
    )


_LOADERS: Mapping[str, Callable[[Request], DataSet]] = MappingProxyType(
    {
        "digits": load_digits,
        "cifar10": load_cifar10,
        "cifar10c": load_cifar10c,
        "cifar100c": load_cifar100c,
        "tiny-imagenet-c": load_tiny_imagenet_c,
        "folder": load_folder,
        "npz": load_npz,
        "random": _load_random,
    }
)

SPECS = (
    "digits",
    "cifar10:PATH[#train|#test]",
    "cifar10c:PATH",
    "cifar100c:PATH",
    "tiny-imagenet-c:PATH",
    "folder:PATH[#train|#test]",
    "npz:PATH",
    "random:N",
)
"""How data specs are written."""


def load_data(
    spec: str,
    *,
    split: Split,
    limit: int | None = None,
    shape: Shape | None = None,
    classes: int | None = None,
) -> DataSet:
    """Load the images a spec names.

    Args:
        spec: One of the forms in :data:`SPECS`.
        split: ``train`` or ``test``, where the source has both and the spec does
            not end in ``#train`` or ``#test``.
        limit: Most images to use: round-robin over the classes from class
            folders, else the first.
        shape: (H, W, C) the model takes; None for the data's own.
        classes: The model tells apart; None where labels do not matter.

    Returns:
        At least one image.

    Raises:
        UserError: The spec is unknown, or its data is missing, unreadable, empty,
            too large for the memory, of another shape or of other classes.
    """
    kind, request = _parse(spec, split, limit)
    request = replace(request, shape=shape, classes=classes)
    try:
        data = _LOADERS[kind](request)
    except MemoryError as error:
        raise UserError(
            f"{spec} does not fit into this computer's memory; use fewer images"
        ) from error
    if not len(data.labels):
        raise UserError(f"{spec} has no images; give data with at least one")
    request.check_labels(data.labels)
    return data


def _parse(spec: str, split: Split, limit: int | None) -> tuple[str, Request]:
    """Return the kind of source and the request to it, model aside."""
    text, given, asked = spec, False, split
    for name in get_args(Split):
        if spec.endswith(f"#{name}"):
            text, given, asked = spec.removesuffix(f"#{name}"), True, name
    kind, _, argument = text.partition(":")
    if kind not in _LOADERS:
        close = get_close_matches(kind, _LOADERS, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        raise UserError(
            f"unknown data spec {spec!r}{hint}; expected one of {', '.join(SPECS)}"
        )
    if (kind == "digits") == bool(argument):
        wanted = next(s for s in SPECS if s.partition(":")[0] == kind)
        raise UserError(f"data spec {spec!r} is incomplete or too long: write {wanted}")
    if limit is not None and limit < 1:
        raise UserError(f"{spec}: cannot use {limit} images; ask for at least 1")
    return kind, Request(spec, argument, asked, given, limit)
