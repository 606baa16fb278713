"""Integer graph and plan to ``model.c`` and ``model.h``.

One ``render_*`` function a section; the structs they fill in are those of
``refold/model.h`` and ``refold/kernels.h``.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from refoldc.cost import layer_macs
from refoldc.ctext import (
    c_array,
    c_comment,
    c_float,
    c_items,
    c_string,
    c_struct,
    joined,
)
from refoldc.emit_layers import OPERATORS
from refoldc.facts import ABI, SITE_MASK_BYTES, Method
from refoldc.input_spec import input_slots
from refoldc.ir import MAX_INPUTS, QGraph, QLayer, Site
from refoldc.memory import Memory
from refoldc.plan import Plan, logits_tensors
from refoldc.search import Features, SearchPlan
from refoldc.serialise import graph_hash
from refoldc.softmax import softmax_table

Fields = Iterator[tuple[str, str]]

COMMENT_WIDTH = 92
"""Behind the star of a comment, as wide as the arrays."""


@dataclass(frozen=True)
class Stamp:
    """Where emitted files say they come from.

    Attributes:
        version: Of refold.
        model: Name of the ONNX file.
        sha256: Of the ONNX file, hexadecimal.
        options: The compile options as one line.
    """

    version: str
    model: str
    sha256: str
    options: str


@dataclass(frozen=True)
class Sources:
    """The emitted text."""

    model_c: str
    model_h: str


def emit_model(
    graph: QGraph,
    plan: Plan,
    memory: Memory,
    search: SearchPlan | None = None,
    features: Features | None = None,
    *,
    stamp: Stamp,
) -> Sources:
    """Render a planned model as C99; equal inputs give equal bytes.

    Args:
        graph: Its last layer produces the output.
        plan: Of ``graph``.
        memory: Of ``plan``.
        search: Of PACE, where the firmware contains it.
        features: That it compares, where it does.
        stamp: What the files name as their origin.
    """
    return Sources(
        model_c=joined(render_source(graph, plan, search, features, stamp)),
        model_h=joined(render_header(graph, memory, stamp)),
    )


def render_stamp(graph: QGraph, stamp: Stamp) -> str:
    """The comment both files open with."""
    lines = (
        f"{graph.name}, compiled by refold {stamp.version}; do not edit.",
        "",
        f"model    {stamp.model}",
        f"sha256   {stamp.sha256}",
        f"network  {graph_hash(graph).hex()}",
        *_wrapped(f"options  {stamp.options}", "         "),
    )
    return "/*\n" + "".join(f" * {c_comment(s)}".rstrip() + "\n" for s in lines) + " */"


def _wrapped(text: str, indent: str) -> list[str]:
    """Cut into the lines of a comment, between words only."""
    return textwrap.wrap(
        text,
        COMMENT_WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def render_header(graph: QGraph, memory: Memory, stamp: Stamp) -> Iterator[str]:
    """The sections of model.h."""
    yield render_stamp(graph, stamp)
    yield "#ifndef REFOLD_EMITTED_MODEL_H\n#define REFOLD_EMITTED_MODEL_H"
    yield '#include "refold/model.h"'
    yield (
        f"#if REFOLD_ABI != {ABI}\n"
        f'#error "this model needs refold ABI {ABI}: compile it again with the refold '
        'that the runtime comes from"\n#endif'
    )
    yield (
        "/* For refold_init: static, aligned to REFOLD_ALIGNMENT. */\n"
        f"#define REFOLD_MODEL_ARENA_BYTES {memory.arena_bytes}\n"
        "/* What refold_infer reads and writes. */\n"
        f"#define REFOLD_MODEL_INPUT_BYTES {input_slots(graph)[-1].end}\n"
        f"#define REFOLD_MODEL_OUTPUTS {graph.output_count}\n"
        f"#define REFOLD_MODEL_LAYERS {len(graph.layers)}"
    )
    yield '#ifdef __cplusplus\nextern "C" {\n#endif'
    yield "extern const refold_model refold_model_data;"
    yield "#ifdef __cplusplus\n}\n#endif"
    yield "#endif"


def render_source(
    graph: QGraph,
    plan: Plan,
    search: SearchPlan | None,
    features: Features | None,
    stamp: Stamp,
) -> Iterator[str]:
    """The sections of model.c."""
    yield render_stamp(graph, stamp)
    yield '#include "model.h"\n\n#include <stddef.h>'
    yield from render_input_table(graph)
    for index, layer in enumerate(graph.layers):
        yield "\n".join(
            (
                render_title(index, layer, graph, plan),
                render_parameters(index, layer, graph),
            )
        )
    yield render_layers(graph, plan)
    yield render_ports(graph, plan)
    yield from render_sites(graph)
    yield render_softmax(graph)
    if search:
        yield from render_search(search, features, plan)
    yield render_model(graph, plan, search)


def render_input_table(graph: QGraph) -> Iterator[str]:
    """Pixels to int8, where the device receives pixels."""
    table = graph.input_spec.table
    if table is None:
        return
    yield "/* Input: uint8 pixels to int8, one table a channel. */\n" + c_array(
        "int8_t", "input_values", table, "REFOLD_ALIGNED "
    )
    pixels = prod(graph.shapes[graph.input]) // len(table)
    fields = (
        ("pixels", str(pixels)),
        ("channels", str(len(table))),
        ("table", "input_values"),
    )
    yield c_struct("static const refold_input_table input_table = ", fields) + ";"


def render_title(index: int, layer: QLayer, graph: QGraph, plan: Plan) -> str:
    """A comment: what the layer is, what it came from, shapes, cost, places."""
    shapes = " + ".join(_shape(graph, name) for name in layer.inputs)
    places = " + ".join(str(plan.offsets[name]) for name in layer.inputs)
    lines = (
        f"{index}: {OPERATORS[type(layer)].kind(layer)} {layer.name}",
        *_wrapped(f"   from {', '.join(layer.onnx_nodes) or '(unnamed)'}", "        "),
        f"   {shapes} -> {_shape(graph, layer.output)}, {layer_macs(layer, graph)} "
        f"MACs, arena {places} -> {plan.offsets[layer.output]}",
    )
    return "/* " + "\n * ".join(map(c_comment, lines)) + " */"


def _shape(graph: QGraph, name: str) -> str:
    return "x".join(map(str, graph.shapes[name]))


def render_parameters(index: int, layer: QLayer, graph: QGraph) -> str:
    """The arrays and the parameter struct of one layer."""
    return "\n".join(OPERATORS[type(layer)].render(f"layer_{index}", layer, graph))


def render_layers(graph: QGraph, plan: Plan) -> str:
    """The table that the runtime executes."""
    site_numbers = {site.layer: i for i, site in enumerate(graph.sites)}
    rows = []
    for index, layer in enumerate(graph.layers):
        inputs = [str(plan.offsets[name]) for name in layer.inputs]
        inputs += ["REFOLD_NO_TENSOR"] * (MAX_INPUTS - len(inputs))
        fields = (
            ("name", c_string(layer.name)),
            ("run", f"refold_run_{OPERATORS[type(layer)].kind(layer)}"),
            ("params", f"&layer_{index}"),
            ("in", f"{{{', '.join(inputs)}}}"),
            ("out", str(plan.offsets[layer.output])),
            ("out_elements", str(prod(graph.shapes[layer.output]))),
            ("site", str(site_numbers.get(layer.name, "REFOLD_NO_SITE"))),
            ("out_is_s32", str(int(layer.output in logits_tensors(graph)))),
        )
        rows.append(c_struct("", fields, "    ") + ",\n")
    return f"static const refold_layer layers[] = {{\n{''.join(rows)}}};"


def render_ports(graph: QGraph, plan: Plan) -> str:
    """Where inputs go to and outputs come from."""
    inputs = [
        f"{{{plan.offsets[t.name]}, {prod(graph.shapes[t.name])}}}"
        for t in graph.inputs
    ]
    makers = {layer.output: i for i, layer in enumerate(graph.layers)}
    outputs = []
    for output in graph.outputs:
        quant = graph.quants[output.tensor]
        scale = c_float(float(np.float32(quant.scale)))
        outputs.append(f"{{{makers[output.tensor]}, {quant.zero_point}, {scale}}}")
    return "\n".join(
        f"static const {kind} {name}[] = {{\n    {separated}\n}};"
        for kind, name, separated in (
            ("refold_input_tensor", "inputs", ",\n    ".join(inputs)),
            ("refold_output_tensor", "outputs", ",\n    ".join(outputs)),
        )
    )


def render_sites(graph: QGraph) -> Iterator[str]:
    """The constants of every site, then their table."""
    numbers = {layer.name: i for i, layer in enumerate(graph.layers)}
    for index, site in enumerate(graph.sites):
        yield "\n".join(render_site_arrays(index, site))
    if graph.sites:
        rows = (
            c_struct("", site_fields(i, site, numbers[site.layer]), "    ") + ",\n"
            for i, site in enumerate(graph.sites)
        )
        yield f"static const refold_site sites[] = {{\n{''.join(rows)}}};"


FEATURE_ARRAYS = ("mean", "variance", "weight")
SITE_ARRAYS = (
    *("mean", "variance", "inverse", "epsilon", "gain", "offset"),
    *("clean", "precision"),
)


def render_site_arrays(index: int, site: Site) -> Iterator[str]:
    """Targets per channel and which channels are scored."""
    yield c_comment_line(
        f"Site {index}: layer {site.layer}, targets {site.origin}, "
        f"{site.calibrated_channels} of {len(site.mean)} channels calibrated"
    )
    for field in SITE_ARRAYS:
        yield c_array("float", f"site_{index}_{field}", getattr(site, field))
    live = np.packbits(site.live, bitorder="little")
    yield c_array("uint8_t", f"site_{index}_live", live)


def c_comment_line(text: str) -> str:
    """A comment on a line of its own."""
    return f"/* {c_comment(text)} */"


def site_fields(index: int, site: Site, layer: int) -> Fields:
    """The members of one refold_site."""
    yield "layer", str(layer)
    yield "channels", str(len(site.mean))
    yield "pixels", str(site.pixels)
    yield "stat_shift", str(site.stat_shift)
    yield "requant", f"&layer_{layer}.requant"
    for field in (*SITE_ARRAYS, "live"):
        yield field, f"site_{index}_{field}"


def render_softmax(graph: QGraph) -> str:
    """The table of refold_softmax for this model's logits."""
    table = softmax_table(graph.quants[graph.output].scale)
    exp = "{\n" + c_items(map(str, table.exp.tolist()), "        ") + "\n    }"
    fields = (("exp", exp), ("shift", str(table.shift)))
    return c_struct("static const refold_softmax_table softmax = ", fields) + ";"


