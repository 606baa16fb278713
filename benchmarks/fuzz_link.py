"""libFuzzer against the firmware's frame parser, under sanitizers.

    python benchmarks/fuzz_link.py --seconds 3600
    python benchmarks/fuzz_link.py --seconds 600 --keep

tests/fuzz/fuzz_link.c is built with clang, AddressSanitizer and UBSan, and starts
from tests/fuzz/corpus. An input that breaks an invariant of refold/link.h, hangs or
touches foreign memory is written to --failures, and the exit code is 1. ``--keep``
adds what was found to the corpus and minimises it: one input for each new feature.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from cbuild import STRICT, compile_c  # noqa: E402 - a helper of the tests
from link_device import STUB_SOURCES, SUITE  # noqa: E402

CORPUS = ROOT / "tests/fuzz/corpus"
SANITIZERS = ("-fsanitize=fuzzer,address,undefined", "-fno-sanitize-recover=all")
LONGEST_BYTES = 1024
HANGS_S = 5
"""What one input may take; it usually takes microseconds."""


@click.command()
@click.option("--seconds", type=int, default=60, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--keep", is_flag=True, help="Add what was found to the corpus.")
@click.option(
    "--failures",
    type=click.Path(path_type=Path),
    default=Path("fuzz-failures"),
    show_default=True,
    help="Folder for inputs that fail.",
)
def main(seconds: int, seed: int, keep: bool, failures: Path) -> None:
    """Fuzz the frame parser of the firmware."""
    failures.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        fuzzer = build(Path(folder) / "fuzz_link")
        found = Path(folder) / "found"
        found.mkdir()
        limits = (f"-max_len={LONGEST_BYTES}", f"-timeout={HANGS_S}")
        done = subprocess.run(
            [
                *(fuzzer, found, CORPUS, *limits, f"-max_total_time={seconds}"),
                *(f"-seed={seed}", f"-artifact_prefix={failures}/"),
                *("-print_final_stats=1", "-verbosity=0"),
            ],
            check=False,
        )
        if done.returncode == 0 and keep:
            minimise(fuzzer, found, Path(folder))
    kept = len(list(CORPUS.iterdir()))
    verdict = "no failure" if done.returncode == 0 else f"FAILED, see {failures}"
    click.echo(f"{seconds} s of fuzzing, corpus of {kept} inputs: {verdict}")
    sys.exit(done.returncode != 0)


def build(output: Path) -> Path:
    """The harness as a libFuzzer program."""
    harness = ROOT / "tests/fuzz/fuzz_link.c"
    return compile_c(
        [*STUB_SOURCES, harness],
        output,
        cc="clang",
        flags=["-O1", "-g", *STRICT, *SANITIZERS],
        include=[SUITE],
    )


def minimise(fuzzer: Path, found: Path, folder: Path) -> None:
    """Replace the corpus by the fewest inputs with all of its features."""
    least = folder / "least"
    least.mkdir()
    merge = [fuzzer, "-merge=1", "-verbosity=0", least, CORPUS, found]
    subprocess.run(merge, check=True)
    shutil.rmtree(CORPUS)
    CORPUS.mkdir()
    for file in least.iterdir():
        shutil.copy(file, CORPUS / f"{file.name[:12]}.bin")


if __name__ == "__main__":
    main()
