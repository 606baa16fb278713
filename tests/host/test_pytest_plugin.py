"""The pytest plugin: options, boards shared out, runs, and what reports hold."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module, metadata
from pathlib import Path

import junitparser
import pytest
from small_model import make_images, write_data, write_model

from refoldc.pipeline import compile_model

from refold.boards import load_board
from refold.build import build
from refold.errors import InfraError, UserError
from refold.pool import Place, places, take
from refold.process import spawn

INSTALLED = any(
    point.value == "refold.pytest_plugin"
    for point in metadata.entry_points(group="pytest11")
)
PLUGIN = ("-p", "refold" if INSTALLED else "refold.pytest_plugin")

Outcome = pytest.RunResult


@pytest.fixture
def run_tests(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., Outcome]:
    """Return what runs a test file of the given text in a pytest of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))

    def run(text: str, *options: str, apart: bool = False) -> Outcome:
        pytester.makepyfile(text)
        start = pytester.runpytest_subprocess if apart else pytester.runpytest_inprocess
        apart_from = ("-p", "no:cacheprovider", "-p", "no:pytest_embedded")
        return start(*PLUGIN, *apart_from, *options)

    return run


def test_without_options_the_board_is_the_native_one(
    run_tests: Callable[..., Outcome],
) -> None:
    """The fixture has its name, and no port, for a run starts it."""
    done = run_tests(
        """
        def test_it(refold_board):
            assert ("native", None) == (refold_board.board, refold_board.port)
        """
    )
    done.assert_outcomes(passed=1)


def test_a_marker_chooses_among_boards(run_tests: Callable[..., Outcome]) -> None:
    """A test for one board gets that one, and is skipped where it is not given."""
    done = run_tests(
        """
        import pytest

        @pytest.mark.refold_board("xtensa-qemu")
        def test_this(refold_board):
            assert "b" == refold_board.port

        @pytest.mark.refold_board("esp32s3-devkitc-1")
        def test_other(refold_board):
            pass
        """,
        *("--strict-markers", "-rs"),
        *("--refold-board", "native", "--refold-port", "a"),
        *("--refold-board", "xtensa-qemu", "--refold-port", "b"),
    )
    done.assert_outcomes(passed=1, skipped=1)
    done.stdout.fnmatch_lines(["*refold: native at a, xtensa-qemu at b*"])
    done.stdout.fnmatch_lines(["*is for esp32s3-devkitc-1; see --refold-board*"])


def test_names_of_your_boards_are_boards_with_ports(
    run_tests: Callable[..., Outcome], user_boards: Path
) -> None:
    """A marker goes by what they are."""
    user_boards.parent.mkdir(parents=True)
    user_boards.write_text(
        '[left]\nboard = "esp32s3-devkitc-1"\nserial_number = "A1"\n'
        '[right]\nboard = "xtensa-qemu"\nurl = "socket://lab:4000"\n'
    )
    done = run_tests(
        """
        import pytest

        @pytest.mark.refold_board("xtensa-qemu")
        def test_this(refold_board):
            assert ("xtensa-qemu", "right") == (refold_board.board, refold_board.port)
        """,
        *("--refold-board", "left", "--refold-board", "right"),
    )
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*refold: esp32s3-devkitc-1 at left, xtensa-qemu at r*"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--refold-board", "nativ"], "*no board 'nativ' (did you mean 'native'?)*"),
        (["--refold-port", "a", "--refold-port", "a"], "*port a is given twice*"),
    ],
)
def test_wrong_options_are_usage_errors(
    options: list[str], message: str, run_tests: Callable[..., Outcome]
) -> None:
    """pytest ends before any test, with one message."""
    done = run_tests("def test_it(): pass", *options)
    assert pytest.ExitCode.USAGE_ERROR == done.ret
    done.stderr.fnmatch_lines([message])


