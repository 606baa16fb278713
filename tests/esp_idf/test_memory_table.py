"""docs/boards.md has the memory of ResNet-20 on every board."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from refoldc.ir import QGraph
from refoldc.memory import measure
from refoldc.plan import plan

from refold.boards import list_boards

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import memory
from page import read_section


@pytest.fixture(scope="module")
def resnet20(repo_root: Path) -> QGraph:
    """The network of the table."""
    return memory.quantised(repo_root / "models/resnet20_cifar10.onnx")


def test_the_table_is_current(resnet20: QGraph, repo_root: Path) -> None:
    """The command was run after the last change."""
    table = read_section(repo_root / "docs/boards.md", memory.SECTION)
    assert memory.render(resnet20, list_boards()) + "\n" == table


def test_resnet20_is_within_its_bound(resnet20: QGraph) -> None:
    """Tensors and scratch take at most 64 KB, the adaptation state 16."""
    found = measure(resnet20, plan(resnet20))
    assert found.arena_bytes - found.adapt_state_bytes <= 64 * 1024
    assert found.adapt_state_bytes <= 16 * 1024
