"""pytest-embedded in one session with refold's plugin: fixtures and options of both."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

import junitparser
import pytest
from test_pytest_plugin import PLUGIN

from refoldc.pipeline import compile_model

from refold.boards import load_board
from refold.build import build
from refold.data import load_data
from refold.process import spawn
from refold.resources import bundled_model

BESIDE = """
def test_both(dut, refold_board, refold_run):
    dut.write("name%")
    dut.expect_exact("m-name-dut-[refold]")
    result = refold_run("digits", images=8, corruptions="none", adapt="off")
    assert refold_board.port == result.board.port == {port!r}
    dut.write("profile%")
    dut.expect_exact("m-model-[ic01]")


def test_other_session(refold_board):
    assert refold_board.port == {port!r}
"""


@pytest.fixture
def embedded() -> None:
    """Skip without pytest-embedded and its serial line; where all counts, fail."""
    if all(find_spec(name) for name in ("pytest_embedded", "pytest_embedded_serial")):
        return
    if os.environ.get("CI"):
        pytest.fail("pytest-embedded-serial is missing; the test extra brings it")
    pytest.skip("no pytest-embedded-serial")


@pytest.mark.usefixtures("embedded")
def test_both_plugins_in_one_test(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ``dut`` talks to one board while ``refold_run`` runs on another."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    images = load_data("digits", split="train", limit=64).images
    artefact = compile_model(bundled_model(), images, pytester.path / "a").path
    firmware = str(build(artefact, load_board("native")).executable)
    with (
        spawn((firmware, "--pty", "--mlperf", "ic01")) as talking,
        spawn((firmware, "--pty")) as running,
    ):
        pytester.makepyfile(BESIDE.format(port=running))
        done = pytester.runpytest_subprocess(
            *("-p", "no:repeat"),  # it has an option --count, too
            *PLUGIN,
            *("--embedded-services", "serial", "--port", talking, "--baud", "115200"),
            *("--refold-port", running, "--refold-artefact", str(artefact)),
            *("-p", "no:cacheprovider", "--junit-xml", "out.xml"),
        )
    done.assert_outcomes(passed=2)
    (suite,) = junitparser.JUnitXml.fromfile(str(pytester.path / "out.xml"))
    case = next(iter(suite))
    properties = {p.name: p.value for p in case.child(junitparser.Properties)}
    assert "pass" == properties["refold_verdict"]
