"""The float network with recalibration at its sites, as ONNX.

What a site does to a long stream is done to a batch here: its moments are those of
the batch, shrunk towards the targets as ``recalibrate`` does. Shrinkage 0 leaves a
site as it is, so that one model serves every choice of sites.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx.parser
from onnx import TensorProto, helper, numpy_helper

from refoldc.float_export import (
    IR_VERSION,
    before_activation,
    float_model,
    open_session,
)
from refoldc.formula import OPSET
from refoldc.ir import F32, Graph, Site
from refoldc.recalibrate import VARIANCE_FLOOR
from refoldc.sites import EPSILON

SHRINKAGE = "refold:shrinkage"
"""Input: a of each site, float32 [sites]."""
Feeds = Mapping[str, F32]
"""A batch as ``calibrate.float_feeds`` gives it."""
_DOMAIN, _SITE = "refold", "Recalibrate"
_BODY = f"""
<domain: "{_DOMAIN}", opset_import: ["" : {OPSET}]>
{_SITE} (y, shrinkage, number, beta, variance) => (z) {{
    a = Gather (shrinkage, number)
    pixels = Constant <value_ints = [0, 2, 3]> ()
    mean = ReduceMean (y, pixels)
    centred = Sub (y, mean)
    square = Mul (centred, centred)
    spread = ReduceMean (square, pixels)
    further = Sub (mean, beta)
    moved = Mul (a, further)
    centre = Add (beta, moved)
    wider = Sub (spread, variance)
    grown = Mul (a, wider)
    mixed = Add (variance, grown)
    floor = Constant <value_float = {VARIANCE_FLOOR}> ()
    least = Mul (variance, floor)
    bounded = Max (mixed, least)
    epsilon = Constant <value_float = {EPSILON}> ()
    divisor = Add (bounded, epsilon)
    clean = Add (variance, epsilon)
    ratio = Div (clean, divisor)
    gain = Sqrt (ratio)
    scaled = Mul (centre, gain)
    offset = Sub (beta, scaled)
    stretched = Mul (y, gain)
    z = Add (stretched, offset)
}}
"""


class SiteNetwork:
    """The float network with any of its sites adapting, whole and in parts.

    Args:
        graph: Folded, floats.
        sites: Of the integer network made from it, in layer order.
    """

    def __init__(self, graph: Graph, sites: Sequence[Site]) -> None:
        whole = site_network(graph, sites)
        steps = [i for i, node in enumerate(whole.graph.node) if node.op_type == _SITE]
        tails = [from_step(whole, step) for step in steps]
        self._output, self._count = graph.outputs[0].tensor, len(sites)
        self._reads = [[i.name for i in tail.graph.input] for tail in tails]
        read = dict.fromkeys(name for names in self._reads for name in names)
        given = {SHRINKAGE, *(source.name for source in graph.inputs)}
        self._kept = [name for name in read if name not in given]
        whole.graph.output.extend(_floats(name) for name in self._kept)
        self._whole = open_session(whole)
        self._tails = [open_session(tail) for tail in tails]

    def answer(self, x: Feeds, chosen: Sequence[int], shrinkage: float) -> F32:
        """The output for a batch while the ``chosen`` sites adapt."""
        return np.asarray(self._run([self._output], x, chosen, shrinkage)[0])

    def answers(
        self, x: Feeds, chosen: Sequence[int], shrinkage: float, more: Sequence[int]
    ) -> Iterator[tuple[int, F32]]:
        """Each site of ``more``, and the output where it adapts too."""
        kept = self._run(self._kept, x, chosen, shrinkage)
        known = {**x, **dict(zip(self._kept, kept, strict=True))}
        for site in more:
            known[SHRINKAGE] = self._shrinkages((*chosen, site), shrinkage)
            given = {name: known[name] for name in self._reads[site]}
            yield site, np.asarray(self._tails[site].run(None, given)[0])

    def _run(
        self, names: Sequence[str], x: Feeds, chosen: Sequence[int], shrinkage: float
    ) -> Sequence[Any]:
        feed = {**x, SHRINKAGE: self._shrinkages(chosen, shrinkage)}
        return list(self._whole.run(names, feed))

    def _shrinkages(self, chosen: Sequence[int], shrinkage: float) -> F32:
        values = np.zeros(self._count, np.float32)
        values[list(chosen)] = shrinkage
        return values


def site_network(graph: Graph, sites: Sequence[Site]) -> onnx.ModelProto:
    """The network with a second input, :data:`SHRINKAGE`.

    Args:
        graph: Folded, floats.
        sites: Of the integer network made from it, in layer order.
    """
    model = float_model(graph)
    outputs = {node.name: before_activation(node) for node in graph.nodes}
    numbers = {outputs[site.layer]: i for i, site in enumerate(sites)}
    body = []
    for node in model.graph.node:
        body.append(node)
        name = node.output[0]
        if name in numbers:
            node.output[0] = f"{name}:measured"
            number = numbers[name]
            inputs = [f"{name}:{what}" for what in ("site", "beta", "variance")]
            inputs = [f"{name}:measured", SHRINKAGE, *inputs]
            body.append(helper.make_node(_SITE, inputs, [name], domain=_DOMAIN))
            model.graph.initializer.extend(_constants(name, number, sites[number]))
    source = helper.make_tensor_value_info(SHRINKAGE, TensorProto.FLOAT, [len(sites)])
    return helper.make_model(
        helper.make_graph(
            body,
            graph.name,
            [*model.graph.input, source],
            model.graph.output,
            model.graph.initializer,
        ),
        functions=[onnx.parser.parse_function(_BODY)],
        opset_imports=[*model.opset_import, helper.make_opsetid(_DOMAIN, 1)],
        ir_version=IR_VERSION,
    )


def from_step(model: onnx.ModelProto, step: int) -> onnx.ModelProto:
    """The model from node ``step`` on; it takes what its earlier nodes gave."""
    nodes = model.graph.node[step:]
    made = {name for node in nodes for name in node.output}
    read = dict.fromkeys(name for node in nodes for name in node.input)
    weights = [w for w in model.graph.initializer if w.name in read]
    known = made | {w.name for w in weights}
    inputs = [_floats(name) for name in read if name not in known]
    return helper.make_model(
        helper.make_graph(nodes, model.graph.name, inputs, model.graph.output, weights),
        functions=model.functions,
        opset_imports=model.opset_import,
        ir_version=IR_VERSION,
    )


def _floats(name: str) -> onnx.ValueInfoProto:
    """A tensor of any shape."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _constants(name: str, number: int, site: Site) -> Iterator[TensorProto]:
    yield numpy_helper.from_array(np.array([number]), f"{name}:site")
    for what, values in (("beta", site.beta), ("variance", site.sigma**2)):
        column = values.astype(np.float32).reshape(1, -1, 1, 1)
        yield numpy_helper.from_array(column, f"{name}:{what}")
