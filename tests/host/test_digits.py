"""The bundled digits and the network that comes with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from refoldc.float_export import open_session

from refold.data import load_data
from refold.errors import UserError


def test_split_is_fixed_and_disjoint() -> None:
    """Every fifth block of ten is tested; together the splits are the data set."""
    train, test = (load_data("digits", split=s) for s in ("train", "test"))
    assert (len(train.labels), len(test.labels)) == (1440, 357)
    assert test.images.shape == (357, 24, 24, 1)
    assert np.bincount(test.labels).min() >= 30
    assert len(load_data("digits", split="test", limit=20).labels) == 20


def test_images_equal_the_original() -> None:
    """At their own size the images are the data set's values, 0..16 to 0..255."""
    original = pytest.importorskip("sklearn.datasets").load_digits()
    test = load_data("digits", split="test", shape=(8, 8, 1))
    index = np.flatnonzero(np.arange(1797) // 10 % 5 == 4)
    expected = np.rint(original.images[index] * 255 / 16).astype(np.uint8)
    assert np.array_equal(test.images[..., 0], expected)
    assert np.array_equal(test.labels, original.target[index])


def test_images_fill_the_range_after_enlarging() -> None:
    """Enlarging keeps black black and white white."""
    images = load_data("digits", split="train", limit=50).images
    assert (images.min(), images.max()) == (0, 255)


def test_colour_models_are_refused() -> None:
    """The digits are grey; a model with three channels needs other data."""
    with pytest.raises(UserError, match="32x32x3"):
        load_data("digits", split="test", shape=(32, 32, 3))


def test_attribution_lies_beside_the_data() -> None:
    """Licence and authors of the data travel with it."""
    import refold

    text = (Path(refold.__file__).parent / "_assets" / "digits.txt").read_text("utf-8")
    assert "CC BY 4.0" in text
    assert "Alpaydin" in text


def test_bundled_network_reads_the_bundled_digits(repo_root: Path) -> None:
    """The committed model is small, keeps BatchNorm and scores at least 97 %."""
    path = repo_root / "models" / "digits.onnx"
    model = onnx.load(path)
    operators = [node.op_type for node in model.graph.node]
    assert operators.count("BatchNormalization") == operators.count("Conv") == 9
    assert path.stat().st_size < 300_000
    test = load_data("digits", split="test")
    pixels = test.images.transpose(0, 3, 1, 2) / np.float32(255)
    session = open_session(model)
    logits = np.asarray(session.run(None, {"input": pixels})[0])
    assert 100 * (logits.argmax(1) == test.labels).mean() >= 97
