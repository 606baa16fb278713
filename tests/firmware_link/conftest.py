"""The link over its stub runtime, compiled once for all tests."""

from __future__ import annotations

import ctypes

import pytest
from cbuild import STRICT, compile_shared, compilers
from link_device import STUB_SOURCES, SUITE


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The link as a shared library, with ``harness.c`` around it."""
    if not compilers():
        pytest.skip("no C compiler")
    return compile_shared(
        [*STUB_SOURCES, SUITE / "harness.c"],
        cc=compilers()[0],
        flags=["-O2", *STRICT],
        include=[SUITE],
        out_dir=tmp_path_factory.mktemp("link"),
    )
