"""A bounded run of benchmarks/fuzz.py's damaged files; the command runs for longer."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import ModuleType

import pytest
from models import small_classifier


@pytest.fixture(scope="module")
def fuzz(repo_root: Path) -> ModuleType:
    """The command as a module."""
    file = repo_root / "benchmarks/fuzz.py"
    spec = importlib.util.spec_from_file_location("refold_fuzz", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_damaged_files_compile_or_are_refused(fuzz: ModuleType) -> None:
    """No traceback, whatever bytes were flipped, removed or repeated."""
    rng = random.Random(7)
    source = small_classifier().SerializeToString()
    outcomes = [fuzz.attempt(fuzz.mutated(rng, source)) for _ in range(30)]
    assert {"compiled", "refused"} == set(outcomes)


def test_a_traceback_is_a_failure(
    fuzz: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command can fail: an error that is no message is reported as it is."""

    def broken(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(fuzz, "compile_model", broken)
    assert "KeyError: 'x'" == fuzz.attempt(small_classifier().SerializeToString())
