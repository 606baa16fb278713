"""The libraries that the firmware's tests load."""

from __future__ import annotations

import ctypes

import pytest
from cbuild import RUNTIME_SOURCES, compile_shared
from ctypes_pace import load_pace
from runtime_harness import MODEL

from refold.twin import NativeReport

KERNELS = [
    p for p in RUNTIME_SOURCES if p.parent.name == "kernels" and p.stem.endswith("_ref")
]
KERNEL_BUILDS = {
    "fast": ("-O3",),
    "checked": ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all"),
}


@pytest.fixture(scope="session", params=KERNEL_BUILDS)
def lib(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> ctypes.CDLL:
    """The portable kernels, optimised and under the sanitizer."""
    out = tmp_path_factory.mktemp("kernels")
    return compile_shared(KERNELS, flags=KERNEL_BUILDS[request.param], out_dir=out)


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The runtime with the small model."""
    out = tmp_path_factory.mktemp("runtime")
    library = compile_shared([*RUNTIME_SOURCES, MODEL], flags=("-O2",), out_dir=out)
    for name in ("refold_arena_bytes", "refold_adapt_state_bytes"):
        getattr(library, name).restype = ctypes.c_size_t
    library.refold_last.restype = ctypes.POINTER(NativeReport)
    return library


@pytest.fixture(scope="session")
def pace(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The mathematics of PACE, under the sanitizer."""
    checked = ("-O1", "-fsanitize=undefined", "-fno-sanitize-recover=all")
    return load_pace(tmp_path_factory.mktemp("pace"), flags=checked)
