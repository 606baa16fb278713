"""``refold.json``: what an artefact contains, for people and tools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from math import prod
from typing import Literal

import msgspec

from refoldc.accuracy import Accuracy
from refoldc.cost import model_macs, parameters
from refoldc.emit_layers import OPERATORS
from refoldc.input_spec import Slot, input_slots
from refoldc.ir import QGraph, Site
from refoldc.memory import Memory
from refoldc.options import CompileOptions
from refoldc.plan import Plan, logits_tensors
from refoldc.ports import Ending
from refoldc.ranking import Ranking
from refoldc.search import SearchPlan
from refoldc.serialise import graph_hash
from refoldc.version import VERSION

SCHEMA = "refold.manifest/1"


class ModelRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The network.

    Attributes:
        sha256: Of the ONNX file.
        network_sha256: Of the integer network: what the firmware reports as its
            model hash and what a saved adaptation state belongs to.
        macs: Multiply-accumulate operations an image.
    """

    name: str
    sha256: str
    network_sha256: str
    macs: int
    parameters: int


class TensorRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One input tensor; ``offset`` is where it begins in what the device takes."""

    name: str
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    offset: int


class InputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """How the device receives an image; shape (H, W, C) or (F,).

    ``pixels``: uint8, and ``scale`` is that of the int8 tensor behind the table;
    ``tensor``: int8 in ``scale``. Of several inputs, ``tensors`` has each, ``scale``
    is the first one's, and ``shape`` counts the elements of all.
    """

    mode: Literal["pixels", "tensor"]
    shape: tuple[int, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    scale: float
    zero_point: int
    tensors: tuple[TensorRecord, ...]


class OutputRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the device answers for one output: real = scale * int32.

    Attributes:
        name: In the original model.
        first: Number of its first value in the answer.
        count: Values, one a class for a classifier.
        logits: They are int32 logits, not an int8 tensor widened.
        ending: The last operator of the original, which reports apply.
    """

    name: str
    first: int
    count: int
    shape: tuple[int, ...]
    scale: float
    logits: bool
    ending: Ending | None


class LayerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One step; ``output`` names its tensor in model.int8.onnx."""

    name: str
    op: str
    onnx_node: tuple[str, ...]
    output: str
    shape: tuple[int, ...]
    scale: float
    zero_point: int
    site: int | None


class SiteRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One recalibration site; ``beta`` and ``sigma`` are its targets."""

    layer: str
    channels: int
    beta: tuple[float, ...]
    sigma: tuple[float, ...]
    origin: Literal["exact", "calibrated", "estimated"]
    calibrated_channels: int
    default_on: bool


class MemoryRecord(msgspec.Struct, frozen=True, kw_only=True):
    """As in a result; the code's size is known once a board is built.

    Attributes:
        adapt_items: What the adaptation state consists of, in bytes.
    """

    arena_bytes: int
    weights_bytes: int
    adapt_state_bytes: int
    code_bytes: int | None = None
    adapt_items: dict[str, int] = {}


class PeakRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The layer at which most bytes of tensors are alive, and how many."""

    layer: str
    bytes: int


class OptionsRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The options that the model was compiled with."""

    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    input: str | None
    sites: str
    adapt: str
    calibration: str
    targets: str
    correct_bias: bool
    equalise: bool
    shape: tuple[str, ...] = ()
    moved_sites: str = "first"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file.

    Attributes:
        refold: Version of the compiler.
        adapt: Adaptation that the firmware contains, as the option names it.
        shrinkage: a that suits the sites that adapt by default.
        ranking: Of the sites, where ``--sites auto:K`` asked for one.
        search: Of PACE, where the firmware contains it.
    """

    schema: str
    refold: str
    model: ModelRecord
    adapt: str
    input: InputRecord
    outputs: tuple[OutputRecord, ...]
    layers: tuple[LayerRecord, ...]
    sites: tuple[SiteRecord, ...]
    shrinkage: float
    ranking: Ranking | None
    memory: MemoryRecord
    peak: PeakRecord
    accuracy: Accuracy
    options: OptionsRecord
    notices: tuple[str, ...]
    search: SearchPlan | None = None

    @property
    def output(self) -> OutputRecord:
        """The one that is scored unless told otherwise: the first vector."""
        vectors = (record for record in self.outputs if len(record.shape) == 1)
        return next(vectors, self.outputs[0])


def make_manifest(  # noqa: PLR0913 - a keyword a concern
    graph: QGraph,
    memory: Memory,
    options: CompileOptions,
    *,
    sha256: str,
    accuracy: Accuracy,
    layout: Plan,
    ranking: Ranking | None,
    search: SearchPlan | None,
) -> Manifest:
    """Describe a compiled network.

    Args:
        graph: The integer network.
        memory: Its bytes.
        options: As given to the compiler.
        sha256: Of the ONNX file, hexadecimal.
        accuracy: Of the integer network on the calibration images.
        layout: Where its tensors lie.
        ranking: Of its sites, if they were ranked.
        search: Of PACE, if the firmware contains it.
    """
    return Manifest(
        schema=SCHEMA,
        refold=VERSION,
        model=ModelRecord(
            name=graph.name,
            sha256=sha256,
            network_sha256=graph_hash(graph).hex(),
            macs=model_macs(graph),
            parameters=parameters(graph),
        ),
        adapt=options.adapt if graph.sites else "none",
        input=_input(graph),
        outputs=tuple(_outputs(graph)),
        layers=_layers(graph),
        sites=tuple(map(_site, graph.sites)),
        shrinkage=graph.shrinkage,
        ranking=ranking,
        memory=MemoryRecord(
            arena_bytes=memory.arena_bytes,
            weights_bytes=memory.weights_bytes,
            adapt_state_bytes=memory.adapt_state_bytes,
            adapt_items=dict(memory.adapt_items),
        ),
        peak=PeakRecord(layer=layout.peak_layer, bytes=layout.live_bytes),
        accuracy=accuracy,
        options=OptionsRecord(**asdict(options)),
        notices=graph.notices,
        search=search,
    )


def _input(graph: QGraph) -> InputRecord:
    spec, quant = graph.input_spec, graph.quants[graph.input]
    return InputRecord(
        mode=spec.mode,
        shape=graph.sample_shape,
        mean=spec.mean,
        std=spec.std,
        scale=quant.scale,
        zero_point=quant.zero_point,
        tensors=tuple(map(_tensor, input_slots(graph))),
    )


def _tensor(slot: Slot) -> TensorRecord:
    return TensorRecord(
        name=slot.name,
        shape=slot.shape,
        scale=slot.quant.scale,
        zero_point=slot.quant.zero_point,
        offset=slot.offset,
    )


def _outputs(graph: QGraph) -> Iterator[OutputRecord]:
    first = 0
    for output in graph.outputs:
        shape = graph.shapes[output.tensor]
        yield OutputRecord(
            name=output.onnx,
            first=first,
            count=prod(shape),
            shape=shape,
            scale=graph.quants[output.tensor].scale,
            logits=output.tensor in logits_tensors(graph),
            ending=output.ending,
        )
        first += prod(shape)


def _layers(graph: QGraph) -> tuple[LayerRecord, ...]:
    numbers = {site.layer: i for i, site in enumerate(graph.sites)}
    return tuple(
        LayerRecord(
            name=layer.name,
            op=OPERATORS[type(layer)].kind(layer),
            onnx_node=layer.onnx_nodes,
            output=layer.output,
            shape=graph.shapes[layer.output],
            scale=graph.quants[layer.output].scale,
            zero_point=graph.quants[layer.output].zero_point,
            site=numbers.get(layer.name),
        )
        for layer in graph.layers
    )


def _site(site: Site) -> SiteRecord:
    return SiteRecord(
        layer=site.layer,
        channels=len(site.mean),
        beta=tuple(site.beta.tolist()),
        sigma=tuple(site.sigma.tolist()),
        origin=site.origin,
        calibrated_channels=site.calibrated_channels,
        default_on=site.default_on,
    )
