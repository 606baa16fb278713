"""Firmware of the port to ESP-IDF, and the files that stand for its flash."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cbuild import RUNTIME_SOURCES, STRICT, compile_c, compilers
from port_harness import (
    BUILD_HASH,
    DEFINES,
    INCLUDES,
    NATIVE,
    STUBS,
    MakeFirmware,
    port_sources,
)

from refoldc.artefact import Artefact
from refoldc.pipeline import compile_model

from refold.boards import load_board
from refold.build import Build
from refold.data import load_data
from refold.esp_project import render_header
from refold.placement import place
from refold.resources import bundled_model


@pytest.fixture(scope="session")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """Compile the bundled network."""
    images = load_data("digits", split="train", limit=64).images
    out = tmp_path_factory.mktemp("digits") / "digits.refold"
    return compile_model(bundled_model(), images, out)


@pytest.fixture(scope="session")
def make_firmware(
    artefact: Artefact, tmp_path_factory: pytest.TempPathFactory
) -> MakeFirmware:
    """Return what links the port, the runtime with SIMD kernels, and the network."""
    if not compilers():
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("port")
    placement = place(artefact.qgraph, load_board("esp32s3-devkitc-1"))
    header = folder / "refold_build.h"
    header.write_text(render_header(placement, BUILD_HASH))
    flags = ("-O1", "-pthread", *STRICT, *DEFINES, "-include", str(header))
    include = (*INCLUDES, artefact.path)
    shared = (*RUNTIME_SOURCES, artefact.path / "model.c", NATIVE / "channel.c")
    runtime = compile_c(
        shared, folder / "runtime.o", flags=(*flags, "-r"), include=include
    )
    made: dict[tuple[str, ...], Build] = {}

    def make(wire: str, *settings: str) -> Build:
        key = (wire, *settings)
        if key not in made:
            program = compile_c(
                [*port_sources(wire), STUBS / "stubs.c", runtime],
                folder / f"board{len(made)}",
                flags=(*flags, *settings),
                include=include,
            )
            sites = tuple(range(len(artefact.manifest.sites)))
            made[key] = Build(program, BUILD_HASH, None, folder, sites)
        return made[key]

    return make


@pytest.fixture
def flash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that stands for the board's flash and RTC memory."""
    for name in [name for name in os.environ if name.startswith("STUB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("STUB_FOLDER", str(tmp_path))
    return tmp_path
