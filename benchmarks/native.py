"""How fast the native board is, against ONNX Runtime and against itself.

    python benchmarks/native.py
    python benchmarks/native.py --model net.onnx --calib cifar10:PATH

In one run, in turns, one image at a time: the firmware with adaptation off, with
FORGE at every site, and single-threaded ONNX Runtime on the same int8 network.
Then images are streamed to the board, unchecked, and the wall time is compared
with the inference time that the board reports. Exits 1 where a bound is missed;
the shares are judged for networks of at least 100 us only, because what they
compare with is a fixed cost an image and a channel.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import contenders
import msgspec
import numpy as np

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact
from refoldc.errors import RefoldcError
from refoldc.inspection import inspect_model
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model

from refold.board_session import connect
from refold.boards import load_board
from refold.build import build
from refold.cli.options import FILE, MODEL, floats
from refold.data import DataSet, load_data
from refold.errors import RefoldError
from refold.inputs import device_input
from refold.resources import bundled_model
from refold.toolchain import Compiler, find_compiler

OFF, FORGE, ORT = "refold off", "refold FORGE", "ONNX Runtime int8"
BURST = 5
"""Images that a contender runs in a row; the first warms the caches, untimed."""
STREAMS = 5
CALIBRATION_IMAGES = 512
INSTRUCTION_SETS = ("avx2", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_int8")


JUDGED_US = 100.0
"""Inference time below which shares of it are reported, but not judged."""


@dataclass(frozen=True)
class Bound:
    """A ratio and the most it may be; None where that is not judged."""

    name: str
    value: float
    limit: float | None

    @property
    def verdict(self) -> str:
        """What the report says."""
        if self.limit is None:
            return f"not judged: inference under {JUDGED_US:g} us"
        return f"<= {self.limit:g}  {'ok' if self.holds else 'MISSED'}"

    @property
    def holds(self) -> bool:
        """The bound is met, or there is none."""
        return self.limit is None or self.value <= self.limit


@click.command()
@click.option("--model", type=MODEL, help="ONNX file; default the bundled digits.")
@click.option("--calib", default="digits", show_default=True, metavar="SPEC")
@click.option("--mean", type=floats, help="Per channel, of pixels in [0, 1].")
@click.option("--std", type=floats, help="Per channel, of pixels in [0, 1].")
@click.option("--rounds", type=click.IntRange(10), default=500, show_default=True)
@click.option("--images", type=click.IntRange(1), default=500, help="In a stream.")
@click.option("--json", "json_file", type=FILE, help="Write the figures there.")
def main(
    model: Path | None,
    calib: str,
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
    rounds: int,
    images: int,
    json_file: Path | None,
) -> None:
    """Time the native board; see the top of this file."""
    model = model or bundled_model()
    board = load_board("native")
    compiler = find_compiler(board.toolchain)
    with tempfile.TemporaryDirectory() as folder:
        artefact, data = compile_it(model, calib, mean, std, Path(folder) / "artefact")
        times = race(artefact, data, compiler, Path(folder), rounds)
        added = streaming_overhead(artefact, data, images)
    off, forge, ort = (float(np.median(times[name])) for name in (OFF, FORGE, ORT))
    judged = off >= JUDGED_US
    bounds = (
        Bound("refold off / ONNX Runtime", off / ort, 1.5),
        Bound("FORGE's share of inference", forge / off - 1, 0.08 if judged else None),
        Bound("streaming's share of inference", added, 0.30 if judged else None),
    )
    print_report(model, compiler, times, bounds)
    if json_file is not None:
        json_file.write_bytes(msgspec.json.format(encode(times, bounds, compiler)))
    if not all(bound.holds for bound in bounds):
        raise SystemExit(1)


def compile_it(
    model: Path,
    calib: str,
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
    out: Path,
) -> tuple[Artefact, DataSet]:
    """Compile ``model``; the images that calibrate it are run, too."""
    shape = inspect_model(model).input_shape
    options = CompileOptions(mean=mean, std=std).for_input(shape)
    data = load_data(calib, split="train", limit=CALIBRATION_IMAGES, shape=shape)
    return compile_model(model, data.images, out, options=options), data


def race(
    artefact: Artefact, data: DataSet, compiler: Compiler, folder: Path, rounds: int
) -> dict[str, list[float]]:
    """Return microseconds an image, by contender; all take turns on all images."""
    library = contenders.firmware(artefact, compiler, folder)
    runners: dict[str, contenders.Infer] = {
        OFF: contenders.Firmware(library, artefact, data.images, forge=False),
        FORGE: contenders.Firmware(library, artefact, data.images, forge=True),
        ORT: contenders.OnnxRuntime(artefact, data.images),
    }
    times: dict[str, list[float]] = {name: [] for name in runners}
    for turn in range(rounds):
        for name, infer in runners.items():
            first = turn * BURST
            burst = [(first + i) % len(data.images) for i in range(BURST)]
            infer(burst[0])
            for number in burst[1:]:
                start = time.perf_counter_ns()
                infer(number)
                times[name].append((time.perf_counter_ns() - start) / 1000)
    return times


def streaming_overhead(artefact: Artefact, data: DataSet, images: int) -> float:
    """Return the wall time of unchecked streams over their inference time, less 1."""
    board = load_board("native")
    received = device_input(artefact.manifest.input, data.images)
    stream = [received[i % len(received)].tobytes() for i in range(images)]
    shares = []
    with connect(board, build(artefact.path, board)) as device:
        for _ in range(STREAMS):
            device.begin(AdaptConfig(method="off"))
            start = time.perf_counter()
            inference_us = sum(reply.infer_us for reply in device.run(stream))
            shares.append((time.perf_counter() - start) * 1e6 / inference_us - 1)
    return float(np.median(shares))


def cpu() -> tuple[str, tuple[str, ...]]:
    """Name and vector instruction sets of the CPU, as far as Linux tells."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor() or platform.machine(), ()
    pairs = (line.partition(":") for line in info.read_text().splitlines())
    facts = {key.strip(): value.strip() for key, _, value in pairs}
    flags = set(facts.get("flags", "").split())
    name = facts.get("model name", platform.machine())
    return name, tuple(isa for isa in INSTRUCTION_SETS if isa in flags)


