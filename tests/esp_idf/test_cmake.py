"""The component's CMakeLists.txt, read by CMake with ESP-IDF's functions stubbed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from cbuild import RUNTIME_SOURCES
from port_harness import PORT, port_sources

STUB = """
set(COMPONENT_LIB main)
function(idf_component_register)
    cmake_parse_arguments(A "" "" "SRCS;INCLUDE_DIRS;PRIV_INCLUDE_DIRS;PRIV_REQUIRES"
        ${{ARGN}})
    message("SRCS=${{A_SRCS}}")
    message("REQUIRES=${{A_PRIV_REQUIRES}}")
endfunction()
function(target_compile_definitions)
    message("DEFINITIONS=${{ARGN}}")
endfunction()
function(target_compile_options)
    message("OPTIONS=${{ARGN}}")
endfunction()
function(set_source_files_properties)
    message("PROPERTIES=${{ARGN}}")
endfunction()
set(IDF_VERSION_MAJOR {major})
set(IDF_VERSION_MINOR {minor})
{settings}
include({component}/CMakeLists.txt)
"""
DRIVERS = {"esp_driver_gpio", "esp_driver_uart", "esp_driver_usb_serial_jtag"}


def evaluate(
    folder: Path, *settings: str, version: tuple[int, int] = (5, 4)
) -> subprocess.CompletedProcess[str]:
    """Let CMake read the component."""
    if shutil.which("cmake") is None and not os.environ.get("CI"):
        pytest.skip("no cmake on PATH")
    script = folder / "stub.cmake"
    lines = "\n".join(f"set({setting})" for setting in settings)
    script.write_text(
        STUB.format(major=version[0], minor=version[1], settings=lines, component=PORT)
    )
    return subprocess.run(
        ["cmake", "-P", str(script)], capture_output=True, text=True, check=False
    )


def lists(text: str) -> dict[str, list[str]]:
    """What the stubs were given."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {name: values.split(";") for name, values in pairs}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Return a build's folder within an artefact."""
    folder = tmp_path / "model.refold/build/board"
    folder.mkdir(parents=True)
    (folder / "refold_build.h").touch()
    return folder


@pytest.mark.parametrize(
    ("setting", "wire"),
    [
        ("CONFIG_REFOLD_LINK_UART y", "wire_uart"),
        ("CONFIG_REFOLD_LINK_USB_SERIAL_JTAG y", "wire_usb"),
    ],
)
def test_every_source_is_listed(
    setting: str, wire: str, config: Path, tmp_path: Path
) -> None:
    """The runtime as other builds have it, the port with one line, the model."""
    done = evaluate(tmp_path, f"REFOLD_CONFIG {config}", setting)
    assert 0 == done.returncode, done.stderr
    listed = {(PORT / source).resolve() for source in lists(done.stderr)["SRCS"]}
    model = config.parent.parent / "model.c"
    assert {*RUNTIME_SOURCES, *port_sources(wire), model} == listed


def test_sources_have_names_of_their_own() -> None:
    """PlatformIO puts the objects of sources outside its project into one folder."""
    names = [path.name for path in RUNTIME_SOURCES]
    names += [path.name for path in port_sources("wire_uart")]
    assert len(set(names)) == len(names)
    assert "model.c" not in names


def test_code_keeps_the_floating_point_rules(config: Path, tmp_path: Path) -> None:
    """And has the SIMD kernels and the build's header."""
    given = lists(evaluate(tmp_path, f"REFOLD_CONFIG {config}").stderr)
    assert {"-ffp-contract=off", "-fno-fast-math"} <= set(given["OPTIONS"])
    main, model, *_, flags = given["PROPERTIES"]
    assert ("main.c", "model.c") == (main, Path(model).name)
    assert f'-include "{config}/refold_build.h"' == flags
    assert "REFOLD_ESP32S3" in given["DEFINITIONS"]


@pytest.mark.parametrize(
    ("version", "drivers"),
    [
        ((5, 1), {"driver"}),
        ((5, 2), {"driver"}),
        ((5, 3), DRIVERS),
        ((6, 0), DRIVERS),
        ((6, 2), DRIVERS),
    ],
)
def test_drivers_have_the_version_s_names(
    version: tuple[int, int], drivers: set[str], config: Path, tmp_path: Path
) -> None:
    """They were one component up to 5.2."""
    done = evaluate(tmp_path, f"REFOLD_CONFIG {config}", version=version)
    others = {"esp_psram", "esp_timer", "nvs_flash"}
    assert drivers | others == set(lists(done.stderr)["REQUIRES"])


def test_a_missing_configuration_is_told(tmp_path: Path) -> None:
    """But not when only the requirements are read."""
    early = evaluate(tmp_path, "CMAKE_BUILD_EARLY_EXPANSION 1")
    assert 0 == early.returncode, early.stderr
    done = evaluate(tmp_path)
    assert 0 != done.returncode
    assert "refold build DIR --board ID" in " ".join(done.stderr.split())