def render_search(
    search: SearchPlan, features: Features | None, plan: Plan
) -> Iterator[str]:
    """What PACE may move, its memory, and what it compares features with."""
    cut = search.cut
    if features:
        yield "\n".join(
            c_array("float", f"feature_{field}", getattr(features, field))
            for field in FEATURE_ARRAYS
        )
    fields = (
        ("sites", _byte_list(_mask(search.sites))),
        ("channels", str(search.channels)),
        ("dimension", str(search.dimension)),
        ("window", str(search.window)),
        ("bank", str(search.bank)),
        ("first", str(cut.first)),
        ("kept", str(plan.offsets[cut.tensor] if cut.tensor else 0)),
        ("kept_bytes", str(cut.kept_bytes)),
        ("features", str(len(features.mean) if features else 0)),
        *(
            (f"feature_{field}", f"feature_{field}" if features else "NULL")
            for field in FEATURE_ARRAYS
        ),
    )
    yield c_struct("static const refold_pace_plan pace = ", fields) + ";"


def render_model(graph: QGraph, plan: Plan, search: SearchPlan | None) -> str:
    """The one symbol with external linkage."""
    fields = model_fields(graph, plan, search)
    return c_struct("const refold_model refold_model_data = ", fields) + ";"


def model_fields(graph: QGraph, plan: Plan, search: SearchPlan | None) -> Fields:
    """The members of refold_model."""
    pixels = graph.input_spec.mode == "pixels"
    widths = [len(site.mean) for site in graph.sites]
    yield "abi", str(ABI)
    yield "name", c_string(graph.name)
    yield "sha256", _byte_list(graph_hash(graph))
    yield "input_kind", "REFOLD_INPUT_PIXELS" if pixels else "REFOLD_INPUT_TENSOR"
    yield "input_bytes", str(input_slots(graph)[-1].end)
    yield "input_table", "&input_table" if pixels else "NULL"
    yield "inputs", "inputs"
    yield "input_tensors", str(len(graph.inputs))
    yield "layer_count", str(len(graph.layers))
    yield "layers", "layers"
    yield "site_count", str(len(widths))
    yield "sites", "sites" if widths else "NULL"
    yield "default_sites", _byte_list(_mask(default_sites(graph)))
    yield "default_shrinkage", c_float(float(np.float32(graph.shrinkage)))
    yield "outputs", "outputs"
    yield "output_tensors", str(len(graph.outputs))
    yield "output_count", str(graph.output_count)
    yield "softmax", "&softmax"
    yield "gate_margin", c_float(float(np.float32(graph.gate_margin)))
    yield "gate_doubt", c_float(float(np.float32(graph.gate_doubt)))
    yield "activation_bytes", str(plan.activation_bytes)
    yield "scratch_bytes", str(plan.scratch_bytes)
    yield "site_channels", str(sum(widths))
    yield "widest_site", str(max(widths, default=0))
    yield "adaptation", f"REFOLD_METHOD_{_methods(graph, search).name}"
    yield "pace", "&pace" if search else "NULL"


def _methods(graph: QGraph, search: SearchPlan | None) -> Method:
    """The adaptation that the firmware contains."""
    if search:
        return Method.FORGE_PACE if search.beside_forge else Method.PACE
    return Method.FORGE if graph.sites else Method.OFF


def default_sites(graph: QGraph) -> tuple[int, ...]:
    """The sites that adapt by default."""
    return tuple(i for i, site in enumerate(graph.sites) if site.default_on)


def _mask(sites: tuple[int, ...]) -> bytes:
    """Bit i: ``sites`` names site i."""
    return sum(1 << site for site in sites).to_bytes(SITE_MASK_BYTES, "little")


def _byte_list(data: bytes) -> str:
    return "{\n" + c_items((f"0x{b:02x}" for b in data), "        ") + "\n    }"
