"""Times of the layers over the link."""

from __future__ import annotations

import ctypes

import pytest
from link_device import LinkDevice, chunks, configure, images_of, wire

from refold.facts import Ticks


def profile(device: LinkDevice, first: int = 0) -> dict[str, object]:
    """The answer to PROFILE_REQUEST."""
    [(name, sequence, fields)] = device.feed(wire("profile_request", 5, first=first))
    assert ("profile", 5) == (name, sequence)
    return fields


def run_images(device: LinkDevice, count: int) -> None:
    """Run so many images of a new stream."""
    device.feed(configure(1))
    for index, image in enumerate(images_of(count, 3000)):
        device.talk(b"".join(chunks(1, index, image)))


def test_the_last_image_counts(library: ctypes.CDLL) -> None:
    """Each layer's time runs from the one before; readings of the clock are squares."""
    with LinkDevice(library) as device:
        run_images(device, 2)
        fields = profile(device)
    assert {
        "kind": Ticks.CYCLES,
        "ticks_per_us": 240,
        "image": 100 - 36,
        "layers": 3,
        "first": 0,
        "times": (49 - 36, 64 - 49, 81 - 64),
    } == fields


@pytest.mark.parametrize(
    ("first", "expected"), [(1, (5, 7)), (2, (7,)), (3, ()), (65535, ())]
)
def test_from_a_layer_on(
    library: ctypes.CDLL, first: int, expected: tuple[int, ...]
) -> None:
    """A request may begin at any layer; beyond the last there is none."""
    with LinkDevice(library) as device:
        run_images(device, 1)
        fields = profile(device, first)
    assert (first, 3, expected) == (fields["first"], fields["layers"], fields["times"])


def test_before_the_first_image(library: ctypes.CDLL) -> None:
    """There are no times yet."""
    with LinkDevice(library) as device:
        assert 0 == profile(device)["image"]


def test_a_port_that_keeps_no_times(library: ctypes.CDLL) -> None:
    """It says so: no layers, no ticks."""
    with LinkDevice(library) as device:
        device.without_times()
        run_images(device, 1)
        fields = profile(device)
    assert (0, 0, 0, ()) == tuple(
        fields[name] for name in ("ticks_per_us", "layers", "image", "times")
    )
