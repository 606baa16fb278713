"""Measure what compiling costs: seconds and memory, against their bounds.

    python benchmarks/compile_time.py --models DIR --calib cifar10:PATH

ResNet-20 in DIR is compiled with 512 calibration images and all sites, and so is a
network of two million parameters that is made up here. Prints wall and processor
seconds and the peak of memory; exits 1 where wall time or memory exceeds its bound.
Other processes stretch the wall time, not the processor time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import click
import onnx

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from models import ModelBuilder  # noqa: E402 - a helper of the tests

MOST_BYTES = 10**9


@dataclass(frozen=True)
class Cost:
    """Of one compilation."""

    wall_s: float
    processor_s: float
    peak_bytes: int


@click.command()
@click.option("--models", type=click.Path(path_type=Path, exists=True), required=True)
@click.option("--calib", metavar="SPEC", required=True)
def main(models: Path, calib: str) -> None:
    """Compile both; see the top of this file."""
    kept = True
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.onnx"
        onnx.save(large_model(), large)
        cases = (("ResNet-20", models / "resnet20_cifar10_forge.onnx", 15.0),)
        for title, model, most_s in (*cases, ("2 M parameters", large, 60.0)):
            cost = compile_cost(model, calib, Path(folder) / "out")
            holds = cost.wall_s <= most_s and cost.peak_bytes <= MOST_BYTES
            kept = kept and holds
            print(
                f"{title}: {cost.wall_s:.1f} s (bound {most_s:g}), "
                f"{cost.processor_s:.1f} s of processor time, peak "
                f"{cost.peak_bytes / 1e6:.0f} MB (bound {MOST_BYTES / 1e6:.0f})"
                f"{'' if holds else ': MISSED'}"
            )
    sys.exit(0 if kept else 1)


def compile_cost(model: Path, calib: str, out: Path) -> Cost:
    """Run ``refold compile`` in a process of its own."""
    words = [sys.executable, "-m", "refold", "compile", str(model), "--calib", calib]
    start = time.monotonic()
    process = subprocess.Popen([*words, "-o", str(out)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"compiling {model} failed")
    return Cost(
        time.monotonic() - start,
        usage.ru_utime + usage.ru_stime,
        1024 * usage.ru_maxrss,
    )


def large_model() -> onnx.ModelProto:
    """A residual network of 32 x 32 x 3 pixels, ten classes, 2.0 M parameters."""
    b = ModelBuilder((3, 32, 32))
    x = "x"
    for width, stride in ((32, 1), (64, 2), (128, 2), (256, 2)):
        x = normalised(b, x, width, strides=[stride, stride])
        y = normalised(b, x, width)
        y = b.batch_norm(b.conv(y, width, pads=[1, 1, 1, 1], bias=False))
        x = b.op("Relu", b.op("Add", x, y))
    x = b.op("Flatten", b.op("GlobalAveragePool", x))
    return b.model(b.gemm(x, 10))


def normalised(b: ModelBuilder, x: str, width: int, **attributes: object) -> str:
    """Convolution, BatchNorm, ReLU."""
    y = b.conv(x, width, pads=[1, 1, 1, 1], bias=False, **attributes)
    return b.op("Relu", b.batch_norm(y))


if __name__ == "__main__":
    main()
