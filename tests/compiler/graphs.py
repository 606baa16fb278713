"""Float graphs for tests of the compiler's back half, and their calibration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.calibrate import Calibration, calibrate
from refoldc.ir import (
    Add,
    BnShape,
    Bounds,
    Clamp,
    Concat,
    Conv,
    Dense,
    Graph,
    Node,
    Pads,
    Pool,
    QGraph,
    Shape,
)
from refoldc.options import CompileOptions
from refoldc.ports import Input, Output
from refoldc.quantise import quantise

RELU, RELU6, LINEAR = Bounds(0.0), Bounds(0.0, 6.0), Bounds()
Pair = tuple[int, int]


@dataclass
class GraphBuilder:
    """Appends nodes with random weights to a graph; tensors are t0, t1, ...

    Args:
        shape: Of the input t0.
        seed: Of the weights.
    """

    shape: Shape
    seed: int = 0
    nodes: list[Node] = field(default_factory=list)
    shapes: dict[str, Shape] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.shapes["t0"] = self.shape

    @property
    def last(self) -> str:
        """The newest tensor."""
        return f"t{len(self.nodes)}"

    def _append(self, node: Node, shape: Shape) -> str:
        self.shapes[node.output] = shape
        self.nodes.append(node)
        return node.output

    def _identity(self, *inputs: str) -> dict[str, object]:
        number = len(self.nodes)
        names = (f"onnx_{number}",)
        return {
            "name": f"n{number}",
            "inputs": inputs,
            "output": f"t{number + 1}",
            "onnx_nodes": names,
        }

    def conv(
        self,
        source: str,
        channels: int,
        *,
        kernel: Pair = (3, 3),
        stride: Pair = (1, 1),
        dilation: Pair = (1, 1),
        pads: Pads = (1, 1, 1, 1),
        groups: int = 1,
        bounds: Bounds = LINEAR,
        bn: bool = True,
    ) -> str:
        """A convolution; with ``bn`` it becomes a site."""
        high, wide, depth = self.shapes[source]
        fan_in = kernel[0] * kernel[1] * depth // groups
        weights = self.rng.normal(0, fan_in**-0.5, (channels, *kernel, depth // groups))
        beta = self.rng.normal(0, 0.3, channels)
        sigma = self.rng.uniform(0.3, 1.2, channels)
        node = Conv(
            **self._identity(source),
            weights=weights.astype(np.float32),
            bias=self.rng.normal(0, 0.2, channels).astype(np.float32),
            stride=stride,
            dilation=dilation,
            pads=pads,
            groups=groups,
            bounds=bounds,
            bn=BnShape(beta, sigma, "exact") if bn else None,
        )
        size = [
            (size + pads[i] + pads[i + 2] - dilation[i] * (kernel[i] - 1) - 1)
            // stride[i]
            + 1
            for i, size in enumerate((high, wide))
        ]
        return self._append(node, (size[0], size[1], channels))

    def depthwise(self, source: str, **options: object) -> str:
        """A depthwise convolution."""
        channels = self.shapes[source][2]
        return self.conv(source, channels, groups=channels, **options)  # type: ignore[arg-type]

    def add(self, a: str, b: str, bounds: Bounds = LINEAR) -> str:
        """An element-wise sum."""
        return self._append(Add(**self._identity(a, b), bounds=bounds), self.shapes[a])

    def concat(self, *parts: str) -> str:
        """Tensors one behind the other along the channels."""
        high, wide, _ = self.shapes[parts[0]]
        depth = sum(self.shapes[part][2] for part in parts)
        node = Concat(**self._identity(*parts), axis=2)
        return self._append(node, (high, wide, depth))

    def pool(
        self,
        source: str,
        kind: str,
        *,
        kernel: Pair,
        stride: Pair,
        pads: Pads = (0, 0, 0, 0),
        include_pad: bool = False,
    ) -> str:
        """A max or average pool."""
        high, wide, depth = self.shapes[source]
        size = [
            (size + pads[i] + pads[i + 2] - kernel[i]) // stride[i] + 1
            for i, size in enumerate((high, wide))
        ]
        node = Pool(
            **self._identity(source),
            kind=kind,
            kernel=kernel,
            stride=stride,
            pads=pads,
            include_pad=include_pad,
        )
        return self._append(node, (size[0], size[1], depth))

    def global_pool(self, source: str) -> str:
        """An average over height and width."""
        return self.pool(
            source, "average", kernel=self.shapes[source][:2], stride=(1, 1)
        )

    def clamp(self, source: str, bounds: Bounds) -> str:
        """An activation of its own."""
        node = Clamp(**self._identity(source), bounds=bounds)
        return self._append(node, self.shapes[source])

    def dense(self, source: str, outputs: int, bounds: Bounds = LINEAR) -> str:
        """A fully connected layer."""
        inputs = int(np.prod(self.shapes[source]))
        weights = self.rng.normal(0, inputs**-0.5, (outputs, inputs))
        node = Dense(
            **self._identity(source),
            weights=weights.astype(np.float32),
            bias=self.rng.normal(0, 0.2, outputs).astype(np.float32),
            bounds=bounds,
        )
        return self._append(node, (outputs,))

    def graph(self) -> Graph:
        """The graph whose output is the newest tensor."""
        return Graph(
            name="test",
            inputs=(Input("t0"),),
            outputs=(Output(self.last, self.last),),
            nodes=tuple(self.nodes),
            shapes=dict(self.shapes),
        )


def small_cnn(seed: int = 0) -> Graph:
    """Every operator once: a residual network on 9 x 10 x 3 pixels, 7 classes."""
    b = GraphBuilder((9, 10, 3), seed)
    stem = b.conv("t0", 8, bounds=RELU)
    wide = b.depthwise(stem, bounds=RELU6)
    linear = b.conv(wide, 8, kernel=(1, 1), pads=(0, 0, 0, 0))
    b.add(stem, linear, bounds=RELU)
    b.pool(b.last, "max", kernel=(3, 3), stride=(2, 2), pads=(1, 1, 0, 0))
    b.conv(b.last, 12, groups=2, stride=(2, 1), bn=False)
    b.clamp(b.last, RELU)
    b.pool(b.last, "average", kernel=(2, 2), stride=(1, 1), pads=(1, 0, 0, 1))
    b.conv(b.last, 10, dilation=(2, 2), pads=(2, 2, 2, 2), bounds=RELU)
    b.global_pool(b.last)
    b.dense(b.last, 7)
    return b.graph()


def make_images(shape: Sequence[int], count: int, seed: int = 0) -> NDArray[np.uint8]:
    """Smooth random pixels [count, H, W, C]."""
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 120, (count, 1, 1, shape[2]))
    noise = rng.integers(0, 136, (count, *shape))
    return (low + noise).astype(np.uint8)


def calibration_images(
    graph: Graph, options: CompileOptions, count: int
) -> NDArray[Any]:
    """Pixels or, for tensor input, normal random values."""
    shape = graph.sample_shape
    if options.for_input(shape).input == "pixels":
        return make_images(shape, count)
    values = np.random.default_rng(0).normal(0, 1, (count, *shape))
    return values.astype(np.float32)


def calibrated(
    graph: Graph, options: CompileOptions, count: int = 8
) -> tuple[QGraph, Calibration]:
    """Quantise ``graph`` with ranges from random images of its input's shape.

    Targets are set to what the images show, so that rule mix keeps them.
    """
    images = calibration_images(graph, options, count)
    calibration = calibrate(graph, images, options)
    nodes = tuple(_with_targets(graph.nodes, calibration))
    return quantise(replace(graph, nodes=nodes), calibration, options), calibration


def _with_targets(nodes: Sequence[Node], calibration: Calibration) -> Iterator[Node]:
    for node in nodes:
        if isinstance(node, Conv) and node.bn is not None:
            mean, deviation = calibration.moments[node.name]
            shape = BnShape(mean, deviation, "exact")
            yield replace(node, bn=shape)
        else:
            yield node


def quantised(graph: Graph, options: CompileOptions | None = None) -> QGraph:
    """The integer network alone."""
    return calibrated(graph, options or CompileOptions())[0]
