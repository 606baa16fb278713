"""The tables of docs/results.md: bounds, orders, and modes run once."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs

from refoldc.artefact import Artefact
from refoldc.reference import Reference

from refold.data import load_data
from refold.resources import bundled_model

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import results
from held_out import Stream
from orders import Bench, mean_of_orders, recurring, spread, summary
from rows import GATED, OFF, UNGATED, Bound, judge, stream_table
from streams import Source, compiled_once, orders
from work import Work

IMAGES = 12
TABLE = {
    OFF: {"clean": 80.0, "snow": 50.0, "fog": 40.0},
    GATED: {"clean": 79.9, "snow": 49.6, "fog": 60.0},
}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Work:
    """An empty folder at first."""
    return Work(tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def source() -> Source:
    """The bundled network."""
    return Source(bundled_model(), "digits", mean=(0.0,), std=(1.0,))


@pytest.fixture(scope="module")
def artefact(work: Work, source: Source) -> Artefact:
    """As the commands compile it."""
    return compiled_once(work, source)


@pytest.mark.parametrize(
    ("bound", "text", "fails"),
    [
        (Bound(GATED, OFF, mean=9.8), "mean +9.80 (bound: >= +9.8)", False),
        (Bound(GATED, OFF, mean=9.9), "+9.80 (bound: >= +9.9; **missed**)", True),
        (
            Bound(GATED, OFF, each=-0.4),
            "corruption -0.40, snow (bound: >= -0.4)",
            False,
        ),
        (Bound(GATED, OFF, each=-0.3), "snow (bound: >= -0.3; **missed**)", True),
        (Bound(GATED, OFF, clean=-0.05), "clean -0.10 (bound: >= -0.05; **m", True),
        (Bound(GATED, OFF, mean=11, stretch=True), "(stretch: >= +11; **m", False),
    ],
)
def test_bounds(bound: Bound, text: str, fails: bool) -> None:
    """A bound that is just met is met; clean is no corruption; a stretch fails none."""
    (verdict,) = judge(bound, TABLE)
    assert text in str(verdict)
    assert fails == verdict.fails


def test_the_mean_leaves_clean_out() -> None:
    """The table's last row is of the corrupted streams."""
    assert ["| **mean of corrupted** | 45.0 |"] == list(
        stream_table({"a": TABLE[OFF]})
    )[-1:]


def test_five_orders_of_all_images() -> None:
    """Each holds every image once, and no two are equal."""
    found = orders(IMAGES)
    assert 5 == len({tuple(order) for order in found})
    assert all(sorted(order) == list(range(IMAGES)) for order in found)


def test_the_summary_is_over_the_orders() -> None:
    """Mean, deviation with n - 1, gain over off, and the least change."""
    shifted = {name: value - 2 for name, value in TABLE[GATED].items()}
    found = {"off": [TABLE[OFF]] * 2, "on": [TABLE[GATED], shifted]}
    *_, row = summary(found)
    expected = "| on | 53.80 ± 1.41 | 8.80 ± 1.41 | 78.90 ± 1.41 | -1.40, snow |"
    assert expected == row
    assert 78.9 == pytest.approx(mean_of_orders(found["on"])["clean"])
    assert "1.00 ± 1.00" == spread([0.0, 1.0, 2.0])
    assert "1.00" == spread([1.0])


@pytest.mark.parametrize(("second", "fails"), [(61.0, False), (58.9, True)])
def test_the_second_round(second: float, fails: bool) -> None:
    """Is compared with the first in the mean of the orders."""
    (verdict,) = recurring({GATED: [[60.0, 60.0], [60.0, second]]})
    assert fails == verdict.fails


def test_a_row_is_what_the_host_model_says(work: Work, artefact: Artefact) -> None:
    """In every order, from the clean state; rounds keep the state."""
    data = load_data("digits", split="test", limit=IMAGES)
    faded = (data.images // 4 + 96).astype(np.uint8)
    streams = {
        "clean": Stream(data.images, data.labels),
        "contrast": Stream(faded, data.labels),
    }
    bench = Bench(work, artefact, streams, orders(IMAGES))
    reference = Reference(artefact.qgraph)

    def accuracy(images: np.ndarray, labels: np.ndarray) -> float:
        found = [int(reference.infer(image).logits.argmax()) for image in images]
        return 100 * float((np.array(found) == labels).mean())

    order, config = bench.orders[1], bench.config(UNGATED)
    reference.configure(config)
    expected = [accuracy(faded[order], data.labels[order]) for _ in range(2)]
    assert expected[0] == bench.accuracies(UNGATED, 1)["contrast"]
    assert expected == bench.rounds(UNGATED, 1)


def test_modes_are_run_once(
    work: Work, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second start takes what the first one kept; another mode is run."""
    network = results.Network("digits.onnx", "digits", bounds=(), modes=(OFF,))
    first = results.measure(work, network, source, "digits", 4)
    assert 0 == sum(s.parity_mismatches or 0 for s in first[OFF].runs[0].streams)
    ran: list[str | None] = []

    def run_whole(artefact: Artefact, options: results.RunOptions) -> results.Result:
        ran.append(options.adapt)
        return first[OFF]

    monkeypatch.setattr(results, "run_whole", run_whole)
    both = results.Network("digits.onnx", "digits", bounds=(), modes=(OFF, GATED))
    assert first[OFF] == results.measure(work, both, source, "digits", 4)[OFF]
    assert [GATED] == ran


def test_a_run_cut_short_ends_the_command(
    artefact: Artefact, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With exit code 3, so that nothing is kept of it."""
    options = results.RunOptions(data="digits", adapt=OFF, corruptions="none", images=2)
    cut = structs.replace(results.run_whole(artefact, options), complete=False)
    monkeypatch.setattr(results, "run", lambda *_: cut)
    with pytest.raises(SystemExit) as ended:
        results.run_whole(artefact, options)
    assert 3 == ended.value.code
