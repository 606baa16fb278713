"""The corruptions: reproducible, any size, and like the published benchmark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from refold.corrupt import CORRUPTIONS, SEVERITIES, corrupt, image_rng

SIZES = [(32, 32, 3), (32, 32, 1), (8, 8, 1), (24, 40, 3), (49, 10, 1), (64, 64, 3)]
SHAPE_IDS = ["x".join(map(str, size)) for size in SIZES]

U8 = NDArray[np.uint8]


def picture(shape: tuple[int, int, int]) -> U8:
    """Draw a smooth coloured pattern with an edge."""
    y, x = np.mgrid[: shape[0], : shape[1]]
    tone = 120 + 60 * np.sin(x / 3) + 40 * np.cos(y / 4) + 20 * (x > shape[1] // 2)
    scale = np.array([1.0, 0.8, 0.6])[: shape[2]]
    return (tone[:, :, None] * scale).astype(np.uint8)


def change(before: U8, after: U8) -> NDArray[np.float64]:
    """Difference per value."""
    return after.astype(float) - before


@pytest.mark.parametrize("shape", SIZES, ids=SHAPE_IDS)
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_keeps_shape_and_type_at_any_size(
    name: str, shape: tuple[int, int, int]
) -> None:
    """Every corruption takes square and other images with one or three channels."""
    for severity in (1, 5):
        after = corrupt(picture(shape), name, severity, image_rng(0, 0, name, severity))
        assert (after.dtype, after.shape) == (np.uint8, shape)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_is_reproducible_and_leaves_its_input_alone(name: str) -> None:
    """The same generator gives the same image; the input is not written to."""
    image = picture((32, 32, 3))
    image.setflags(write=False)
    once, again = (corrupt(image, name, 3, image_rng(7, 5, name, 3)) for _ in range(2))
    assert np.array_equal(once, again)


@pytest.mark.parametrize(
    # A warp trades shear for ripple and frost darkens what it whitens: their
    # severities are not ordered by size of change.
    "name",
    [name for name in CORRUPTIONS if name not in {"elastic_transform", "frost"}],
)
def test_changes_more_with_severity(name: str) -> None:
    """Averaged over images, severity 5 changes more than 3, and 3 more than 1."""
    rng = np.random.default_rng(1)
    base = picture((32, 32, 3))
    images = np.stack(
        [np.roll(base, rng.integers(0, 32, 2), (0, 1)) for _ in range(24)]
    )
    sizes = []
    for severity in (1, 3, 5):
        after = [
            corrupt(image, name, severity, image_rng(0, i, name, severity))
            for i, image in enumerate(images)
        ]
        sizes.append(abs(change(images, np.stack(after))).mean())
    assert 0 < sizes[0] < sizes[1] < sizes[2]


def test_generators_differ_by_each_argument() -> None:
    """Seed, index, corruption and severity each lead to other random numbers."""
    keys = [
        (0, 0, "fog", 1),
        (1, 0, "fog", 1),
        (0, 1, "fog", 1),
        (0, 0, "snow", 1),
        (0, 0, "fog", 2),
        (2**32, 0, "fog", 1),
    ]
    draws = {image_rng(*key).integers(2**62) for key in keys}
    assert len(draws) == len(keys)


@pytest.mark.parametrize(
    ("image", "name", "severity", "word"),
    [
        (np.zeros((4, 4, 3), np.uint8), "rain", 1, "rain"),
        (np.zeros((4, 4, 3), np.uint8), "fog", 6, "severity 6"),
        (np.zeros((4, 4, 2), np.uint8), "fog", 1, "(4, 4, 2)"),
        (np.zeros((4, 4, 3), np.float32), "fog", 1, "float32"),
    ],
)
def test_refuses_what_it_cannot_corrupt(
    image: U8, name: str, severity: int, word: str
) -> None:
    """Unknown names, severities, channel counts and types are refused by name."""
    with pytest.raises(ValueError, match=word.replace("(", r"\(").replace(")", r"\)")):
        corrupt(image, name, severity, np.random.default_rng(0))


def test_gaussian_noise_has_the_published_deviation() -> None:
    """Mid-grey with severity 5 noise deviates by 0.10 of the range."""
    grey = np.full((64, 64, 3), 128, np.uint8)
    after = corrupt(grey, "gaussian_noise", 5, image_rng(0, 0, "gaussian_noise", 5))
    assert change(grey, after).std() == pytest.approx(0.10 * 255, rel=0.03)


def test_impulse_noise_hits_the_published_share() -> None:
    """Severity 5 replaces 7 % of the values, black and white alike."""
    grey = np.full((64, 64, 3), 128, np.uint8)
    after = corrupt(grey, "impulse_noise", 5, image_rng(0, 0, "impulse_noise", 5))
    assert (after == 0).mean() == pytest.approx(0.035, abs=0.006)
    assert (after == 255).mean() == pytest.approx(0.035, abs=0.006)


def test_contrast_shrinks_deviations_by_the_published_factor() -> None:
    """Severity 5 keeps 15 % of each value's distance from the channel mean."""
    image = np.zeros((2, 2, 1), np.uint8)
    image[0] = 200
    after = corrupt(image, "contrast", 5, image_rng(0, 0, "contrast", 5))
    assert after[:, 0, 0].tolist() == [115, 85]


