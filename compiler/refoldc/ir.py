"""The two graphs of the compiler: float after import, integers after quantise.

Both are frozen: a pass takes one and returns another. Shapes leave the batch
out and are channel-last: ``(H, W, C)`` for images, ``(C,)`` for vectors. A
tensor is known by its name; a node produces exactly one.

Float graph (:class:`Graph`), made by ``importer`` and rewritten by ``fold``::

    Conv  Dense  Add  Mul  Pool  Concat  Pick  Clamp  Pointwise  Stored
    BatchNorm  Flatten  Final

``fold`` removes every BatchNorm and Flatten, merges Clamp (ReLU, ReLU6) into
the node before it, and moves a final Softmax and its like into ``Graph.outputs``.

Integer graph (:class:`QGraph`), made by ``quantise``: the same nodes with
their int8 weights and requantisation. The arithmetic is docs/numerics.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from refoldc.formula import Call
from refoldc.ports import Ending, Ports
from refoldc.ports import Shape as Shape  # noqa: PLC0414 - re-exported

Pads = tuple[int, int, int, int]
"""Top, left, bottom, right."""

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
I8 = NDArray[np.int8]
I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]

MAX_INPUTS = 4
"""REFOLD_LAYER_INPUTS of kernels.h: most inputs of one layer."""


@dataclass(frozen=True)
class Bounds:
    """An activation fused into its producer: ``min(max(y, low), high)``.

    ReLU is ``Bounds(0, inf)``, ReLU6 ``Bounds(0, 6)``, none ``Bounds()``.
    """

    low: float = -np.inf
    high: float = np.inf


@dataclass(frozen=True)
class Quant:
    """real = scale * (stored - zero_point)."""

    scale: float
    zero_point: int


@dataclass(frozen=True, eq=False)
class BnShape:
    """What BatchNorm gave each channel of a folded convolution.

    ``origin`` is ``exact`` where a BatchNorm was folded, ``estimated`` where an
    exporter had folded it already and the moments come from calibration.
    """

    beta: F64
    sigma: F64
    origin: Literal["exact", "estimated"]


# --- float graph -------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Node:
    """Base of the float nodes.

    Attributes:
        name: Unique, made from the ONNX node's name or its output.
        inputs: Tensor names in operand order.
        output: Name of the tensor it produces: the ONNX name of the last
            node merged into it, so that the original model can be compared.
        onnx_nodes: Names of the ONNX nodes it stands for.
    """

    name: str
    inputs: tuple[str, ...]
    output: str
    onnx_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Conv(Node):
    """Convolution; weights [C_OUT, KH, KW, C_IN / groups], bias [C_OUT].

    ``bn`` makes it a recalibration site with exact targets; ``estimate`` makes
    it one whose targets are taken from the calibration moments. ``given_scale`` is
    that of weights that the model has in int8, [C_OUT] or [1].
    """

    weights: F32
    bias: F32
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: Pads = (0, 0, 0, 0)
    groups: int = 1
    bounds: Bounds = Bounds()
    bn: BnShape | None = None
    estimate: bool = False
    given_scale: F64 | None = None

    @property
    def depthwise(self) -> bool:
        """One filter a channel."""
        return bool(self.weights.shape[0] == self.groups and self.weights.shape[3] == 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Dense(Node):
    """Fully connected; weights [OUT, IN] over the input in (H, W, C) order."""

    weights: F32
    bias: F32
    bounds: Bounds = Bounds()
    bn: BnShape | None = None
    given_scale: F64 | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Add(Node):
    """Sum of two tensors of one shape."""

    bounds: Bounds = Bounds()


@dataclass(frozen=True, eq=False, kw_only=True)
class Mul(Node):
    """Product of a tensor and another of its shape, or of one with some of its
    axes: (1, 1, C), (H, W, 1) or (1, 1, 1) for images."""

    bounds: Bounds = Bounds()


@dataclass(frozen=True, eq=False, kw_only=True)
class Pool(Node):
    """Max or average over windows; a global pool is one window over all."""

    kind: Literal["max", "average"]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pads: Pads = (0, 0, 0, 0)
    include_pad: bool = False
    bounds: Bounds = Bounds()


@dataclass(frozen=True, eq=False, kw_only=True)
class Concat(Node):
    """Tensors one behind the other along a channel-last axis."""

    axis: int


@dataclass(frozen=True, eq=False, kw_only=True)
class Pick(Node):
    """``y[i, j, k] = x[index[0][i], index[1][j], index[2][k]]``, -1 reads ``fill``.

    Slices, padding, repetition and permutations; one index for a vector.

    Attributes:
        view: Three indices read all elements of the input in stored order, whatever
            its shape, and make them an image.
    """

    index: tuple[I64, ...]
    fill: float = 0.0
    view: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class Stored(Node):
    """A constant tensor, channel-last; no inputs."""

    values: F32


@dataclass(frozen=True, eq=False, kw_only=True)
class Clamp(Node):
    """ReLU or ReLU6 that no producer could take."""

    bounds: Bounds


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointwise(Node):
    """A function of each element, the same everywhere or one a channel."""

    formula: Call


@dataclass(frozen=True, eq=False, kw_only=True)
class BatchNorm(Node):
    """Inference-mode batch normalisation over the last axis, before folding."""

    gamma: F64
    beta: F64
    mean: F64
    variance: F64
    epsilon: float


@dataclass(frozen=True, eq=False, kw_only=True)
class Flatten(Node):
    """(H, W, C) to (H*W*C,); the Dense behind it has its weights reordered."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Final(Node):
    """Allowed only where it produces a graph output; its shape is its input's.

    Attributes:
        kind: What it computes.
        axis: Stored, along which.
    """

    kind: Ending
    axis: int = -1


