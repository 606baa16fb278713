"""platformio.ini's environments for the ESP32-S3, read by PlatformIO itself."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from port_harness import PORT

from refoldc.artefact import Artefact

from refold.boards import Board, list_boards
from refold.esp_project import PLATFORM, render_platformio
from refold.resources import firmware_dir

BOARDS = [board for board in list_boards() if board.toolchain.kind == "esp_idf"]


def config(project: Path, home: Path) -> dict[str, dict[str, Any]]:
    """``pio project config``: sections with their options."""
    if importlib.util.find_spec("platformio") is None:
        words = "no PlatformIO (pip install platformio)"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PLATFORMIO_CORE_DIR": str(home),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No",
    }
    command = [sys.executable, "-m", "platformio", "project", "config"]
    done = subprocess.run(
        [*command, "-d", str(project), "--json-output"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return {name: dict(options) for name, options in json.loads(done.stdout)}


def test_every_board_has_its_environment(repo_root: Path, tmp_path: Path) -> None:
    """With its framework, PlatformIO's board and the pinned platform."""
    sections = config(repo_root, tmp_path)
    for board in BOARDS:
        found = sections[f"env:{board.toolchain.env}"]
        assert (PLATFORM, ["espidf"], board.toolchain.pio_board) == (
            found["platform"],
            found["framework"],
            found["board"],
        )
        scripts = [name.removeprefix("pre:") for name in found["extra_scripts"]]
        assert all((repo_root / name).is_file() for name in scripts)


def test_both_cmake_files_are_where_platformio_looks(
    repo_root: Path, tmp_path: Path
) -> None:
    """Otherwise it would write some of its own that build everything."""
    sections = config(repo_root, tmp_path)
    assert PORT == repo_root / sections["platformio"]["src_dir"]
    assert (PORT / "CMakeLists.txt").is_file()
    assert "project(refold)" in (repo_root / "CMakeLists.txt").read_text()


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.id)
def test_the_project_of_a_build_is_read_as_written(
    board: Board, tmp_path: Path
) -> None:
    """Paths and CMake's arguments survive PlatformIO's syntax."""
    arguments = ["-DREFOLD_CONFIG=/a b/c", "-DSDKCONFIG_DEFAULTS=/a b/x;/a b/y"]
    text = render_platformio(
        board,
        sources=PORT,
        sdkconfig=Path("/a b/sdkconfig"),
        partitions=Path("/a b/partitions.csv"),
        cmake=shlex.join(arguments),
    )
    (tmp_path / "platformio.ini").write_text(text)
    sections = config(tmp_path, tmp_path / "home")
    found = sections[f"env:{board.toolchain.env}"]
    assert "/a b/partitions.csv" == found["board_build.partitions"]
    assert "/a b/sdkconfig" == found["board_build.esp-idf.sdkconfig_path"]
    assert arguments == shlex.split(found["board_build.cmake_extra_args"])
    assert str(PORT) == sections["platformio"]["src_dir"]


class Environment(dict[str, str]):
    """What a pre-script sees of SCons."""

    def __init__(self, artefact: Path, name: str) -> None:
        super().__init__(REFOLD_ARTEFACT=str(artefact), PIOENV=name)
        self.manifest: dict[str, str] = {}

    def BoardConfig(self) -> Environment:  # noqa: N802  # PlatformIO's name
        """Return what takes the settings."""
        return self

    def update(self, name: str, value: str) -> None:  # type: ignore[override]
        """Note a setting."""
        self.manifest[name] = value


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.id)
def test_the_script_hands_over_what_refold_has_made(
    board: Board, artefact: Artefact
) -> None:
    """Partitions, sdkconfig and the build's folder, in the artefact."""
    env = Environment(artefact.path, board.toolchain.env)
    script = firmware_dir() / "platformio/esp_idf.py"
    names = {"env": env, "Import": lambda _: None}
    exec(compile(script.read_text(), str(script), "exec"), names)  # noqa: S102  # ours
    folder = artefact.path / "build" / board.id
    assert {
        "build.partitions": str(folder / "partitions.csv"),
        "build.esp-idf.sdkconfig_path": str(folder / "sdkconfig"),
    }.items() <= env.manifest.items()
    arguments = shlex.split(env.manifest["build.cmake_extra_args"])
    assert f"-DREFOLD_CONFIG={folder}" in arguments
    assert (folder / "refold_build.h").is_file()
    assert (folder / "partitions.csv").is_file()
