"""Exports made here by PyTorch: BatchNorm kept and folded give the same targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

pytestmark = pytest.mark.filterwarnings("ignore")  # of the exporter, not ours

IMAGES = 256
TOLERANCE = 0.15
"""Of a deviation: running statistics against moments of the same images."""


def trained(images: Any) -> Any:
    """A small network whose running statistics are those of the images."""
    torch.manual_seed(0)
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8, momentum=None),
        nn.ReLU(),
        nn.Conv2d(8, 12, 3, stride=2, bias=False),
        nn.BatchNorm2d(12, momentum=None),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 4),
    )
    for layer in (model[1], model[4]):
        nn.init.uniform_(layer.weight, 0.4, 1.6)
        nn.init.normal_(layer.bias, 0, 0.5)
    with torch.no_grad():
        model(torch.from_numpy(images.transpose(0, 3, 1, 2).copy()))
    return model.eval()


def export(model: Any, path: Path, *, keep: bool) -> Path:
    """Write the model with its BatchNorm kept, or folded as exporters do."""
    mode = torch.onnx.TrainingMode
    torch.onnx.export(
        model,
        torch.zeros(1, 3, 12, 12),
        path,
        training=mode.PRESERVE if keep else mode.EVAL,
        do_constant_folding=not keep,
        dynamo=False,
    )
    return path


def test_kept_and_folded_batch_norm_give_the_same_targets(tmp_path: Path) -> None:
    """Exact and estimated ones agree, and the folded export gets the note."""
    images = np.random.default_rng(0).normal(0, 1, (IMAGES, 12, 12, 3)).astype("f4")
    model = trained(images)
    options = CompileOptions(input="tensor")
    kept, folded = (
        compile_model(
            export(model, tmp_path / f"{name}.onnx", keep=name == "kept"),
            images,
            tmp_path / name,
            options=options,
        ).manifest
        for name in ("kept", "folded")
    )
    assert [["exact"] * 2, ["estimated"] * 2] == [
        [site.origin for site in made.sites] for made in (kept, folded)
    ]
    for exact, estimated in zip(kept.sites, folded.sites, strict=True):
        sigma = np.array(exact.sigma)
        beta_off = np.abs(np.subtract(exact.beta, estimated.beta)) / sigma
        sigma_off = np.abs(np.subtract(sigma, estimated.sigma)) / sigma
        assert beta_off.max() < TOLERANCE
        assert sigma_off.max() < TOLERANCE
    notes = [
        any("no BatchNormalization" in n for n in m.notices) for m in (kept, folded)
    ]
    assert [False, True] == notes
