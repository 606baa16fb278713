"""Wheel and sdist: they hold what an installed refold needs."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="the test extra brings hatchling")

NEEDED = (
    "firmware/include/refold/refold.h",
    "firmware/ports/xtensa_qemu/link.ld",
    "firmware/ports/esp_idf/main/CMakeLists.txt",
    "firmware/ports/esp_idf/sdkconfig.defaults",
    "boards/native.toml",
    "boards/esp32s3-devkitc-1.toml",
    "models/digits.onnx",
    "platformio.ini",
    "CMakeLists.txt",
    "firmware/platformio/platform.json",
    "LICENSE",
)


def build(kind: str, repo_root: Path, folder: Path) -> Path:
    """Build a distribution into ``folder`` and return it."""
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        kind,
        "-d",
        str(folder),
    ]
    done = subprocess.run(
        command, cwd=repo_root, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    (built,) = folder.iterdir()
    return built


def test_the_wheel_finds_its_files(repo_root: Path, tmp_path: Path) -> None:
    """Unpacked anywhere, resources resolve within the package."""
    wheel = build("wheel", repo_root, tmp_path / "dist")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)  # noqa: S202 - our own
    script = (
        "from refold import resources as r; print(r.firmware_dir()); "
        "print(r.boards_dir()); print(r.bundled_model()); print(r.__file__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    paths = done.stdout.split()
    assert [True] * 4 == [Path(path).is_relative_to(site) for path in paths]
    data = site / "refold/_data"
    assert [] == [name for name in NEEDED if not (data / name).is_file()]
    assert (site / "refold/templates/component/examples/main/main.c").is_file()
    assert (site / "refold/py.typed").is_file()


def test_the_sdist_is_complete(repo_root: Path, tmp_path: Path) -> None:
    """The sdist has the repository's layout."""
    sdist = build("sdist", repo_root, tmp_path)
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert set() == {*NEEDED, "README.md", "pyproject.toml"} - names
