"""What a caller wants from a source, and the checks all sources share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refold.errors import UserError

Split = Literal["train", "test"]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Request:
    """A parsed data spec.

    Attributes:
        spec: As the user wrote it.
        argument: What follows the colon, without ``#split``.
        split: The part of the data to use.
        split_given: The spec names the split itself.
        limit: Most images to use; None for all.
        shape: (H, W, C) the model takes; None for the data's own.
        classes: The model tells apart; None where labels do not matter.
    """

    spec: str
    argument: str
    split: Split
    split_given: bool
    limit: int | None
    shape: Shape | None = None
    classes: int | None = None

    @property
    def path(self) -> Path:
        """The argument as a path that exists.

        Raises:
            UserError: It does not.
        """
        path = Path(self.argument).expanduser()
        if not path.exists():
            raise UserError(
                f"{self.spec}: {path.absolute()} does not exist; give the path of the "
                "data"
            )
        return path

    def check_shape(self, found: Sequence[int]) -> None:
        """Compare an image's (H, W, C) with what the model takes.

        Raises:
            UserError: They differ.
        """
        if self.shape is not None and tuple(found) != tuple(self.shape):
            raise UserError(
                f"{self.spec} has images of {by(found)}, the model takes "
                f"{by(self.shape)} (height x width x channels); use data of that size, "
                "or folder:PATH, which resizes"
            )

    def check_labels(self, found: NDArray[np.int64]) -> None:
        """Compare labels, at least one, with the classes that the model tells apart.

        Raises:
            UserError: Some are of other classes.
        """
        if self.classes is not None and found.max() >= self.classes:
            raise UserError(
                f"{self.spec} has labels {found.min()}..{found.max()}, the model has "
                f"{self.classes} outputs; use data of the model's classes"
            )


def by(shape: Sequence[int]) -> str:
    """Write a shape for people: ``32x32x3``."""
    return "x".join(str(n) for n in shape)
