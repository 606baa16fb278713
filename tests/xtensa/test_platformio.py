"""PlatformIO builds the firmware that ``refold build`` builds, without a download."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from refoldc.adapt import AdaptConfig

from refold.board_session import connect
from refold.boards import load_board
from refold.build import Build
from refold.recipe import make_recipe

TINY = Path(__file__).parents[1] / "host/tiny_artefact"
SCONS = "from SCons.Script import main\nmain()\n"


@pytest.fixture(scope="module")
def pio_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home of PlatformIO whose only package is SCons, as PyPI has it."""
    missing = [
        m for m in ("platformio", "SCons") if importlib.util.find_spec(m) is None
    ]
    if missing:
        words = f"no {' and no '.join(missing)} (pip install platformio scons)"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    from platformio.dependencies import get_core_dependencies

    home = tmp_path_factory.mktemp("pio")
    package = home / "packages/tool-scons"
    package.mkdir(parents=True)
    wanted = get_core_dependencies()["tool-scons"].lstrip("~")
    about = {"name": "tool-scons", "version": wanted}
    spec = {"owner": "platformio", "name": "tool-scons"}
    (package / "package.json").write_text(json.dumps(about))
    (package / ".piopm").write_text(json.dumps({"type": "tool", "spec": spec, **about}))
    (package / ".piokeep").touch()
    (package / "scons.py").write_text(SCONS)
    return home


def pio_run(
    repo_root: Path, home: Path, board: str, artefact: Path
) -> subprocess.CompletedProcess[str]:
    """Run ``pio run`` with a workspace of the test's own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PLATFORMIO_CORE_DIR": str(home),
        "PLATFORMIO_WORKSPACE_DIR": str(home / "workspace"),
        "PLATFORMIO_SETTING_ENABLE_TELEMETRY": "No",
        "REFOLD_ARTEFACT": str(artefact),
    }
    return subprocess.run(
        [sys.executable, "-m", "platformio", "run", "-e", board],
        cwd=repo_root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", ["native", "xtensa-qemu"])
def test_platformio_builds_the_same_firmware(
    name: str, pio_home: Path, repo_root: Path, request: pytest.FixtureRequest
) -> None:
    """It has the build hash of ``refold build``, starts, and answers an image."""
    board = request.getfixturevalue("xtensa") if name != "native" else load_board(name)
    done = pio_run(repo_root, pio_home, name, TINY)
    assert 0 == done.returncode, done.stdout + done.stderr
    program = pio_home / "workspace/build" / name / "program"
    build_hash = make_recipe(TINY, board).build_hash
    built = Build(program, build_hash, None, program.parent, ())
    with connect(board, built) as device:
        device.begin(AdaptConfig(method="off"))
        (reply,) = device.run([bytes([130] * 12)])
    assert [6, 12, 18] == reply.logits.tolist()


def test_a_missing_artefact_is_told(pio_home: Path, repo_root: Path) -> None:
    """The message has both ways to name one."""
    done = pio_run(repo_root, pio_home, "native", pio_home / "nowhere")
    assert 0 != done.returncode
    said = done.stdout + done.stderr
    assert "custom_refold_artefact in platformio.ini or REFOLD_ARTEFACT" in said
