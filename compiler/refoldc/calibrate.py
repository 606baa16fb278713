"""Sample data to value ranges and channel statistics, through ONNX Runtime."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from refoldc.channel_stats import (
    ChannelStats,
    Range,
    histogram,
    percentile_range,
)
from refoldc.errors import BadCalibration
from refoldc.float_export import (
    before_activation,
    channels_first,
    float_model,
    open_session,
)
from refoldc.input_spec import encode_samples, input_slots, normalised
from refoldc.ir import F32, F64, BnShape, Bounds, Conv, Graph, QGraph
from refoldc.options import CompileOptions
from refoldc.ports import Ports

LARGEST_BATCH = 32
BATCH_BYTES = 128 << 20
"""What the activations of one batch may take."""
ENOUGH_IMAGES = 256
"""Fewer leave the moments, which correct BatchNorm's targets, too noisy."""


@dataclass(frozen=True, eq=False)
class Calibration:
    """What the sample data show.

    Attributes:
        ranges: Least and largest value of every tensor, activation included.
        moments: Mean and biased standard deviation of each convolution's output
            before its activation, over images and positions; [C] each.
        spans: Least and largest output of each convolution before its activation,
            whatever the range rule; [C] each.
        peak: Largest ``|output - bias|`` of each convolution, [C].
        images: How many were used.
        notices: What the user should know, one sentence each.
    """

    ranges: Mapping[str, Range]
    moments: Mapping[str, tuple[F64, F64]]
    spans: Mapping[str, tuple[F64, F64]]
    peak: Mapping[str, F64]
    images: int
    notices: tuple[str, ...] = ()


def calibrate(
    graph: Graph, images: NDArray[Any], options: CompileOptions
) -> Calibration:
    """Run the float network on sample data.

    Args:
        graph: Folded.
        images: uint8 pixels [N, H, W, C]; for ``tensor`` input also float32
            values of the input itself, [N, *sample_shape].
        options: Normalisation and range rule.

    Raises:
        BadCalibration: No images, another shape or type, or not finite; or a
            tensor of the network overflows on them.
    """
    options = options.for_input(graph.sample_shape)
    check_images(graph, images, options)
    network = _Network(graph, images, options)
    stats = _measure(network)
    ranges = {name: found.range for name, found in stats.items()}
    if options.percentile is not None:
        ranges = _percentiles(network, ranges, options.percentile / 100)
    convs = {n.name: (n, stats[n.output]) for n in graph.nodes if isinstance(n, Conv)}
    bounds = {n.output: getattr(n, "bounds", Bounds()) for n in graph.nodes}
    return Calibration(
        ranges={k: _clip(r, bounds.get(k, Bounds())) for k, r in ranges.items()},
        moments={name: found.moments for name, (_, found) in convs.items()},
        spans={name: found.span for name, (_, found) in convs.items()},
        peak={name: found.peak(conv.bias) for name, (conv, found) in convs.items()},
        images=len(images),
        notices=_notices(images),
    )


def estimate_targets(graph: Graph, calibration: Calibration) -> Graph:
    """Give the convolutions marked ``estimate`` their measured moments.

    Returns:
        The graph with ``bn`` of origin ``estimated`` where there was a mark.
    """
    nodes = tuple(
        replace(node, bn=BnShape(*calibration.moments[node.name], "estimated"))
        if isinstance(node, Conv) and node.estimate
        else node
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)


# --- the data ----------------------------------------------------------------


def check_images(graph: Graph, images: NDArray[Any], options: CompileOptions) -> None:
    """Raise BadCalibration unless ``images`` can be fed to the network."""
    shape = graph.sample_shape
    want = f"[N, {', '.join(map(str, shape))}]"
    found = f"{images.dtype} {list(images.shape)}"
    floats = images.dtype == np.float32 and options.input == "tensor"
    if images.dtype != np.uint8 and not floats:
        kinds = "uint8 pixels" + (" or float32" if options.input == "tensor" else "")
        raise BadCalibration(
            f"the calibration images are {found}, expected {kinds} {want}: convert them"
        )
    if images.shape[1:] != shape:
        first = (shape[-1], *shape[:-1])
        swapped = len(shape) == 3 and images.shape[1:] == first
        remedy = "move the channels last" if swapped else "resize or crop them"
        raise BadCalibration(
            f"the calibration images are {found}, the model's input is {want}: {remedy}"
        )
    if not len(images):
        raise BadCalibration(
            "there are no calibration images: give some tens to some hundreds that "
            "look like what the device will see"
        )
    if floats and not np.isfinite(images).all():
        raise BadCalibration(
            "the calibration data contain NaN or infinity: clean them before compiling"
        )


