"""The SIMD kernels equal the portable ones wherever chance leads."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_cases import compare
from simd_kernels import build


def test_some_random_cases(tmp_path: Path) -> None:
    """Some thousand calls of all operators agree, under the sanitizer."""
    compare(build("checked", tmp_path), cases=3200, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_million_random_cases(tmp_path: Path) -> None:
    """A million calls of all operators agree."""
    compare(build("fast", tmp_path), cases=1_000_000, seed=2)
