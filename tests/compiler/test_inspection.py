"""Inspection: layers, sites with their reasons, all that does not compile."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from models import ModelBuilder, small_classifier

from refoldc.inspection import Inspection, inspect_model


def inspect(model: onnx.ModelProto, folder: Path) -> Inspection:
    """Inspect a model through a file."""
    path = folder / "net.onnx"
    onnx.save(model, path)
    return inspect_model(path)


def test_layers_and_totals(tmp_path: Path) -> None:
    """Multiplications and parameters are those one counts by hand."""
    found = inspect(small_classifier(), tmp_path)
    assert ["Conv", "Conv", "Add", "AveragePool", "Dense"] == [
        layer.op for layer in found.layers
    ]
    convolutions = 8 * 8 * (8 * 9 * 3 + 8 * 9 * 8)
    assert convolutions + 80 == found.macs
    assert (8 * 9 * 3 + 8) + (8 * 9 * 8 + 8) + 90 == found.parameters
    assert () == found.problems


@pytest.mark.parametrize(("kept", "targets"), [(True, "exact"), (False, "estimated")])
def test_sites_say_why(kept: bool, targets: str, tmp_path: Path) -> None:
    """Numbered in order, with the origin of their targets."""
    found = inspect(small_classifier(batch_norm=kept), tmp_path)
    assert [(0, targets, True), (1, targets, True)] == [
        (layer.site, layer.targets, layer.default_on) for layer in found.sites
    ]
    assert all(
        layer.reason == ("BN folded" if kept else "no BN") for layer in found.sites
    )
    assert (not kept) == bool(found.notices)


def test_layers_that_are_no_sites_say_why_not(tmp_path: Path) -> None:
    """Output layers, matrix products and standalone normalisations."""
    b = ModelBuilder((1, 6, 6))
    y = b.batch_norm(b.op("Relu", b.conv("x", 4)))
    one = b.op("Relu", b.batch_norm(b.conv(y, 4, 4)))
    hidden = b.batch_norm(b.gemm(b.op("Flatten", one), 5))
    found = inspect(b.model(b.gemm(b.op("Relu", hidden), 3)), tmp_path)
    reasons = [layer.reason for layer in found.layers]
    assert "no BN" == reasons[0]
    assert "standalone BN" == reasons[1]
    assert "BN folded" == reasons[2]
    assert not found.layers[2].default_on
    assert "BN folded, dense" == reasons[3]
    assert "feeds the output" == reasons[4]
    assert [2] == [i for i, layer in enumerate(found.layers) if layer.site is not None]


def test_what_onnx_runtime_refuses_is_a_problem(tmp_path: Path) -> None:
    """It cannot be compiled, since the import is compared with the original."""
    model = small_classifier()
    for node in model.graph.node:
        node.name = "twin"
    (problem,) = inspect(model, tmp_path).problems
    assert "two nodes with same node name" in problem


def test_nothing_to_compile_is_a_problem(tmp_path: Path) -> None:
    """A graph of only a Softmax leaves no layer."""
    b = ModelBuilder((10,))
    (problem,) = inspect(b.model(b.op("Softmax", "x")), tmp_path).problems
    assert "nothing to compile" in problem


def test_every_unsupported_node_is_listed(tmp_path: Path) -> None:
    """Not only the first; nodes behind them are still judged by their operator."""
    b = ModelBuilder((3, 6, 6))
    y = b.op("Sin", b.conv("x", 2))
    found = inspect(b.model(b.op("Relu", b.op("Cos", b.op("Relu", y)))), tmp_path)
    assert 2 == len(found.problems)
    assert "operator Sin" in found.problems[0]
    assert "operator Cos" in found.problems[1]
    assert ["Conv"] == [layer.op for layer in found.layers]
