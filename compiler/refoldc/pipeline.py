"""The compiler from end to end, one line a stage."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from refoldc.artefact import GOLDEN_INPUT, Artefact, check_target, write_artefact
from refoldc.calibrate import (
    Calibration,
    calibrate,
    device_images,
    estimate_targets,
)
from refoldc.choose_sites import choose_sites
from refoldc.compare import compare, layer_tensors
from refoldc.correct_bias import correct_biases
from refoldc.emit import Stamp, emit_model
from refoldc.equalise import equalise
from refoldc.errors import BadModel
from refoldc.fit_search import fit_search
from refoldc.fold import fold
from refoldc.importer import import_proto
from refoldc.ir import Graph, QGraph
from refoldc.loading import load_onnx
from refoldc.manifest import make_manifest
from refoldc.measure_gate import IMAGES, measure_gate
from refoldc.memory import Limits, check_fits, measure
from refoldc.options import CompileOptions
from refoldc.plan import plan
from refoldc.qdq_export import qdq_model
from refoldc.quantise import quantise
from refoldc.reference import Reference
from refoldc.search import measure_features, plan_search
from refoldc.threads import one_blas_thread
from refoldc.verify import verify
from refoldc.verify_import import verify_import
from refoldc.version import VERSION

GOLDEN_IMAGES = 4
COMPARED_IMAGES = 128
"""That the accuracy report is made from."""

_logger = logging.getLogger(__name__)

Progress = Callable[[str], None]


@one_blas_thread()
def compile_model(  # noqa: PLR0913 - a keyword a concern
    model: Path,
    images: NDArray[Any],
    out: Path,
    *,
    options: CompileOptions | None = None,
    limits: Limits | None = None,
    progress: Progress | None = None,
    dump_layers: bool = False,
    corrupted: Mapping[str, NDArray[Any]] | None = None,
) -> Artefact:
    """Compile an ONNX file into an artefact.

    Args:
        model: The ONNX file.
        images: For calibration: uint8 pixels [N, H, W, C], which are normalised
            with mean and std; for tensor input also float32 values of the tensor
            itself, [N, *input shape], channels last; of several, all elements
            in model order, [N, F].
        out: Directory to write; an artefact there is replaced.
        options: See :class:`CompileOptions`.
        limits: Of the board that must hold the model.
        progress: Told the name of each stage as it begins; None logs it.
        dump_layers: Write ``layers.npz`` too: what every layer gives on the golden
            images, in float and in int8.
        corrupted: By name: versions of the first of ``images``, as many of each, on
            which sites ``auto:K`` ranks the sites.

    Raises:
        RefoldcError: The model, the images or the options cannot be compiled, or
            the result does not fit; nothing is written then.
    """
    enter = progress or _logger.info
    check_target(out)
    enter("import")
    given = options or CompileOptions()
    source = load_onnx(model, given.shape)
    imported = import_proto(source, model.stem)
    options = given.for_input(imported.sample_shape)
    enter("fold")
    folded = fold(imported)
    verify_import(source, folded)
    enter("calibrate")
    calibration = calibrate(folded, images, options)
    enter("quantise")
    targeted = estimate_targets(folded, calibration)
    if options.equalise and not targeted.quantised:
        targeted, calibration = equalise(targeted, calibration)
    graph = quantise_corrected(targeted, calibration, images, options)
    pixels = images.dtype == np.uint8
    notices = (*given.notices(pixels=pixels), *calibration.notices, *graph.notices)
    received = device_images(graph, images[:IMAGES], options)
    graph, ranking = choose_sites(
        *(targeted, graph, images, corrupted, options), progress=enter
    )
    graph = measure_gate(replace(graph, notices=notices), received)
    enter("plan")
    layout = plan(graph)
    search = plan_search(graph, options.adapt, options.moved_sites)
    search = fit_search(graph, layout, search, limits)
    memory = measure(graph, layout, search)
    if limits is not None:
        check_fits(layout, memory, limits)
    enter("compare")
    accuracy = compare(targeted, graph, images[:COMPARED_IMAGES], options)
    enter("emit")
    sha256 = hashlib.sha256(model.read_bytes()).hexdigest()
    stamp = Stamp(VERSION, model.name, sha256, repr(options))
    few = images[:GOLDEN_IMAGES]
    known = golden(graph, received[:GOLDEN_IMAGES])
    return write_artefact(
        out,
        manifest=make_manifest(
            *(graph, memory, options),
            sha256=sha256,
            accuracy=accuracy,
            layout=layout,
            ranking=ranking,
            search=search,
        ),
        graph=graph,
        sources=emit_model(
            graph,
            layout,
            memory,
            search,
            measure_features(graph, search, received),
            stamp=stamp,
        ),
        qdq=qdq_model(graph),
        golden=known,
        layers=layer_tensors(targeted, known, few, options) if dump_layers else None,
    )


def quantise_corrected(
    graph: Graph,
    calibration: Calibration,
    images: NDArray[Any],
    options: CompileOptions,
) -> QGraph:
    """The integer network; its biases are corrected where options and model allow."""
    quantised = verify(quantise(graph, calibration, options))
    if graph.quantised or not options.correct_bias:
        return quantised
    corrected = correct_biases(graph, quantised, images, options)
    return verify(quantise(corrected, calibration, options))


def golden(graph: QGraph, received: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """What every layer gives, adaptation off.

    Args:
        graph: The integer network.
        received: Images as the device receives them, [N, ...].

    Returns:
        ``input``, which is ``received``, then one array [N, H, W, C] a layer, by
        its name.

    Raises:
        BadModel: A layer is called ``input``.
    """
    reference = Reference(graph)
    traces = [reference.trace(image) for image in received]
    layers = {name: np.stack([t[name] for t in traces]) for name in traces[0]}
    if GOLDEN_INPUT in layers:
        raise BadModel(
            f"a node is called '{GOLDEN_INPUT}', which golden.npz needs for the "
            "network's input: rename the node"
        )
    return {GOLDEN_INPUT: received, **layers}