def test_brightness_adds_to_the_value_and_keeps_the_hue() -> None:
    """Severity 5 adds 0.3 to the largest channel and scales the others with it."""
    image = np.array([[[100, 50, 0]]], np.uint8)
    after = corrupt(image, "brightness", 5, image_rng(0, 0, "brightness", 5))
    # 100 + 0.3 * 255 = 176.5, half of it 88.25, fractions cut off.
    assert after[0, 0].tolist() == [176, 88, 0]


@pytest.mark.parametrize(
    "name", ["defocus_blur", "glass_blur", "motion_blur", "zoom_blur"]
)
def test_blurs_leave_an_even_image_alone(name: str) -> None:
    """Weights of a blur sum to one."""
    grey = np.full((32, 32, 3), 100, np.uint8)
    after = corrupt(grey, name, 5, image_rng(0, 0, name, 5))
    assert abs(change(grey, after)).max() <= 1


def test_blur_lengths_scale_with_the_height() -> None:
    """A dot blurred at twice the height spreads twice as far."""
    spread = []
    for size in (32, 64):
        dot = np.zeros((size, size, 1), np.uint8)
        dot[size // 2 : size // 2 + size // 32, size // 2 : size // 2 + size // 32] = (
            255
        )
        after = corrupt(dot, "defocus_blur", 5, image_rng(0, 0, "defocus_blur", 5))
        mass = after.astype(float)[:, :, 0].sum(0)
        place = np.arange(size) - (mass * np.arange(size)).sum() / mass.sum()
        spread.append(np.sqrt((mass * place**2).sum() / mass.sum()))
    assert spread[1] / spread[0] == pytest.approx(2, rel=0.1)


def bands(images: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean spectral power of grey images [N, 32, 32, 3] in four bands."""
    power = (abs(np.fft.fft2(images.mean(3))) ** 2).mean(0)
    waves = np.fft.fftfreq(32) * 32
    radius = np.hypot(waves[:, None], waves[None, :])
    limits = ((0.5, 2.5), (2.5, 5.5), (5.5, 9.5), (9.5, 16.5))
    return np.array([power[(radius >= a) & (radius < b)].mean() for a, b in limits])


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_agrees_with_the_published_benchmark(name: str, shared: Path) -> None:
    """At severity 5 change, its mean and spread, and the spectrum agree.

    Tolerances cover the sampling error of 400 images; frost is drawn instead of
    photographed and gets more.
    """
    count, loose = 400, 2.0 if name == "frost" else 1.0
    with np.load(shared / "data" / "cifar10c_sev5_1000.npz") as arrays:
        clean, theirs = arrays["clean"][:count], arrays[f"{name}_5"][:count]
    ours = np.stack(
        [corrupt(x, name, 5, image_rng(0, i, name, 5)) for i, x in enumerate(clean)]
    )
    mine, other = change(clean, ours), change(clean, theirs)
    assert abs(mine).mean() == pytest.approx(abs(other).mean(), rel=0.05 * loose)
    assert mine.mean() == pytest.approx(other.mean(), abs=3)
    assert mine.std() == pytest.approx(other.std(), rel=0.06 * loose)
    assert bands(mine) == pytest.approx(bands(other), rel=0.12 * loose)
    assert bands(ours + 0.0) == pytest.approx(bands(theirs + 0.0), rel=0.08 * loose)


def test_covers_the_benchmark() -> None:
    """There are fifteen corruptions at five severities."""
    assert (len(CORRUPTIONS), SEVERITIES) == (15, (1, 2, 3, 4, 5))
