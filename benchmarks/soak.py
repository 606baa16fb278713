"""Many images over a bad line: nothing lost, nothing wrong, memory flat.

    python benchmarks/soak.py
    python benchmarks/soak.py --images 50000 --rate 1e-4

The bundled network adapts on the native board while its images are streamed over and
over, once over a sound line and once through a proxy that damages, loses and repeats
bytes both ways. Every reply and the adaptation state at the end must be those of the
sound line. Resident memory of board and host is watched from a tenth of the images
on. Exits 1 where a reply differs or is lost, or memory grows.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import cycle, islice
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection
from pathlib import Path

import click

from refoldc.adapt import AdaptConfig
from refoldc.pipeline import compile_model

from refold.board_session import connect
from refold.boards import Board, load_board
from refold.build import Build, build
from refold.data import load_data
from refold.device import Patience
from refold.fault_proxy import FaultProxy
from refold.faults import Kind, random_faults
from refold.inputs import device_input
from refold.resources import bundled_model

KINDS: tuple[Kind, ...] = ("corrupt", "drop", "duplicate", "insert")
CALIBRATION_IMAGES = 512
MOST_GROWTH_KIB = 1024
"""Of both processes together, allocators' noise included."""
SAMPLES = 100
"""Times that memory is looked at."""
CONFIG = AdaptConfig(gate=False)


@dataclass(frozen=True)
class Outcome:
    """What one pass over the images gave.

    Attributes:
        replies: That came, in order.
        digest: Of all logits and of the state at the end.
        resent: Frames.
        board_kib: Resident memory of the board at a tenth of the images and its most
            from there on.
        host_kib: And of this process.
    """

    replies: int
    digest: str
    resent: int
    board_kib: tuple[int, int]
    host_kib: tuple[int, int]

    @property
    def grown_kib(self) -> int:
        """Growth of both together."""
        return sum(
            max(0, end - start) for start, end in (self.board_kib, self.host_kib)
        )

    def report(self, sound: Outcome, images: int, faults: str, seconds: float) -> None:
        """Print one line; exit 1 where it is not as over a sound line."""
        same = self.digest == sound.digest
        lost = images - self.replies
        holds = same and not lost and self.grown_kib <= MOST_GROWTH_KIB
        click.echo(
            f"{images} images, {faults}, {self.resent} frames sent again, {lost} lost; "
            f"logits and state {'equal' if same else 'DIFFER from'} the sound line's; "
            f"memory of the board {self.board_kib[0]} -> {self.board_kib[1]} KiB, of "
            f"the host {self.host_kib[0]} -> {self.host_kib[1]} KiB; {seconds:.0f} s: "
            f"{'ok' if holds else 'MISSED'}"
        )
        if not holds:
            raise SystemExit(1)


@click.command()
@click.option("--images", type=click.IntRange(SAMPLES), default=50_000)
@click.option("--rate", type=float, default=1e-4, help="Faults a byte.")
@click.option("--seed", type=int, default=0, show_default=True)
def main(images: int, rate: float, seed: int) -> None:
    """Stream images over a bad line for a long time."""
    with tempfile.TemporaryDirectory() as folder:
        train = load_data("digits", split="train", limit=CALIBRATION_IMAGES)
        artefact = compile_model(bundled_model(), train.images, Path(folder) / "soak")
        board = load_board("native")
        built = build(artefact.path, board)
        test = device_input(
            artefact.manifest.input, load_data("digits", split="test").images
        )
        pictures = [image.tobytes() for image in test]
        with _running(built) as (port, pid):
            sound = _stream(board, built, port, pid, pictures, images)
            start = time.monotonic()
            with _bad_line(port, rate, seed) as line:
                noisy = _stream(board, built, line.recv(), pid, pictures, images)
                line.send("how many?")
                faults = line.recv()
            seconds = time.monotonic() - start
    noisy.report(sound, images, f"{faults} faults ({rate:g} a byte)", seconds)


@contextmanager
def _running(built: Build) -> Iterator[tuple[str, int]]:
    """The board's process: its port and number."""
    pipe = subprocess.PIPE
    command = [str(built.executable), "--tcp", "0"]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as child:
        yield child.stdout.readline().split()[1], child.pid


@contextmanager
def _bad_line(port: str, rate: float, seed: int) -> Iterator[Connection]:
    """A proxy in a process of its own, whose memory is not the host's.

    The connection gives its URL, and the number of faults for every word but "".
    """
    ours, theirs = Pipe()
    child = Process(target=_disturb, args=(theirs, port, rate, seed), daemon=True)
    child.start()
    try:
        yield ours
    finally:
        ours.send("")
        child.join()


def _disturb(asked: Connection, port: str, rate: float, seed: int) -> None:
    to_board, to_host = ([random_faults(2 * seed + way, rate, KINDS)] for way in (0, 1))
    with FaultProxy(port, to_board=to_board, to_host=to_host) as proxy:
        asked.send(proxy.url)
        while asked.recv():
            asked.send(proxy.faults)


def _stream(
    board: Board, built: Build, port: str, pid: int, pictures: list[bytes], images: int
) -> Outcome:
    digest, memory, replies, resent = sha256(), [], 0, 0
    patience = Patience(first_s=0.05, image_s=60.0)
    with connect(board, built, port, patience=patience) as device:
        device.begin(CONFIG)
        for reply in device.run(islice(cycle(pictures), images)):
            digest.update(reply.logits.tobytes())
            replies += 1
            resent += reply.resent
            if replies % (images // SAMPLES) == 0:
                memory.append((_resident_kib(pid), _resident_kib(os.getpid())))
        digest.update(device.read_state())
    early, later = memory[SAMPLES // 10], zip(*memory[SAMPLES // 10 :], strict=True)
    board_kib, host_kib = zip(early, map(max, later), strict=True)
    return Outcome(replies, digest.hexdigest(), resent, board_kib, host_kib)


def _resident_kib(pid: int) -> int:
    """Resident memory of a process.

    Source: Linux, proc(5), /proc/PID/statm, second field.
    """
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


if __name__ == "__main__":
    main()