def real_input(images: NDArray[Any], options: CompileOptions) -> F32:
    """What the float model takes: pixels normalised; float32 stays as it is.

    Args:
        images: uint8 or float32, channel-last.
        options: From ``CompileOptions.for_input``.
    """
    if images.dtype == np.float32:
        return images
    return normalised(images, options.mean or (0.0,), options.std or (1.0,))


def device_images(
    graph: QGraph, images: NDArray[Any], options: CompileOptions
) -> NDArray[Any]:
    """Calibration images as the device receives them."""
    if graph.input_spec.mode == "pixels":
        return images
    return encode_samples(real_input(images, options), input_slots(graph))


def float_feeds(
    graph: Ports, images: NDArray[Any], options: CompileOptions
) -> dict[str, F32]:
    """Calibration images as ``float_model`` takes them: its inputs by name."""
    tensors = graph.split(real_input(images, options))
    return {name: channels_first(values) for name, values in tensors.items()}


def _notices(images: NDArray[Any]) -> tuple[str, ...]:
    notices = []
    if images.min() == images.max():
        notices.append(
            f"All calibration data have the one value {images.flat[0]}: the ranges "
            "mean nothing."
        )
    if len(images) < ENOUGH_IMAGES:
        notices.append(
            f"Only {len(images)} calibration images: {ENOUGH_IMAGES} or more give "
            "reliable ranges and targets."
        )
    return tuple(notices)


# --- running the network -----------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Network:
    graph: Graph
    images: NDArray[Any]
    options: CompileOptions

    def batches(self) -> Iterator[tuple[str, F32]]:
        """Every tensor before its activation, batch by batch.

        Yields:
            Its name in the graph, and values [N, C, positions].
        """
        outputs = {before_activation(node): node.output for node in self.graph.nodes}
        session = open_session(float_model(self.graph, list(outputs)))
        size = self._batch_size()
        for start in range(0, len(self.images), size):
            batch = self.images[start : start + size]
            feeds = float_feeds(self.graph, batch, self.options)
            yield from self._run(session, outputs, feeds)

    def _run(
        self,
        session: onnxruntime.InferenceSession,
        outputs: dict[str, str],
        feeds: dict[str, F32],
    ) -> Iterator[tuple[str, F32]]:
        for name, array in feeds.items():
            yield name, _by_channel(array)
        results = session.run(list(outputs), feeds)
        for name, array in zip(outputs.values(), results, strict=True):
            yield name, _by_channel(array)

    def _batch_size(self) -> int:
        elements = sum(math.prod(shape) for shape in self.graph.shapes.values())
        return max(1, min(LARGEST_BATCH, BATCH_BYTES // (4 * elements)))


def _by_channel(array: F32) -> F32:
    return array.reshape(*array.shape[:2], -1)


# --- what is measured --------------------------------------------------------


def _measure(network: _Network) -> dict[str, ChannelStats]:
    found: dict[str, ChannelStats] = {}
    for name, values in network.batches():
        with np.errstate(over="ignore", invalid="ignore"):  # judged right below
            stats = ChannelStats.of(values)
            found[name] = found[name].joined(stats) if name in found else stats
        if not found[name].finite:
            raise BadCalibration(
                f"tensor '{name}' or its deviation overflows on the calibration "
                "images: check mean and std, and that the model itself works"
            )
    return found


def _percentiles(
    network: _Network, ranges: Mapping[str, Range], share: float
) -> dict[str, Range]:
    """Ranges by percentile, from a second pass between the extremes.

    An activation is monotone, so that clipping them afterwards gives the
    percentiles of what it returns.
    """
    counts: dict[str, NDArray[np.int64]] = {}
    for name, values in network.batches():
        bins = histogram(values, ranges[name])
        counts[name] = counts[name] + bins if name in counts else bins
    return {k: percentile_range(bins, ranges[k], share) for k, bins in counts.items()}


def _clip(span: Range, bounds: Bounds) -> Range:
    low, high = (min(max(x, bounds.low), bounds.high) for x in span)
    return low, high
