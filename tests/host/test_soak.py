"""Short runs of what the commands in benchmarks/ do for longer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from refoldc.adapt import AdaptConfig

from refold.board_session import connect
from refold.boards import load_board
from refold.build import build
from refold.device import Device

TINY = Path(__file__).parent / "tiny_artefact"
IMAGES = [bytes(12)] * 50
PACE_US = 50_000


@pytest.mark.skipif(sys.platform != "linux", reason="it reads memory from /proc")
def test_a_bad_line_loses_nothing_and_memory_is_flat(repo_root: Path) -> None:
    """The soak's command over fewer images: its bounds hold, and faults there were."""
    done = subprocess.run(
        [sys.executable, repo_root / "benchmarks/soak.py", "--images", "4000"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    found = re.match(r"4000 images, (\d+) faults .* (\d+) frames sent ag", done.stdout)
    assert found is not None
    assert 100 < int(found[1])
    assert 100 < int(found[2])


def test_two_boards_at_once_take_the_time_of_one(tmp_path: Path) -> None:
    """Paced at 50 ms an image: at most 0.6 of the time of one after the other."""
    board = load_board("native")
    artefact = shutil.copytree(TINY, tmp_path / "artefact")
    built = build(artefact, board)
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        paced = ("--pace-us", str(PACE_US))
        devices = [
            stack.enter_context(connect(board, built, arguments=paced))
            for _ in range(2)
        ]
        start = time.monotonic()
        answered = [_stream(device) for device in devices]
        half_time = time.monotonic()
        answered += pool.map(_stream, devices)
        end = time.monotonic()
    assert [len(IMAGES)] * 4 == answered
    least = 2 * (len(IMAGES) - 1) * PACE_US / 1e6
    assert least <= half_time - start, "the boards are not paced"
    assert 0.6 * (half_time - start) >= end - half_time


def _stream(device: Device) -> int:
    device.begin(AdaptConfig(method="off"))
    return len(list(device.run(IMAGES)))
