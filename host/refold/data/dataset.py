"""A data set in memory, its corrupted versions made or read when asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from refold.corrupt import corrupt, image_rng
from refold.errors import UserError

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]
Stream = tuple[str, int]
"""Corruption and severity; ``("clean", 0)`` for the images as they are."""

CLEAN: Stream = ("clean", 0)


class ReadyArrays(Mapping[Stream, U8]):
    """Corrupted images a source brings along, read each time they are asked for."""

    def __init__(self, readers: Mapping[Stream, Callable[[], U8]]) -> None:
        self._readers = dict(readers)

    def __getitem__(self, stream: Stream) -> U8:
        return self._readers[stream]()

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)


@dataclass(frozen=True, eq=False, kw_only=True)
class DataSet:
    """Labelled images in stream order.

    Attributes:
        spec: What the user asked for.
        images: Clean uint8 [N, H, W, C]; [0, H, W, C] where the source has only
            corrupted ones. Or float32 [N, ...]: values of the input tensor.
        labels: int64 [N], indices into ``classes``.
        classes: Names; none where the source only numbers them.
        ready: Corrupted images the source brings along, each uint8 [N, H, W, C];
            None where it brings none.
    """

    spec: str
    images: U8
    labels: I64
    classes: tuple[str, ...]
    ready: Mapping[Stream, U8] | None = None

    @property
    def has_clean(self) -> bool:
        """The source has uncorrupted images."""
        return len(self.images) > 0

    @cached_property
    def sha256(self) -> str:
        """Of labels and clean images, or of labels and the first ready stream."""
        pixels = self.images
        if not self.has_clean and self.ready:
            pixels = self.ready[next(iter(self.ready))]
        digest = hashlib.sha256()
        for array in (self.labels.astype("<i8"), pixels):
            digest.update(str(array.shape).encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    def require(self, streams: Iterable[Stream]) -> None:
        """Check that every stream can be given, without making it.

        Raises:
            UserError: One cannot.
        """
        for stream in streams:
            if stream in (self.ready or {}) or self._can_make(stream):
                continue
            name, severity = stream
            raise UserError(
                f"{self.spec} has no images for {name} at severity {severity}, and "
                f"{self._why_not()}; choose --corruptions and --severity among "
                f"{self._has()}"
            )

    def _has(self) -> str:
        """List what the source itself brings along."""
        ready = list(self.ready or {})
        names = dict.fromkeys(name for name, _ in ready)
        severities = sorted({str(severity) for _, severity in ready})
        if not ready:
            return "none (it has clean images only)"
        return f"{', '.join(names)} at {', '.join(severities)}"

    def _can_make(self, stream: Stream) -> bool:
        """Clean images to start from, and channels the corruptions know."""
        return self.has_clean and (stream == CLEAN or self._are_pictures)

    @property
    def _are_pictures(self) -> bool:
        shape, pixels = self.images.shape[1:], self.images.dtype == np.uint8
        return pixels and len(shape) == 3 and shape[2] in (1, 3)

    def _why_not(self) -> str:
        """The reason why corruption on the fly is out of the question."""
        if self.has_clean:
            found = f"{self.images.dtype} {list(self.images.shape[1:])}"
            return f"only pixels of 1 or 3 channels can be corrupted, not {found}"
        return "no clean images to make them from"

    def stream(self, corruption: str, severity: int, seed: int) -> U8:
        """Give the images of one stream.

        Args:
            corruption: ``clean`` or one of :data:`refold.corrupt.CORRUPTIONS`.
            severity: 1..5, 0 for clean.
            seed: Of the corruptions made here; ready images ignore it.

        Returns:
            uint8 [N, H, W, C].

        Raises:
            UserError: The source neither has them nor clean images to make them.
        """
        self.require([(corruption, severity)])
        if (corruption, severity) == CLEAN:
            return self.images
        if self.ready is not None and (corruption, severity) in self.ready:
            return self.ready[corruption, severity]
        made = np.empty_like(self.images)
        for index, image in enumerate(self.images):
            rng = image_rng(seed, index, corruption, severity)
            made[index] = corrupt(image, corruption, severity, rng)
        return made


def as_labels(values: ArrayLike, spec: str) -> I64:
    """Give labels, [N] or [N, 1] whole numbers from 0 on, as int64 [N].

    Raises:
        UserError: They are something else.
    """
    labels = np.asarray(values)
    one_each = labels.ndim > 0 and labels.shape[1:] in ((), (1,))
    if labels.dtype.kind not in "biu" or not one_each:
        raise UserError(
            f"{spec}: labels are {labels.dtype} of shape {labels.shape}; expected "
            "whole numbers [N], classes counted from 0"
        )
    if labels.size and (labels.min() < 0 or labels.max() > np.iinfo(np.int64).max):
        raise UserError(
            f"{spec}: labels run from {labels.min()} to {labels.max()}; expected "
            "classes counted from 0"
        )
    return labels.astype(np.int64).reshape(-1)
