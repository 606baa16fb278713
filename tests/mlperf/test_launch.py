"""The launcher: a runner that knows only USB numbers finds the native board."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from refoldc.artefact import Artefact

RUNNER = """\
import sys

import serial
from serial.tools import list_ports

(found,) = [p for p in list_ports.comports(True) if (p.vid, p.pid) == (0x1209, 1)]
for _ in range(2):
    with serial.Serial(found.device, 115200, timeout=20) as port:
        port.write(b"profile%")
        text = port.read_until(b"m-ready\\r\\n").decode()
print(sys.argv[1], text.splitlines()[1])
"""


def test_a_runner_finds_the_board(artefact: Artefact, tmp_path: Path) -> None:
    """By its USB numbers; it opens the device path, twice."""
    runner = tmp_path / "main.py"
    runner.write_text(RUNNER)
    command = [sys.executable, "-m", "refold.mlperf.launch", artefact.path, runner, "x"]
    done = subprocess.run(
        command,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (0, "x m-model-[custom]") == (done.returncode, done.stdout.strip()), (
        done.stderr
    )


def _environment() -> dict[str, str]:
    """This process's, with the packages that pytest itself put on the path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
