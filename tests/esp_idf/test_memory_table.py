"""docs/boards.md has the memory of ResNet-20 on every board."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from refoldc.calibrate import calibrate
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.ir import QGraph
from refoldc.memory import measure
from refoldc.options import CompileOptions
from refoldc.plan import plan
from refoldc.quantise import quantise

from refold.boards import list_boards

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import memory  # found there


@pytest.fixture(scope="module")
def resnet20(repo_root: Path) -> QGraph:
    """The network of the table; bytes do not depend on calibration."""
    images = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), np.uint8)
    folded = fold(import_model(repo_root / "models/resnet20_cifar10.onnx"))
    options = CompileOptions()
    return quantise(folded, calibrate(folded, images, options), options)


def test_the_table_is_current(resnet20: QGraph, repo_root: Path) -> None:
    """The command was run after the last change."""
    page = (repo_root / "docs/boards.md").read_text(encoding="utf-8")
    table = page.partition(memory.MARKER)[2]
    assert memory.render(resnet20, list_boards()) + "\n" == table


def test_resnet20_is_within_its_bound(resnet20: QGraph) -> None:
    """Tensors and scratch take at most 64 KB."""
    found = measure(resnet20, plan(resnet20))
    assert found.arena_bytes - found.adapt_state_bytes <= 64 * 1024
