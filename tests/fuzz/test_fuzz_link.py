"""A bounded run of the link's fuzzer under the sanitizers, and its corpus again."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cbuild import STRICT, compile_c, compilers
from link_device import STUB_SOURCES, SUITE

SOURCE = Path(__file__).with_name("fuzz_link.c")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fuzzer that drives itself."""
    if not compilers():
        pytest.skip("no C compiler")
    return compile_c(
        [*STUB_SOURCES, SOURCE],
        tmp_path_factory.mktemp("fuzz") / "fuzz_link",
        cc=compilers()[0],
        flags=["-O1", "-g", "-DFUZZ_MAIN", *STRICT, *SANITIZERS],
        include=[SUITE],
    )


@pytest.mark.parametrize("seed", [1, 20, 300])
def test_invariants_hold(fuzzer: Path, seed: int) -> None:
    """No input, sound or not, breaks an invariant of link.h or a sanitizer's rule."""
    done = subprocess.run(
        [fuzzer, str(seed), "300"], capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr
    images = int(done.stdout.split()[2])
    assert images > 300, "the inputs no longer reach the images"


def test_the_corpus_is_still_sound(tmp_path: Path) -> None:
    """libFuzzer runs every kept input, and none breaks an invariant."""
    if not shutil.which("clang"):
        if os.environ.get("CI"):
            pytest.fail("no clang, which has libFuzzer")
        pytest.skip("no clang, which has libFuzzer")
    flags = ["-O1", "-g", *STRICT, "-fsanitize=fuzzer", *SANITIZERS]
    program = compile_c(
        [*STUB_SOURCES, SOURCE],
        tmp_path / "fuzz_link",
        cc="clang",
        flags=flags,
        include=[SUITE],
    )
    inputs = sorted(SOURCE.with_name("corpus").iterdir())
    assert len(inputs) > 100
    done = subprocess.run(
        [program, "-timeout=5", *inputs], capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    assert len(inputs) == done.stderr.count("Executed ")
