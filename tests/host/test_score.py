"""Scores: counted by hand on tiny streams."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import structs
from sample_results import make_run, make_stream, two_modes

from refold import score
from refold.cost import Cost, run_cost
from refold.device import Reply
from refold.result import Split
from refold.score import score_run


def reply(index: int, logits: list[int], **changes: object) -> Reply:
    """Return a reply; ``changes`` replace fields."""
    plain = Reply(
        index=index,
        logits=np.array(logits, dtype=np.int32),
        infer_us=100 * (index + 1),
        adapt_us=index,
        search_us=0,
        shift_score=np.float32(0.5),
        adapted=True,
        gate=None,
        forward_passes=1,
        resent=0,
    )
    return plain._replace(**changes)  # type: ignore[arg-type]


FOUR = [
    reply(0, [1, 5, 2]),
    reply(1, [7, 7, 0]),
    reply(2, [0, 0, 0], resent=2),
    reply(3, [-5, -9, -1]),
]
"""Their classes are 1, 0, 0 and 2."""
KEY = ("fog", 5, 0, 0, 0)


def test_energy_is_a_mean_images() -> None:
    """Streams count by their images; those without energy are left out."""
    fields = {"energy_mj": 0.5, "adapt_energy_mj": 0.1}
    short = make_stream("fog", 50.0, images=100, **fields)
    long = make_stream("snow", 50.0, images=300, energy_mj=0.9, adapt_energy_mj=0.3)
    unseen = make_stream("frost", 50.0)
    run = score.score_run("forge", [short, long, unseen], seconds=1.0)
    assert pytest.approx((0.8, 0.25)) == score.energy(run)
    assert score.energy(score.score_run("off", [unseen], seconds=1.0)) is None


def test_ties_go_to_the_lowest_index() -> None:
    """Of equal logits the first wins."""
    assert [1, 0, 0, 2] == score.top1(FOUR).tolist()


def test_a_stream_is_counted() -> None:
    """Right answers, times and frames are summed over the images."""
    labels = np.array([1, 0, 2, 2])
    stream = score.score_stream(KEY, FOUR, labels=labels, parity_mismatches=1)
    assert (4, 3, 75.0) == (stream.images, stream.correct, stream.accuracy)
    assert (200, 400, 400) == (
        stream.latency_us.p50,
        stream.latency_us.p95,
        stream.latency_us.max,
    )
    assert (2, 4, 4, 1) == (
        stream.frames_resent,
        stream.forward_passes,
        stream.adapted_images,
        stream.parity_mismatches,
    )
    assert (1, 1, 0, 1) == stream.blocks


def test_passes_of_candidates_count_as_much_as_they_run() -> None:
    """Two images and eight rehearsals of a quarter of the network: four full passes."""
    replies = [reply(0, [1, 0]), reply(1, [1, 0], forward_passes=9)]
    stream = score.score_stream(
        *(KEY, replies),
        labels=np.array([0, 0]),
        parity_mismatches=0,
        candidate_part=0.25,
    )
    assert (10, 4.0) == (stream.forward_passes, stream.full_passes)


def test_time_is_split_without_remainder() -> None:
    """A search is no part of the inference, FORGE's update is."""
    replies = [
        reply(0, [1], infer_us=100, adapt_us=10),
        reply(1, [1], infer_us=120, adapt_us=530, search_us=500),
    ]
    assert Split(network=90.0, update=20.0, search=250.0) == score.time_split(replies)
    assert Split(0.0, 0.0, 0.0) == score.time_split([])


def test_a_mean_image_is_of_all_streams() -> None:
    """Streams count by their images; a result that does not tell has no cost."""
    told = {"full_passes": 300.0, "split_us": Split(10.0, 2.0, 6.0)}
    run = score_run(
        "pace",
        [
            make_stream("fog", 50.0, forward_passes=400, adapted_images=100, **told),
            make_stream("snow", 50.0, images=0),
            make_stream(
                "frost", 50.0, images=600, full_passes=600.0, split_us=Split(2.0, 2, 2)
            ),
        ],
        seconds=1,
    )
    expected = Cost(
        passes=0.75,
        full_passes=1.125,
        adapted=12.5,
        network_us=4.0,
        update_us=2.0,
        search_us=3.0,
    )
    assert expected == run_cost(run)
    assert ("0.004", "0.002", "0.003", "0.75", "1.12", "12.5") == expected.cells
    assert run_cost(make_run("forge", {"fog": 50.0})) is None


def test_unanswered_images_are_not_wrong_answers() -> None:
    """A stream cut short is scored over the images that were answered."""
    labels = np.array([1, 0, 2, 2])
    stream = score.score_stream(KEY, FOUR[:2], labels=labels, parity_mismatches=None)
    assert (2, 2, 100.0) == (stream.images, stream.correct, stream.accuracy)


def test_a_stream_without_answers_is_empty() -> None:
    """A board lost before its first reply leaves zeros, not an error."""
    stream = score.score_stream(KEY, [], labels=np.array([1]), parity_mismatches=None)
    assert (0, 0, 0.0, 0) == (
        stream.images,
        stream.correct,
        stream.accuracy,
        stream.latency_us.max,
    )


def test_open_gates_are_counted_as_a_fraction() -> None:
    """``gate`` is the share of images with the gate open."""
    gated = [reply(i, [1, 0], gate=i < 3) for i in range(4)]
    stream = score.score_stream(
        KEY, gated, labels=np.zeros(4, int), parity_mismatches=None
    )
    assert 0.75 == stream.gate


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 10), (50, 20), (51, 30), (95, 40), (100, 40)]
)
def test_percentiles_are_observed_values(percent: int, expected: int) -> None:
    """Nearest rank: the least value with that share at or below it."""
    assert (expected,) == score.nearest_rank([40, 10, 30, 20], [percent])


def test_comparison_with_off() -> None:
    """Gain and worst are over corrupted streams, clean loss over clean ones."""
    off, forge = two_modes().runs
    found = (
        score.gain(forge, off),
        score.worst(forge, off),
        score.clean_loss(forge, off),
    )
    assert (14.5, -1.0, 0.5) == found


def test_no_gain_without_off() -> None:
    """Nothing is compared where nothing ran unadapted."""
    assert {} == score.gains([make_run("forge", {"fog": 50.0})])


def test_streams_of_different_length_are_not_compared() -> None:
    """A stream cut short on one side does not count towards the gain."""
    off = make_run("off", {"fog": 50.0, "snow": 50.0})
    cut = make_run("forge", {"fog": 60.0, "snow": 90.0})
    short = structs.replace(cut.streams[1], images=3)
    forge = score.score_run("forge", [cut.streams[0], short], seconds=1.0)
    assert 10.0 == score.gain(forge, off)