def version_of(compiler: Compiler) -> str:
    """First line of what the compiler says about itself."""
    command = [*compiler.command, "--version"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return result.stdout.splitlines()[0]


def print_report(
    model: Path,
    compiler: Compiler,
    times: Mapping[str, list[float]],
    bounds: tuple[Bound, ...],
) -> None:
    """Print figures, then bounds."""
    name, isa = cpu()
    print(f"model     {model.name}")
    print(f"CPU       {name} ({', '.join(isa) or 'instruction sets unknown'})")
    print(f"compiler  {version_of(compiler)}")
    print(f"flags     {' '.join(compiler.cflags)}")
    print(f"\n{'us an image':28}{'median':>9}{'least':>9}{'p95':>9}")
    for contender, values in times.items():
        median, least, p95 = np.percentile(values, [50, 0, 95])
        print(f"{contender:28}{median:9.1f}{least:9.1f}{p95:9.1f}")
    print()
    for bound in bounds:
        print(f"{bound.name:32}{bound.value:7.3f}  {bound.verdict}")


def encode(
    times: Mapping[str, list[float]], bounds: tuple[Bound, ...], compiler: Compiler
) -> bytes:
    """The figures as JSON."""
    name, isa = cpu()
    return msgspec.json.encode(
        {
            "cpu": name,
            "isa": isa,
            "compiler": version_of(compiler),
            "cflags": compiler.cflags,
            "median_us": {key: float(np.median(times[key])) for key in times},
            "bounds": bounds,
        }
    )


if __name__ == "__main__":
    try:
        main()
    except (RefoldError, RefoldcError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2))
