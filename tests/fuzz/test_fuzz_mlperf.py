"""A bounded run of the MLPerf Tiny device's fuzzer under the sanitizers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cbuild import STRICT, compile_c, compilers
from link_device import STUB_SOURCES, SUITE

SOURCE = Path(__file__).with_name("fuzz_mlperf.c")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fuzzer that drives itself."""
    if not compilers():
        pytest.skip("no C compiler")
    return compile_c(
        [*STUB_SOURCES, SOURCE],
        tmp_path_factory.mktemp("fuzz") / "fuzz_mlperf",
        cc=compilers()[0],
        flags=["-O1", "-g", "-DFUZZ_MAIN", *STRICT, *SANITIZERS],
        include=[SUITE],
    )


@pytest.mark.parametrize("seed", [1, 20, 300])
def test_invariants_hold(fuzzer: Path, seed: int) -> None:
    """No characters break an invariant of mlperf.h or a sanitizer's rule."""
    done = subprocess.run(
        [fuzzer, str(seed), "300"], capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    images = int(done.stdout.split()[2])
    assert images > 300, "the commands no longer reach the images"
