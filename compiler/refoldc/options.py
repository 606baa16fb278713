"""What a user can choose when compiling."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Literal

from refoldc.errors import BadOptions
from refoldc.ir import Shape

InputMode = Literal["pixels", "tensor"]

MINMAX = "minmax"
ADAPT = ("none", "forge", "pace", "forge+pace")

_UNNORMALISED = (
    "No mean and std were given: pixels are taken as pixel/255. If the model was "
    "trained on normalised images, give --mean and --std."
)


@dataclass(frozen=True)
class CompileOptions:
    """Options of ``compile_model``; every one has a working default.

    Attributes:
        mean, std: Per channel, of pixels scaled to [0, 1]; None for 0 and 1. With
            ``tensor`` they say how a host makes a tensor from pixels.
        input: ``pixels``: the device takes uint8 H x W x C; ``tensor``: int8 in
            the model's own scale; None: pixels where there are 1 or 3 channels.
        sites: ``all``, ``auto:K`` or site numbers such as ``14+6+5``.
        adapt: Adaptation code in the firmware: ``none``, ``forge``, ``pace`` or
            ``forge+pace``.
        moved_sites: That PACE moves: the ``first`` or the ``last`` ones until they
            have 32 channels, or site numbers.
        calibration: ``minmax``, or ``percentile:P`` with 50 < P <= 100.
        targets: ``mix``: BatchNorm's moments unless calibration contradicts
            them; ``bn``: always BatchNorm's.
        correct_bias: Take out of each bias what quantisation adds to its mean.
        equalise: Level the channels between convolutions first; min-max only.
        shape: Sizes of inputs that the model leaves open: ``input:1x3x224x224``.

    Raises:
        BadOptions: A value outside these.
    """

    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    input: InputMode | None = None
    sites: str = "all"
    adapt: str = "forge"
    moved_sites: str = "first"
    calibration: str = MINMAX
    targets: Literal["mix", "bn"] = "mix"
    correct_bias: bool = True
    equalise: bool = False
    shape: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what can be checked without the model."""
        _one_of("input", self.input, (None, "pixels", "tensor"))
        _one_of("adapt", self.adapt, ADAPT)
        _one_of("targets", self.targets, ("mix", "bn"))
        _check_sites(self.sites)
        _check_moved_sites(self.moved_sites, self.adapt)
        _check_normalisation(self.mean, self.std)
        if self.equalise and self.percentile is not None:
            raise BadOptions(
                f"equalise levels least and largest values, calibration is "
                f"'{self.calibration}': choose minmax or no equalisation"
            )
        _ = self.percentile  # raises where it cannot be read

    @property
    def percentile(self) -> float | None:
        """The percentile kept at each end of a range; None for min-max."""
        if self.calibration == MINMAX:
            return None
        kind, _, number = self.calibration.partition(":")
        try:
            percentile = float(number)
        except ValueError:
            percentile = math.nan
        if kind != "percentile" or not 50 < percentile <= 100:
            raise BadOptions(
                f"calibration is '{self.calibration}', expected 'minmax' or "
                "'percentile:P' with P above 50 and up to 100, such as "
                "percentile:99.99"
            )
        return percentile

    def for_input(self, shape: Shape) -> CompileOptions:
        """Fill in what depends on the model's input shape, (H, W, C) or (F,).

        Returns:
            Options whose ``input`` is set, with one ``mean`` and ``std`` a channel.

        Raises:
            BadOptions: They do not fit the shape.
        """
        channels = shape[-1]
        image = len(shape) == 3
        if self.input == "pixels" and not image:
            raise BadOptions(
                f"input 'pixels' needs an image, the model's input is "
                f"{_spell(shape)}: choose input 'tensor'"
            )
        for name, numbers in (("mean", self.mean), ("std", self.std)):
            if numbers and len(numbers) != channels:
                raise BadOptions(
                    f"{name} has {len(numbers)} numbers, the model's input has "
                    f"{channels} channels: give one number a channel"
                )
        default: InputMode = "pixels" if image and channels in (1, 3) else "tensor"
        return replace(
            self,
            input=self.input or default,
            mean=self.mean or (0.0,) * channels,
            std=self.std or (1.0,) * channels,
        )

    def notices(self, *, pixels: bool) -> tuple[str, ...]:
        """What the user should know about the defaults taken.

        Args:
            pixels: Calibration images are pixels, not values of the input tensor.
        """
        return (_UNNORMALISED,) if pixels and not (self.mean or self.std) else ()


def _spell(shape: Shape) -> str:
    return " x ".join(map(str, shape))


def _one_of(name: str, value: str | None, choices: tuple[str | None, ...]) -> None:
    if value not in choices:
        known = ", ".join(f"'{c}'" for c in choices if c is not None)
        raise BadOptions(f"{name} is '{value}', expected one of {known}")


def _check_sites(sites: str) -> None:
    if not re.fullmatch(r"all|auto:[1-9]\d*|\d+(\+\d+)*", sites):
        raise BadOptions(
            f"sites is '{sites}', expected 'all', 'auto:K', or site numbers such as "
            "14+6+5 (refold inspect lists them)"
        )


def _check_moved_sites(moved_sites: str, adapt: str) -> None:
    if not re.fullmatch(r"first|last|\d+(\+\d+)*", moved_sites):
        raise BadOptions(
            f"moved_sites is '{moved_sites}', expected 'first', 'last', or site "
            "numbers such as 14+6+5 (refold inspect lists them)"
        )
    if moved_sites != "first" and "pace" not in adapt:
        raise BadOptions(
            f"moved_sites is '{moved_sites}', and adapt is '{adapt}', which moves no "
            "site: compile with adapt 'pace' or 'forge+pace'"
        )


def _check_normalisation(
    mean: tuple[float, ...] | None, std: tuple[float, ...] | None
) -> None:
    for name, numbers in (("mean", mean or ()), ("std", std or ())):
        if not all(map(math.isfinite, numbers)):
            raise BadOptions(f"{name} is {numbers}, expected finite numbers")
    if std and min(std) <= 0:
        raise BadOptions(f"std is {std}, expected positive numbers")
    if mean and max(map(abs, mean)) > 10:
        raise BadOptions(
            f"mean is {mean}, expected the mean of pixels scaled to [0, 1]: divide "
            "it (and std) by 255"
        )