@dataclass(frozen=True, eq=False, kw_only=True)
class Graph(Ports):
    """A float network. Nodes are in execution order.

    Attributes:
        given: int8 scales of tensors that a model has which is quantised already.
        notices: What the user should know, one sentence each.
    """

    name: str
    nodes: tuple[Node, ...]
    given: Mapping[str, Quant] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    @property
    def quantised(self) -> bool:
        """The model brings scales of its own."""
        scales = (getattr(node, "given_scale", None) for node in self.nodes)
        return bool(self.given) or any(scale is not None for scale in scales)


# --- integer graph -----------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Requant:
    """q = clamp((acc * m + b) >> shift, lo, hi), one m and b per channel."""

    m: I16
    b: I64
    shift: int
    lo: int = -128
    hi: int = 127


@dataclass(frozen=True, eq=False)
class Site:
    """A recalibration site: targets in accumulator units, one per channel.

    ``clean`` and ``precision`` are mean and reciprocal variance, over clean images, of
    an image's mean. ``beta`` and ``sigma`` are the real-valued targets the other float
    arrays derive from; ``origin`` per channel is what chose them (rule *mix*).
    """

    layer: str
    pixels: int
    stat_shift: int
    mean: F32
    variance: F32
    epsilon: F32
    gain: F32
    offset: F32
    clean: F32
    precision: F32
    live: NDArray[np.bool_]
    beta: F64
    sigma: F64
    origin: Literal["exact", "calibrated", "estimated"]
    calibrated_channels: int
    default_on: bool = True

    @property
    def inverse(self) -> F32:
        """w: the reciprocal of ``variance``, so that no core divides by it."""
        return np.asarray(np.float32(1) / self.variance)


@dataclass(frozen=True, eq=False, kw_only=True)
class QLayer:
    """Base of the integer layers; fields as in :class:`Node`."""

    name: str
    inputs: tuple[str, ...]
    output: str
    onnx_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class QConv(QLayer):
    """int8 convolution; weights [C_OUT, KH, KW, C_IN / groups]."""

    weights: I8
    weight_scale: F64
    bias: F64
    offset: I32
    requant: Requant
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: Pads
    groups: int
    depthwise: bool
    site: Site | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class QDense(QLayer):
    """int8 fully connected; ``logits`` has int32 output without clamp."""

    weights: I8
    weight_scale: F64
    bias: F64
    offset: I32
    requant: Requant
    logits: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class QAdd(QLayer):
    """q = clamp((a*m1 + b*m2 + bias) >> shift, lo, hi)."""

    m1: int
    m2: int
    bias: int
    shift: int
    lo: int
    hi: int


@dataclass(frozen=True, eq=False, kw_only=True)
class QMul(QLayer):
    """q = clamp(((a - z_a) * (b - z_b) * m + bias) >> shift, lo, hi)."""

    m: int
    bias: int
    shift: int
    lo: int
    hi: int


@dataclass(frozen=True, eq=False, kw_only=True)
class QPool(QLayer):
    """Max pool, or average pool with one (m, b) per distinct window count."""

    kind: Literal["max", "average"]
    kernel: tuple[int, int]
    stride: tuple[int, int]
    pads: Pads
    include_pad: bool
    counts: tuple[int, ...]
    requant: Requant


@dataclass(frozen=True, eq=False)
class ConcatPart:
    """q = clamp((x * m + bias) >> shift, -128, 127)."""

    m: int
    bias: int
    shift: int


@dataclass(frozen=True, eq=False, kw_only=True)
class QConcat(QLayer):
    """Rescaled tensors one behind the other along ``axis``."""

    axis: int
    parts: tuple[ConcatPart, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class QPick(QLayer):
    """Positions of the input, axis by axis; -1 is the stored value ``fill``."""

    index: tuple[I64, ...]
    fill: int
    view: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class QTable(QLayer):
    """out = table[c][x + 128]; table [C, 256], C = 1 where channels share it."""

    table: I8


@dataclass(frozen=True, eq=False, kw_only=True)
class QStored(QLayer):
    """A constant tensor."""

    values: I8


@dataclass(frozen=True, eq=False)
class InputSpec:
    """How the device receives its input.

    ``pixels``: uint8 [H, W, C], mapped by ``table`` [C, 256] int8;
    ``tensor``: int8 in the scale of the input tensor.
    """

    mode: Literal["pixels", "tensor"]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    table: I8 | None


@dataclass(frozen=True, eq=False, kw_only=True)
class QGraph(Ports):
    """An integer network; ``quants`` and ``shapes`` cover every tensor.

    A logits tensor's scale is that of its int32 values. The gate takes a window of n
    images to have shifted where its distance from clean is above
    ``gate_margin * (1 / n + gate_doubt)``. ``shrinkage`` is the a that suits the sites
    that adapt by default.
    """

    name: str
    layers: tuple[QLayer, ...]
    quants: Mapping[str, Quant]
    input_spec: InputSpec
    shrinkage: float = 0.5
    gate_margin: float = 3.0
    gate_doubt: float = 1.0
    notices: tuple[str, ...] = ()

    @property
    def sites(self) -> tuple[Site, ...]:
        """The recalibration sites in layer order."""
        convs = (n for n in self.layers if isinstance(n, QConv))
        return tuple(n.site for n in convs if n.site is not None)
