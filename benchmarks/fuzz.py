"""Random networks and damaged files against the whole compiler.

    python benchmarks/fuzz.py --minutes 10 --seed 0

Half of the time random graphs over the operator set are compiled: the emitted C must
equal the reference bit for bit, and the int8 answer be near ONNX Runtime's on the
original. The other half mutated ONNX bytes are compiled, which must succeed or be
refused with one message, within 30 seconds. What fails is written to --keep, and
the exit code is 1. The strategies are those of the tests.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import numpy as np
import onnx
from hypothesis import HealthCheck, Phase, given, seed, settings

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests/compiler")]

from agreement import check  # noqa: E402 - a helper of the tests
from models import small_classifier  # noqa: E402
from strategies import onnx_models  # noqa: E402

from refoldc.artefact import load_artefact  # noqa: E402
from refoldc.errors import RefoldcError  # noqa: E402
from refoldc.inspection import inspect_model  # noqa: E402
from refoldc.pipeline import compile_model  # noqa: E402

MOST_ERROR = 0.25
"""Largest error of an int8 answer, as a share of the largest float answer."""
LIMIT_S = 30.0
A_ROUND = 10
"""Graphs drawn from one seed."""


@click.command()
@click.option("--minutes", type=float, default=1.0, show_default=True)
@click.option("--seed", "first", type=int, default=0, show_default=True)
@click.option(
    "--keep",
    type=click.Path(path_type=Path),
    default=Path("fuzz-failures"),
    show_default=True,
    help="Folder for the models that fail.",
)
def main(minutes: float, first: int, keep: Path) -> None:
    """Fuzz for so long; see the top of this file."""
    failures = [
        *fuzz_graphs(time.monotonic() + 30 * minutes, first, keep),
        *fuzz_bytes(time.monotonic() + 30 * minutes, first, keep),
    ]
    for failure in failures:
        print(f"FAILED: {failure}")
    sys.exit(1 if failures else 0)


# --- graphs ------------------------------------------------------------------


def fuzz_graphs(end: float, first: int, keep: Path) -> Iterator[str]:
    """Compile random networks until ``end``; yield one line a failure."""
    errors: list[float] = []
    number = first
    while time.monotonic() < end:
        seen: list[onnx.ModelProto] = []
        try:
            one_round(number, seen, errors)
        except Exception as problem:  # noqa: BLE001 - whatever goes wrong is a find
            place = save(keep / f"graph{number}.onnx", seen[-1].SerializeToString())
            yield f"{place}: {type(problem).__name__}: {problem}"
        number += 1
    ordered = sorted(errors) or [0.0]
    print(
        f"graphs: {len(errors)} compiled and equal in every tensor; error against "
        f"float: median {ordered[len(ordered) // 2]:.4f}, largest {ordered[-1]:.4f} "
        f"(bound {MOST_ERROR})"
    )


def one_round(number: int, seen: list[onnx.ModelProto], errors: list[float]) -> None:
    """``A_ROUND`` networks of one seed; Hypothesis shrinks the one that fails."""

    @seed(number)
    @settings(
        max_examples=A_ROUND,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(onnx_models())
    def compile_and_compare(model: onnx.ModelProto) -> None:
        seen.append(model)
        with TemporaryDirectory() as folder:
            error = check(model, Path(folder)).int8
        if error > MOST_ERROR:
            raise ValueError(f"int8 is {error:.3f} from float, allowed {MOST_ERROR}")
        errors.append(error)

    compile_and_compare()


# --- bytes -------------------------------------------------------------------


def fuzz_bytes(end: float, first: int, keep: Path) -> Iterator[str]:
    """Compile mutated files until ``end``; yield one line a failure."""
    rng = random.Random(first)
    sources = [small_classifier().SerializeToString()]
    sources.append((ROOT / "models/digits.onnx").read_bytes())
    context = multiprocessing.get_context("spawn")
    outcomes: Counter[str] = Counter()
    pool = context.Pool(1)
    while time.monotonic() < end:
        data = mutated(rng, rng.choice(sources))
        try:
            outcome = pool.apply_async(attempt, (data,)).get(LIMIT_S)
        except multiprocessing.TimeoutError:
            outcome = f"hangs for more than {LIMIT_S:g} s"
            pool.terminate()
            pool = context.Pool(1)
        outcomes[outcome] += 1
        if outcome not in ("compiled", "refused"):
            place = save(keep / f"bytes{sum(outcomes.values())}.onnx", data)
            yield f"{place}: {outcome}"
    pool.terminate()
    print(f"mutated files: {dict(outcomes)}")


def mutated(rng: random.Random, source: bytes) -> bytes:
    """Some bytes flipped, set, removed, repeated or cut off."""
    data = bytearray(source)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        place = rng.randrange(len(data))
        length = rng.choice([1, 1, 2, 8, 64])
        kind = rng.randrange(5)
        if kind == 0:
            data[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[place : place + length] = rng.randbytes(length)
        elif kind == 2:
            del data[place : place + length]
        elif kind == 3:
            data[place:place] = data[place : place + length]
        else:
            data[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
        if not data:
            break
    return bytes(data)


def attempt(data: bytes) -> str:
    """In a worker process: compile; how it ended, in a word or one line."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        try:
            shape = inspect_model(path).input_shape
            images = np.random.default_rng(0).integers(0, 256, (2, *shape), np.uint8)
            compile_model(path, images, Path(folder) / "out")
            load_artefact(Path(folder) / "out")
        except RefoldcError:
            return "refused"
        except Exception as problem:  # noqa: BLE001 - what is no message is a bug
            return f"{type(problem).__name__}: {problem}"
    return "compiled"


def save(path: Path, data: bytes) -> Path:
    """Write a model that failed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


if __name__ == "__main__":
    main()
