"""The regression gate: what is worse than an earlier result, and what compares."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from sample_results import make_result, make_run, two_modes

from refold.baseline import (
    Baseline,
    Tolerances,
    compare,
    require_comparable,
    setting,
)
from refold.cli import status
from refold.errors import UserError
from refold.result import Percentiles, Result, write_result

EARLIER = {"clean": 90.0, "fog": 60.0}


def off(accuracies: Mapping[str, float] = EARLIER, **changes: Any) -> Result:
    """Return a result of one mode; ``changes`` go to each stream."""
    return make_result(make_run("off", accuracies, **changes))


def baseline(result: Result | None = None, **tolerances: float) -> Baseline:
    """Return a result, or :func:`off`, as the earlier one."""
    return Baseline(result or off(), Tolerances(**tolerances), "earlier.json")


def worse(now: Result, **tolerances: float) -> list[tuple[str, str]]:
    """Return measure and owner of what is worse than in :func:`off`."""
    found = compare(baseline(**tolerances), now)
    return [(item.measure, item.whose) for item in found.worse]


def test_an_equal_result_is_not_worse() -> None:
    """Without any tolerance a result passes against itself."""
    same = two_modes()
    exact = baseline(same, accuracy=0, latency=1, memory=1)
    assert () == compare(exact, same).worse


@pytest.mark.parametrize(
    ("fog", "tolerance", "expected"),
    [
        (59.0, 1.0, []),
        (58.5, 1.0, [("accuracy", "off, fog"), ("mean_accuracy", "off")]),
        (58.5, 1.5, []),
        (99.0, 0.0, []),
        (59.9, 0.0, [("accuracy", "off, fog"), ("mean_accuracy", "off")]),
    ],
)
def test_accuracy_may_lose_points(
    fog: float, tolerance: float, expected: list[tuple[str, str]]
) -> None:
    """A loss of just the tolerance passes, any more fails; gains always pass."""
    now = off({"clean": 90.0, "fog": fog})
    assert expected == worse(now, accuracy=tolerance)


@pytest.mark.parametrize(
    ("p95", "ratio", "expected"),
    [(1650, 1.1, []), (1651, 1.1, [("latency_p95_us", "off")]), (10, 1.0, [])],
)
def test_latency_may_grow_by_a_ratio(
    p95: int, ratio: float, expected: list[tuple[str, str]]
) -> None:
    """The slowest stream's 95th percentile was 1500 microseconds."""
    now = off(latency_us=Percentiles(p50=1, p95=p95, max=9999))
    assert expected == worse(now, latency=ratio)


@pytest.mark.parametrize(("board", "judged"), [("native", 0), ("xtensa-qemu", 2)])
def test_times_of_this_computer_are_not_judged(board: str, judged: int) -> None:
    """Unless a ratio is asked for: they tell how busy it is."""
    record = structs.replace(off().board, id=board)
    slow = off(latency_us=Percentiles(p50=5000, p95=9000, max=9999))
    now = structs.replace(slow, board=record)
    assert judged == len(worse(now))
    assert 2 == len(worse(now, latency=1.25))


def test_each_memory_size_is_compared() -> None:
    """One that grew beyond the ratio is named; unknown code size is no growth."""
    now = off()
    grown = structs.replace(now.memory, arena_bytes=4400, code_bytes=0)
    now = structs.replace(now, memory=grown)
    assert [("arena_bytes", "")] == worse(now, memory=1.05)
    assert [] == worse(now, memory=1.1)


def test_new_modes_are_not_compared() -> None:
    """A run may try more modes than the baseline knows."""
    now = make_result(make_run("off", EARLIER), make_run("forge", {"fog": 1.0}))
    require_comparable(baseline(), setting(now))
    assert [] == worse(now)


def test_a_model_trained_anew_is_comparable() -> None:
    """The name counts, not the bytes: the gate is to judge new weights."""
    now = structs.replace(off(), model=structs.replace(off().model, sha256="0" * 64))
    require_comparable(baseline(), setting(now))


def changed(part: str, **changes: Any) -> Result:
    """Return :func:`off` with fields of its model, board or data replaced."""
    result = off()
    return structs.replace(
        result, **{part: structs.replace(getattr(result, part), **changes)}
    )


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (changed("model", name="resnet"), "its model is digits, here it is resnet"),
        (changed("board", id="xtensa-qemu"), "its board is native, here it is xtensa"),
        (changed("data", sha256="00"), "its data_sha256 is efef"),
        (changed("data", images=50), "its images is 200, here it is 50"),
        (changed("data", seed=7), "its seed is 0, here it is 7"),
        (make_result(make_run("forge", EARLIER)), "has mode 'off', which does not run"),
        (off({"clean": 90.0}), r"its streams are others \(fog at severity 5\)"),
    ],
)
def test_what_cannot_be_compared_is_refused(now: Result, message: str) -> None:
    """Another model, board, data, mode or stream is named with both values."""
    with pytest.raises(UserError, match=rf"earlier\.json cannot.*{message}.*--json"):
        require_comparable(baseline(), setting(now))


def test_an_incomplete_baseline_is_refused() -> None:
    """A run that was cut short proves nothing."""
    cut = structs.replace(off(), complete=False, verdict="infra")
    with pytest.raises(UserError, match=r"ended early \(infra\)"):
        require_comparable(baseline(cut), setting(off()))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an earlier result and one that lost two points under fog."""
    monkeypatch.chdir(tmp_path)
    write_result(off(), Path("earlier.json"))
    write_result(off({"clean": 90.0, "fog": 58.0}), Path("now.json"))
    return tmp_path


def report(*words: str) -> int:
    """Run ``refold report`` on the later result."""
    return status(["report", "now.json", "--baseline", "earlier.json", *words])


def test_the_report_command_shows_what_is_worse(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table names it, the exit code is 1, and the page is written all the same."""
    assert 1 == report()
    text = capsys.readouterr().out
    assert "worse than in earlier.json" in text
    for expected in ("off, fog", "60", "58", "59"):
        assert expected in text
    assert (files / "refold-report.html").is_file()


def test_tolerances_may_sit_in_the_settings_file(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """refold.toml gives them, the command line wins."""
    (files / "refold.toml").write_text("[report]\naccuracy-tolerance = 2\n")
    assert 0 == report()
    assert "nothing is worse than in earlier.json" in capsys.readouterr().out
    assert 1 == report("--accuracy-tolerance", "1")


def test_a_result_cut_short_is_not_judged(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half a run is neither better nor worse."""
    cut = structs.replace(off(), complete=False, verdict="infra")
    write_result(cut, files / "now.json")
    assert 2 == report()
    assert "its run ended early (infra); run it again" in capsys.readouterr().err
