"""Every compiler at every level computes the same bits of PACE."""

from __future__ import annotations

import ctypes as c
from pathlib import Path

import numpy as np
import pytest
from cbuild import ROOT, STRICT, compile_shared, compilers
from ctypes_kernels import Guarded
from ctypes_pace import SOURCES

EXERCISE = Path(__file__).with_name("pace_exercise.c")
LEVELS = (("-O0",), ("-O2",), ("-O3", "-march=native"))


def exercise(cc: str, flags: tuple[str, ...], out_dir: Path) -> bytes:
    """The words of pace_exercise as one build computes them."""
    library = compile_shared(
        [EXERCISE, *SOURCES],
        cc=cc,
        flags=(*flags, *STRICT),
        include=[EXERCISE.parent, ROOT / "firmware/src"],
        out_dir=out_dir,
    )
    words = Guarded((1024,), np.uint32)
    count = library.pace_exercise(words.pointer)
    assert words.is_intact()
    assert 700 < count <= 1024
    assert np.isfinite(words.array[:count].view(np.float32)).all()
    return words.array[:count].tobytes()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What the first compiler computes without optimising."""
    return exercise(compilers()[0], ("-O0",), tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("cc", compilers())
@pytest.mark.parametrize("level", LEVELS, ids=" ".join)
def test_bits(plain: bytes, cc: str, level: tuple[str, ...], tmp_path: Path) -> None:
    """A build's random numbers, searches, projections and statistics are these."""
    assert plain == exercise(cc, level, tmp_path)


def test_a_fused_build_differs(plain: bytes, tmp_path: Path) -> None:
    """The exercise notices contraction."""
    info = Path("/proc/cpuinfo")
    if not info.exists() or " fma " not in info.read_text():
        pytest.skip("this processor has no fused multiply-add")
    flags = ("-O2", "-ffp-contract=fast", "-mfma")
    assert plain != exercise(compilers()[0], flags, tmp_path)


def test_memory_macros(tmp_path: Path) -> None:
    """Sizes known at compile time are those that the tests give."""
    source = tmp_path / "sizes.c"
    source.write_text(
        '#include "pace/bank.h"\n#include "pace/cma.h"\n#include "pace/shift.h"\n'
        "const unsigned sizes[] = {REFOLD_CMA_FLOATS(32), REFOLD_CMA_FLOATS(64),\n"
        "    REFOLD_CMA_FLOATS(65), REFOLD_CMA_STATE_FLOATS(32),\n"
        "    REFOLD_BANK_FLOATS(8, 32), REFOLD_SHIFT_FLOATS(16)};\n"
    )
    library = compile_shared(
        [source], flags=STRICT, include=[ROOT / "firmware/src"], out_dir=tmp_path
    )
    sizes = list((c.c_uint * 6).in_dll(library, "sizes"))
    assert [1344, 4736, 715, 624, 256, 32] == sizes
