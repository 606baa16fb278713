"""Other tests, and the counting benchmark, are run on the SIMD kernels: find them."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [
    str(TESTS / "firmware"),
    str(TESTS / "compiler"),
    str(TESTS.parent / "benchmarks"),
]
