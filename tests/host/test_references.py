"""The float references: networks and adaptation in torch, against others."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from refoldc.float_export import channels_first, float_model, open_session
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.input_spec import normalised
from refoldc.ir import Graph

from refold.corrupt import corrupt, image_rng
from refold.data import load_data
from refold.resources import bundled_model

torch = pytest.importorskip("torch", reason="the extra 'lab' (torch) is not installed")
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from torch_adapt import (  # noqa: E402 - after the skip
    Fixed,
    Refold,
    Running,
    Tent,
    batch_moments,
    entropy,
    running,
)
from torch_network import Channels, Network  # noqa: E402 - after the skip

BATCH = 8


@pytest.fixture(scope="module")
def plain() -> Network:
    """The bundled network, with its BatchNorms."""
    return Network(import_model(bundled_model()))


@pytest.fixture(scope="module")
def folded() -> Network:
    """The bundled network without them."""
    return Network(fold(import_model(bundled_model())))


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    """Faded digits, [24, C, H, W]."""
    clean = load_data("digits", split="test", limit=24).images
    faded = [
        corrupt(image, "contrast", 5, image_rng(0, number, "contrast", 5))
        for number, image in enumerate(clean)
    ]
    pixels = normalised(np.stack(faded), (0.0,), (1.0,))
    return torch.from_numpy(pixels).permute(0, 3, 1, 2)


@pytest.mark.parametrize("prepare", [lambda graph: graph, fold])
def test_the_network_is_the_graph(
    prepare: Callable[[Graph], Graph], images: torch.Tensor
) -> None:
    """Before and after folding it gives what ONNX Runtime gives."""
    graph = prepare(import_model(bundled_model()))
    session = open_session(float_model(graph))
    feed = {graph.input: channels_first(images.permute(0, 2, 3, 1).numpy())}
    expected = session.run(None, feed)[0]
    found = Fixed(Network(graph)).answer(images).numpy()
    np.testing.assert_allclose(expected, found, rtol=1e-3, atol=1e-3)


def test_folding_leaves_bn_adapt_nothing(folded: Network, images: torch.Tensor) -> None:
    """No answer differs in any bit."""
    adapted = Running(folded, folded.norms).answer(images)
    assert Fixed(folded).answer(images).tolist() == adapted.tolist()


def test_forge_is_bn_adapt_after_folding(
    plain: Network, folded: Network, images: torch.Tensor
) -> None:
    """From the folded network's targets it does what BN-adapt does with BatchNorms."""
    forge, bn_adapt = Running(folded, folded.sites), Running(plain, plain.norms)
    static = Fixed(plain)
    for batch in images.split(BATCH):
        expected = bn_adapt.answer(batch)
        assert (expected - static.answer(batch)).abs().max() > 0.1
        torch.testing.assert_close(forge.answer(batch), expected, rtol=0.02, atol=0.02)


def channels() -> Channels:
    """Of a layer of three."""
    values = np.random.default_rng(5).uniform(0.5, 2, (4, 3)).astype(np.float32)
    return Channels(*map(torch.from_numpy, values), 1e-5)


def test_running_moments() -> None:
    """Two batches of FORGE's algorithm 1, against NumPy in float64."""
    layer, rng = channels(), np.random.default_rng(6)
    normalise = running(layer)
    mean, variance = layer.mean.numpy().astype(float), layer.variance.numpy() + 0.0
    for size in (BATCH, 3):
        x = rng.normal(3, 2, (size, 3, 4, 4)).astype(np.float32)
        share = size / 640
        mean += share * (x.mean((0, 2, 3), np.float64) - mean)
        variance = variance + share * (x.var((0, 2, 3), np.float64) - variance)
        gain = layer.scale.numpy() / np.sqrt(variance + 1e-5)
        expected = (x - mean[:, None, None]) * gain[:, None, None]
        expected += layer.shift.numpy()[:, None, None]
        found = normalise(torch.from_numpy(x)).numpy()
        np.testing.assert_allclose(expected, found, rtol=1e-4, atol=1e-4)


def test_our_rule_begins_with_the_static_network(
    folded: Network, images: torch.Tensor
) -> None:
    """The first image has none before it; the following ones are recalibrated."""
    method, static = Refold(folded), Fixed(folded).answer(images)
    found = torch.cat([method.answer(image) for image in images.split(1)])
    torch.testing.assert_close(found[0], static[0], rtol=1e-3, atol=1e-3)
    assert (found[-1] - static[-1]).abs().max() > 0.1


def test_tent_lowers_the_entropy(plain: Network, images: torch.Tensor) -> None:
    """Of the batch that it steps on; the answers are from before the step."""
    batch = images[:BATCH]
    tent, again = (Tent(plain, rate=rate) for rate in (1e-3, 1e-3))
    first, second = tent.answer(batch), tent.answer(batch)
    assert first.tolist() == again.answer(batch).tolist()
    assert entropy(second).mean() < entropy(first).mean()


def test_causal_tent_waits_for_no_image(plain: Network, images: torch.Tensor) -> None:
    """Answers do not depend on later images of their batch; the first are static."""
    first, second, other = images.split(BATCH)
    one, two = (Tent(plain, rate=1e-2, causal=True) for _ in range(2))
    static = Fixed(plain).answer(first)
    torch.testing.assert_close(one.answer(first), static, rtol=1e-3, atol=1e-3)
    two.answer(first)
    changed = torch.cat([second[:1], other[1:]])
    torch.testing.assert_close(one.answer(second)[0], two.answer(changed)[0])


def test_moments_of_a_batch(images: torch.Tensor) -> None:
    """Over its images and pixels, biased, as NumPy has them."""
    mean, variance = batch_moments(images)
    values = images.numpy().astype(np.float64)
    np.testing.assert_allclose(values.mean((0, 2, 3)), mean.numpy(), rtol=1e-5)
    np.testing.assert_allclose(values.var((0, 2, 3)), variance.numpy(), rtol=1e-4)
