"""What a second board is worth: two runs side by side against one after the other.

    python benchmarks/parallel.py

Two native boards take at least 50 ms an image each, as real ones do. `refold run`
streams to both, first to one and then to the other, then to both at once; every run
is a process of its own. Exits 1 where the second way takes more than 0.6 of the
first's time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import click

from refoldc.pipeline import compile_model

from refold.boards import load_board
from refold.build import build
from refold.data import load_data
from refold.process import spawn
from refold.resources import bundled_model

MOST = 0.6
PACE_US = 50_000


@click.command()
@click.option("--images", type=click.IntRange(1), default=200, show_default=True)
def main(images: int) -> None:
    """Compare two boards side by side with one after the other."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as boards:
        train = load_data("digits", split="train", limit=512)
        artefact = compile_model(bundled_model(), train.images, Path(folder) / "model")
        program = str(build(artefact.path, load_board("native")).executable)
        paced = [program, "--tcp", "0", "--pace-us", str(PACE_US)]
        ports = [boards.enter_context(spawn(paced)) for _ in range(2)]
        options = ("--data", "digits", "--corruptions", "none", "--adapt", "forge")
        run = [sys.executable, "-m", "refold", "run", str(artefact.path), *options]
        commands = [[*run, "--images", str(images), "--port", port] for port in ports]
        one_by_one = sum(_seconds([command]) for command in commands)
        at_once = _seconds(commands)
    ratio = at_once / one_by_one
    click.echo(
        f"2 boards, {images} images each at {PACE_US // 1000} ms: {one_by_one:.1f} s "
        f"one after the other, {at_once:.1f} s at once; ratio {ratio:.2f} <= {MOST}: "
        f"{'ok' if ratio <= MOST else 'MISSED'}"
    )
    sys.exit(ratio > MOST)


def _seconds(commands: Sequence[Sequence[str]]) -> float:
    """Time that the commands take when they run at once."""
    start = time.monotonic()
    children = [
        subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands
    ]
    failed = [child.args for child in children if child.wait() != 0]
    if failed:
        raise SystemExit(f"failed: {failed}")
    return time.monotonic() - start


if __name__ == "__main__":
    main()
