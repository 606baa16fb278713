"""Worker processes of the parity check: none outlives whom it works for."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_model import make_images, write_data, write_model

from refoldc.pipeline import compile_model

from refold.check import checking

END_S = 20.0
"""A worker ends in milliseconds; the rest is for a busy machine."""
NAP_S = 120.0
"""Longer than any test waits: a worker that is not ended is found."""

HOLDER = f"""
import os, sys, time
from pathlib import Path
from refold.check import checking
with checking(Path(sys.argv[1]), workers=1) as checker:
    print(checker._executor.submit(os.getpid).result(), flush=True)
    checker._executor.submit(time.sleep, {NAP_S}).result()
"""


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the small network."""
    folder = tmp_path_factory.mktemp("compiled")
    model = write_model(folder / "small.onnx")
    compile_model(model, make_images(64), folder / "small.refold")
    return folder / "small.refold"


def start(*words: object) -> subprocess.Popen[bytes]:
    """Start Python with this process's path, its output in a pipe."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipe = subprocess.PIPE
    command = [sys.executable, *map(str, words)]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, env=environment)


def alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_an_exception_ends_a_claim_in_progress(artefact: Path) -> None:
    """Whoever leaves by Ctrl-C does not wait for a long stream's check."""
    began = time.monotonic()

    def leave() -> None:
        with checking(artefact, workers=1) as checker:
            checker._executor.submit(os.getpid).result()
            checker._executor.submit(time.sleep, NAP_S)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        leave()
    assert END_S > time.monotonic() - began


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="no /proc")
def test_workers_end_with_a_killed_parent(artefact: Path) -> None:
    """SIGKILL leaves no worker, and nobody who holds the output open."""
    with start("-c", HOLDER, artefact) as holder:
        assert holder.stdout is not None
        worker = int(holder.stdout.readline())
        assert alive(worker)
        holder.kill()
        holder.communicate(timeout=END_S)
        deadline = time.monotonic() + END_S
        while alive(worker) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not alive(worker)


@pytest.mark.skipif(os.name == "nt", reason="no SIGTERM")
def test_sigterm_ends_a_run_like_ctrl_c(artefact: Path, tmp_path: Path) -> None:
    """A terminated run exits 130 and closes its output: no child holds it."""
    data = write_data(tmp_path / "long.npz", count=3000)
    words = ("run", artefact, "--data", data, "--corruptions", "fog")
    log = tmp_path / "log"
    with start("-m", "refold", "--log-file", log, *words) as run:
        while run.poll() is None and not (log.exists() and "begins" in log.read_text()):
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        _, err = run.communicate(timeout=60)
    assert 130 == run.returncode
    assert b"interrupted" in err
    assert b"Traceback" not in err
