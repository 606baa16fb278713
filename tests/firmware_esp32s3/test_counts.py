"""What the kernels execute on a real network stays within its bounds."""

from __future__ import annotations

from pathlib import Path

import esp32s3_count
import numpy as np
import pytest
from emitted import emit, write_sources
from page import read_section

from refoldc.calibrate import calibrate
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.ir import QGraph
from refoldc.options import CompileOptions
from refoldc.quantise import quantise

from refold.boards import load_board
from refold.toolchain import find_compiler


@pytest.fixture(scope="module")
def resnet20(shared: Path) -> QGraph:
    """The network of docs/kernels.md; counts do not depend on calibration."""
    with np.load(shared / "data/cifar10c_sev5_1000.npz") as data:
        images = data["clean"][:2]
    options = CompileOptions()
    folded = fold(import_model(shared / "models/resnet20_cifar10_forge.onnx"))
    return quantise(folded, calibrate(folded, images, options), options)


def test_resnet20(resnet20: QGraph, tmp_path: Path, repo_root: Path) -> None:
    """5.5 M instructions; FORGE adds 4 % at all sites and 1.5 % at three."""
    write_sources(emit(resnet20), tmp_path)
    compiler = find_compiler(load_board("native").toolchain)
    program = esp32s3_count.build(tmp_path, compiler, tmp_path)
    off = esp32s3_count.count(program, resnet20)
    base = esp32s3_count.total(off, resnet20)
    assert all(c.instructions > 0 for c in off)
    assert base <= 5_500_000
    for sites, most in ((range(21), 0.04), (esp32s3_count.spread(21), 0.015)):
        counts = esp32s3_count.count(program, resnet20, *sites)
        assert esp32s3_count.total(counts, resnet20) <= (1 + most) * base

    tables = read_section(repo_root / "docs/kernels.md", esp32s3_count.SECTION)
    assert f"| off | {base:,} | |" in tables
    for c in off:
        assert f"| {c.macs:,} | {sum(c.executed[:-1]):,} |" in tables