def test_a_run_without_model_says_how_to_name_one(
    run_tests: Callable[..., Outcome],
) -> None:
    """No traceback through refold, only the message."""
    done = run_tests("def test_it(refold_run): refold_run('digits')")
    done.assert_outcomes(failed=1)
    done.stdout.fnmatch_lines(["no compiled model: give --refold-artefact DIR*"])


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small network, compiled, with its data beside it."""
    folder = tmp_path_factory.mktemp("plugin")
    write_data(folder / "data.npz", 8)
    model = write_model(folder / "m.onnx")
    compile_model(model, make_images(64), folder / "a")
    return folder / "a"


def test_a_run_on_the_native_board(
    artefact: Path, run_tests: Callable[..., Outcome], pytester: pytest.Pytester
) -> None:
    """A pass gives the result; a missed bound fails with the reason; both report."""
    data = f"npz:{artefact.parent / 'data.npz'}"
    done = run_tests(
        f"""
        DATA = dict(corruptions="fog", adapt="off", check=False)

        def test_good(refold_run):
            result = refold_run({data!r}, **DATA)
            assert [8, 8] == [s.images for s in result.runs[0].streams]

        def test_bad(refold_run):
            refold_run({data!r}, fail_under=("accuracy>=101",), **DATA)

        def test_wrong(refold_run):
            refold_run("npz:missing.npz", **DATA)
        """,
        *("--refold-artefact", str(artefact), "--junit-xml", "out.xml"),
        apart=True,  # NumPy cannot be imported twice
    )
    done.assert_outcomes(passed=1, failed=2)
    done.stdout.fnmatch_lines(["fail: bound accuracy>=101 is missed*"])
    done.stdout.no_fnmatch_line("*Traceback*")
    (suite,) = junitparser.JUnitXml.fromfile(str(pytester.path / "out.xml"))
    good, bad, _ = (case.child(junitparser.Properties) for case in suite)
    properties = {p.name: p.value for p in good}
    assert ("native", "pass") == (
        properties["refold_board"],
        properties["refold_verdict"],
    )
    assert {"refold_clean_accuracy[off]", "refold_mean_accuracy[off]"} < set(properties)
    assert "fail" in {p.value for p in bad}


MEETS_THE_OTHER = """
    import time
    from pathlib import Path
    import pytest

    @pytest.mark.parametrize("number", range(2))
    def test_it(number, refold_board, refold_run):
        here, port = Path({folder!r}), refold_board.port.replace("/", "_")
        (here / f"{{number}}{{port}}").touch()
        until = time.monotonic() + 120
        while len(met := {{p.name[1:] for p in here.iterdir()}}) < 2:
            assert time.monotonic() < until, met
            time.sleep(0.01)
        result = refold_run({data!r}, corruptions="fog", adapt="off", check=False)
        assert refold_board.port == result.board.port
"""


def test_parallel_workers_take_different_boards(
    artefact: Path, run_tests: Callable[..., Outcome], tmp_path: Path
) -> None:
    """Two virtual boards, two tests that wait for each other, each with its own."""
    (tmp_path / "met").mkdir()
    firmware = str(build(artefact, load_board("native")).executable)
    data = f"npz:{artefact.parent / 'data.npz'}"
    with spawn([firmware, "--pty"]) as one, spawn([firmware, "--pty"]) as two:
        done = run_tests(
            MEETS_THE_OTHER.format(folder=str(tmp_path / "met"), data=data),
            *("-p", "xdist", "-n", "2", "--refold-artefact", str(artefact)),
            *("--refold-port", one, "--refold-port", two),
            apart=True,
        )
    done.assert_outcomes(passed=2)


def test_pytest_finds_the_plugin(repo_root: Path) -> None:
    """The entry point names this module."""
    project = tomllib.loads((repo_root / "pyproject.toml").read_text())["project"]
    named = project["entry-points"]["pytest11"]["refold"]
    assert {"refold_board", "refold_run"} < set(dir(import_module(named)))


# --- the pool ----------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep locks to this test."""
    monkeypatch.setattr("refold.lock.user_cache_path", lambda *_, **__: tmp_path)


def test_boards_and_ports_are_paired() -> None:
    """One board serves for all ports, several go with them in order."""
    assert (Place("x", "a"), Place("x", "b")) == places(["x"], ["a", "b"])
    assert (Place("x", "a"), Place("y", "b")) == places(["x", "y"], ["a", "b"])
    assert (Place("x"), Place("y")) == places(["x", "y"], [])
    with pytest.raises(UserError, match="2 boards for 3 ports"):
        places(["x", "y"], ["a", "b", "c"])


@pytest.mark.usefixtures("cache")
def test_a_held_board_is_passed_over() -> None:
    """The next free one is taken; released, the first is free again."""
    both = (Place("x", "a"), Place("x", "b"))
    with take(both, wait_seconds=0) as first:
        with take(both, wait_seconds=0) as second:
            assert both == (first, second)
            with (
                pytest.raises(InfraError, match=r"within 0 s of x at a, x at b"),
                take(both, wait_seconds=0),
            ):
                pass
        with take(both, wait_seconds=0) as again:
            assert second == again
    with take(both, wait_seconds=0) as again:
        assert first == again


@pytest.mark.usefixtures("cache")
def test_a_board_that_is_started_is_always_free() -> None:
    """Each run has a process of its own."""
    with take((Place("x"),), wait_seconds=0), take((Place("x"),), wait_seconds=0):
        pass


@pytest.mark.usefixtures("cache")
def test_links_to_a_port_are_one_board(tmp_path: Path) -> None:
    """A board is not taken twice under two names."""
    (tmp_path / "tty").touch()
    (tmp_path / "link").symlink_to(tmp_path / "tty")
    port, link = (Place("x", str(tmp_path / name)) for name in ("tty", "link"))
    with (
        take((port,), wait_seconds=0),
        pytest.raises(InfraError),
        take((link,), wait_seconds=0),
    ):
        pass
