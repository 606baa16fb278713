"""Schedules: which stream runs when, with which images and which state."""

from __future__ import annotations

from typing import Any

import pytest

from refold.errors import UserError
from refold.modes import parse_modes
from refold.schedule import Schedule, Step, parse_corruptions, plan_steps

MODES = parse_modes("off,forge", sites=1)
STREAMS = [("clean", 0), ("fog", 5)]


def plan(images: int = 4, **schedule: Any) -> list[Step]:
    """Return the steps of two modes over clean and fog."""
    return plan_steps(Schedule(**schedule), MODES, STREAMS, images=images)


def names(steps: list[Step]) -> list[tuple[str, str]]:
    """Return mode and corruption of each step."""
    return [(step.mode.text, step.corruption) for step in steps]


def test_reset_alternates_modes_and_starts_each_stream_afresh() -> None:
    """Both modes see one stream before the next one comes."""
    steps = plan()
    expected = [
        ("off", "clean"),
        ("forge", "clean"),
        ("off", "fog"),
        ("forge", "fog"),
    ]
    assert expected == names(steps)
    assert [True] * 4 == [step.fresh for step in steps]
    assert [0, 1, 2, 3] == steps[0].indices.tolist()


def test_continual_keeps_the_state_within_a_mode() -> None:
    """Only a mode's first stream starts from the clean state."""
    steps = plan(stream="continual")
    expected = [
        ("off", "clean"),
        ("off", "fog"),
        ("forge", "clean"),
        ("forge", "fog"),
    ]
    assert expected == names(steps)
    assert [True, False, True, False] == [step.fresh for step in steps]


def test_switching_cuts_the_data_into_segments() -> None:
    """Corruptions change every N images until each has seen all of them."""
    steps = plan(images=5, stream="continual", switch_every=2)[:6]
    found = [(s.corruption, s.segment, s.indices.tolist()) for s in steps]
    expected = [
        ("clean", 0, [0, 1]),
        ("fog", 0, [0, 1]),
        ("clean", 1, [2, 3]),
        ("fog", 1, [2, 3]),
        ("clean", 2, [4]),
        ("fog", 2, [4]),
    ]
    assert expected == found


def test_rounds_come_back_with_the_state_kept() -> None:
    """A second round repeats all streams without a reset."""
    steps = plan(stream="continual", rounds=2)[:4]
    found = [(s.corruption, s.round, s.fresh) for s in steps]
    expected = [
        ("clean", 0, True),
        ("fog", 0, False),
        ("clean", 1, False),
        ("fog", 1, False),
    ]
    assert expected == found


def test_repeats_start_afresh_in_another_order() -> None:
    """Shuffled repeats permute the images, the same way for every stream."""
    steps = plan(images=50, repeats=2, shuffle=True)
    first = [s.indices.tolist() for s in steps if s.repeat == 0]
    second = [s.indices.tolist() for s in steps if s.repeat == 1]
    assert first[0] != second[0]
    assert [first[0]] * 4 == first
    assert list(range(50)) == sorted(second[0])
    assert all(step.fresh for step in steps)


def test_the_seed_decides_the_order() -> None:
    """Equal seeds shuffle equally, others do not."""
    orders = [plan(50, shuffle=True, seed=s)[0].indices.tolist() for s in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


@pytest.mark.parametrize("changes", [{"rounds": 2}, {"switch_every": 3}])
def test_what_keeps_state_needs_a_continual_stream(changes: dict[str, int]) -> None:
    """Rounds and switches mean nothing where each stream is reset."""
    with pytest.raises(UserError, match="--stream continual"):
        Schedule(**changes)  # type: ignore[arg-type]


def test_corruptions_come_in_table_order() -> None:
    """A list is put in the order of the table; clean runs anyway."""
    found = parse_corruptions("fog,gaussian_noise, clean,jpeg_compression")
    assert ("gaussian_noise", "fog", "jpeg_compression") == found


def test_all_and_none() -> None:
    """``all`` are fifteen, ``none`` leaves the clean stream."""
    assert (15, ()) == (len(parse_corruptions("all")), parse_corruptions("none"))


def test_unknown_corruption() -> None:
    """A misspelt name is met with the nearest one."""
    with pytest.raises(UserError, match="did you mean 'gaussian_noise'"):
        parse_corruptions("gausian_noise")
