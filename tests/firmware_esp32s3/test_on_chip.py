"""The chip's own machine code, wherever its compiler and emulator are installed.

The tests skip where they are not. REFOLD_ESP32S3=1 in the environment says that they
are: what is missing or broken then fails.
"""

from __future__ import annotations

import os
from pathlib import Path

import esp32s3_chip
import pytest
from chip_cases import build_cases, run_cases, write_cases
from simd_kernels import build

from refoldc.artefact import Artefact
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model

from refold.boards import Board, load_board
from refold.data import load_data
from refold.emulation import lacking
from refold.errors import UserError
from refold.resources import bundled_model
from refold.runner import RunOptions, run
from refold.toolchain import find_compiler


@pytest.fixture(scope="module")
def board() -> Board:
    """The emulated chip; without its tools skip, where they are promised fail."""
    known = load_board("esp32s3-qemu")
    missing = lacking(known)
    if missing is None:
        try:
            find_compiler(known.toolchain)
        except UserError as error:
            missing = str(error)
    if missing is not None:
        if os.environ.get("REFOLD_ESP32S3"):
            pytest.fail(missing)
        pytest.skip(missing)
    return known


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """Compile the bundled model."""
    images = load_data("digits", split="train", limit=64).images
    return compile_model(
        bundled_model(), images, tmp_path_factory.mktemp("digits") / "digits.refold"
    )


@pytest.mark.parametrize("seed", [1, 2])
def test_random_calls(board: Board, tmp_path: Path, seed: int) -> None:
    """Every SIMD kernel writes what the portable one does, and nothing else."""
    text = write_cases(build("fast", tmp_path), 96, seed)
    program = build_cases(text, board, tmp_path)
    assert "agree: 96" == run_cases(program, board.link.emulator)


def test_a_wrong_result_is_seen(board: Board, tmp_path: Path) -> None:
    """The program compares: a value that no kernel writes is reported."""
    text = write_cases(build("fast", tmp_path), 8, 1)
    last = text.index("static const chip_case cases")
    start = text.rindex("= {", 0, last) + 3
    assert text[start:].split(",")[0].endswith("LL")
    program = build_cases(f"{text[:start]}77LL + {text[start:]}", board, tmp_path)
    assert run_cases(program, board.link.emulator).startswith("differs: case ")


def test_digits_run(board: Board, digits: Artefact) -> None:
    """The firmware answers over the chip's UART, FORGE on: parity holds."""
    options = RunOptions(data="digits", board=board.id, corruptions="none", images=5)
    result = run(digits.path, options)
    assert ("pass", "esp32s3") == (result.verdict, result.board.chip)
    assert [("off", 5, 0), ("forge", 5, 0)] == [
        (r.adapt, s.images, s.parity_mismatches) for r in result.runs for s in r.streams
    ]


def test_resnet20(board: Board, shared: Path, tmp_path: Path) -> None:
    """ResNet-20: the host's bits, 5.5 M instructions; three sites add 1.5 %."""
    data = f"npz:{shared / 'data/cifar10c_sev5_1000.npz'}"
    artefact = compile_model(
        shared / "models/resnet20_cifar10_forge.onnx",
        load_data(data, split="test", limit=8).images,
        tmp_path / "resnet20.refold",
        options=CompileOptions(
            mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616)
        ),
    )
    target = esp32s3_chip.board(None, None)
    modes, images, parts = esp32s3_chip.run_modes(target, artefact.path)
    for mode, part in zip(modes, parts, strict=True):
        assert 0 == esp32s3_chip.differing(artefact.qgraph, images, mode, part)
    off, _, few, _, few_open = (sum(esp32s3_chip.least(part)[:-1]) for part in parts)
    assert 5_000_000 < off <= 5_500_000
    assert few < few_open <= 1.015 * off
