"""Memory: the layout is sound and tight, and the sizes are those of the firmware."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

import numpy as np
import pytest
from emitted import EmittedModel, runtime
from graphs import RELU, GraphBuilder, quantised, small_cnn

from refoldc.calibrate import calibrate
from refoldc.emit import Stamp, emit_model
from refoldc.errors import DoesNotFit
from refoldc.fold import fold
from refoldc.importer import import_model
from refoldc.ir import QConv, QGraph
from refoldc.memory import Limits, Memory, check_fits, measure
from refoldc.options import CompileOptions
from refoldc.plan import (
    ALIGNMENT,
    Buffer,
    Plan,
    lay_out,
    make_buffers,
    plan,
    scratch_bytes,
    tensor_bytes,
)
from refoldc.quantise import quantise


class Conv2d(ctypes.Structure):
    """The members of refold_conv2d_params that scratch sizes depend on."""

    _fields_ = (
        *((f"in_{axis}", ctypes.c_uint16) for axis in "hwc"),
        *((f"out_{axis}", ctypes.c_uint16) for axis in "hwc"),
        *((f"kernel_{axis}", ctypes.c_uint16) for axis in "hw"),
        ("others", ctypes.c_uint16 * 6),
        ("groups", ctypes.c_uint16),
    )


def check_layout(graph: QGraph, layout: Plan) -> None:
    """No two tensors that hold data at one time overlap, but for in-place results."""
    buffers = make_buffers(graph)
    for buffer in buffers:
        start = layout.offsets[buffer.tensors[0]]
        assert 0 == start % ALIGNMENT
        assert start + buffer.size <= layout.activation_bytes
        assert {start} == {layout.offsets[name] for name in buffer.tensors}
        assert all(tensor_bytes(graph, n) <= buffer.size for n in buffer.tensors)
        for other in buffers:
            if other is not buffer and other.meets(buffer):
                place = layout.offsets[other.tensors[0]]
                assert place + other.size <= start or start + buffer.size <= place


def test_small_network_layout() -> None:
    """Every tensor has a place of its own while it is needed."""
    graph = quantised(small_cnn())
    check_layout(graph, plan(graph))


def test_sums_are_computed_in_place() -> None:
    """A sum takes the place of the operand that nobody reads again."""
    b = GraphBuilder((8, 8, 4))
    first = b.conv("t0", 4)
    second = b.conv(first, 4)
    b.add(first, second)
    kept = b.add(b.last, first)
    b.add(kept, first)
    b.dense(b.last, 2)
    graph = quantised(b.graph(), CompileOptions(input="tensor"))
    layout = plan(graph)
    check_layout(graph, layout)
    assert layout.offsets[second] == layout.offsets["t3"] == layout.offsets["t5"]
    assert layout.offsets[first] != layout.offsets["t3"]


def test_tables_are_computed_in_place() -> None:
    """So does an activation of its own."""
    b = GraphBuilder((8, 8, 4))
    b.conv("t0", 4)
    b.clamp(b.last, RELU)
    b.dense(b.last, 2)
    layout = plan(quantised(b.graph(), CompileOptions(input="tensor")))
    assert layout.offsets["t1"] == layout.offsets["t2"]


def test_first_fit_uses_gaps() -> None:
    """A small buffer goes below a large one where it is free."""
    large = Buffer(("large",), 64, 0, 1)
    late = Buffer(("late",), 32, 2, 3)
    long = Buffer(("long",), 16, 0, 3)
    offsets, span = lay_out([large, late, long])
    assert {"large": 0, "late": 0, "long": 64} == offsets
    assert 80 == span


def resnet20(shared: Path, options: CompileOptions) -> QGraph:
    """The shared network, calibrated on two images."""
    with np.load(shared / "data/cifar10c_sev5_1000.npz") as data:
        images = data["clean"][:2]
    folded = fold(import_model(shared / "models/resnet20_cifar10_forge.onnx"))
    return quantise(folded, calibrate(folded, images, options), options)


def test_resnet20_is_within_ten_percent_of_the_bound(shared: Path) -> None:
    """Three tensors of 32x32x16 are alive at once: 49,152 bytes."""
    graph = resnet20(shared, CompileOptions())
    layout = plan(graph)
    check_layout(graph, layout)
    assert 3 * 32 * 32 * 16 == layout.live_bytes
    assert layout.activation_bytes <= 1.1 * layout.live_bytes


def test_scratch_is_what_the_firmware_asks_for() -> None:
    """Plain, grouped and depthwise, compared with refold_*_scratch_bytes."""
    library = runtime()
    for layer in quantised(small_cnn()).layers:
        if not isinstance(layer, QConv):
            continue
        channels, high, wide, depth = layer.weights.shape
        params = Conv2d(groups=layer.groups, kernel_h=high, kernel_w=wide)
        params.out_c, params.in_c = channels, depth * layer.groups
        kind = "dwconv2d" if layer.depthwise else "conv2d"
        asked = getattr(library, f"refold_{kind}_scratch_bytes")
        asked.restype = ctypes.c_size_t
        assert asked(ctypes.byref(params)) == scratch_bytes(layer)


@pytest.mark.parametrize("adapt", ["forge", "none"])
def test_arena_is_what_the_firmware_asks_for(adapt: str, tmp_path: Path) -> None:
    """refold_arena_bytes, with and without adaptation state."""
    graph = quantised(small_cnn(), CompileOptions(adapt=adapt))
    memory = measure(graph, plan(graph))
    device = EmittedModel(graph, tmp_path)
    assert memory.arena_bytes == device.arena_bytes
    assert (memory.adapt_state_bytes == 0) == (adapt == "none")


@pytest.mark.parametrize("adapt", ["forge", "none"])
@pytest.mark.parametrize("images", [2, 5])
def test_link_is_what_the_firmware_asks_for(
    adapt: str, images: int, tmp_path: Path
) -> None:
    """refold_link_bytes and refold_adapt_state_bytes of the same model."""
    graph = quantised(small_cnn(), CompileOptions(adapt=adapt))
    memory = measure(graph, plan(graph))
    device = EmittedModel(graph, tmp_path)
    model = ctypes.c_void_p(device.model)
    for name in ("refold_adapt_state_bytes", "refold_link_bytes"):
        getattr(device.runtime, name).restype = ctypes.c_size_t
    assert memory.record_bytes == device.runtime.refold_adapt_state_bytes(model)
    asked = device.runtime.refold_link_bytes(model, ctypes.c_uint32(images))
    assert memory.link_bytes(images) == asked


def test_packed_weights_are_counted() -> None:
    """As many bytes as the arrays that builds with SIMD kernels add."""
    graph = quantised(small_cnn())
    layout = plan(graph)
    memory = measure(graph, layout)
    text = emit_model(graph, layout, memory, stamp=Stamp("0", "m", "0", "")).model_c
    sizes = re.findall(r"int8_t [^\n]*_packed\[(\d+)\]", text)
    assert len(sizes) > 1
    assert sum(map(int, sizes)) == memory.packed_bytes


def test_sizes_are_those_of_the_headers(repo_root: Path) -> None:
    """Alignment, slack and context size are written in kernels.h and arena.h."""
    from refoldc import memory

    text = "".join(
        (repo_root / "firmware/include/refold" / name).read_text()
        for name in ("kernels.h", "arena.h")
    )
    for name, value in (
        ("REFOLD_ALIGNMENT", ALIGNMENT),
        ("REFOLD_TENSOR_SLACK", memory.TENSOR_SLACK),
        ("REFOLD_CONTEXT_BYTES", memory.CONTEXT_BYTES),
    ):
        match = re.search(rf"#define {name} (\d+)", text)
        assert match is not None
        assert value == int(match[1])


LAYOUT = Plan({}, 3000, 2900, "block3/conv", 10)
MEMORY = Memory(
    arena_bytes=5000,
    adapt_state_bytes=1000,
    weights_bytes=7000,
    packed_bytes=600,
    record_bytes=200,
    link_image_bytes=100,
)

SMALL, LARGE = Limits("small", 4999, 7000), Limits("large", 5000, 7000)


def test_what_fits_passes() -> None:
    """Exactly as much as there is, or no limit at all."""
    check_fits(LAYOUT, MEMORY, Limits("b", 5000, 7000))
    check_fits(LAYOUT, MEMORY, Limits("b"))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (
            Limits("tiny", 4999),
            "5000 bytes of RAM on board tiny, which has 4999.*block3",
        ),
        (Limits("tiny", 4000), "fits without adaptation: compile with --adapt none"),
        (Limits("tiny", 3999), "fits with 1001 bytes less"),
        (
            Limits("tiny", 3000, link_images=2, others=(SMALL, LARGE)),
            "408 the link's images and results.*or board large, which holds it",
        ),
        (Limits("tiny", 3000, others=(SMALL,)), "or a board with more memory"),
        (Limits("tiny", None, 10, others=(LARGE,)), "or board large, which holds it"),
        (Limits("tiny", None, 6999), "7000 bytes, board tiny has 6999 bytes of flash"),
        (Limits("tiny", None, 7599, packed=True), "tables are 7600 bytes, board tiny"),
        (Limits("tiny", 5507, link_images=3), "needs 5508 bytes of RAM on board tiny"),
    ],
)
def test_what_does_not_fit(limits: Limits, message: str) -> None:
    """The message has the numbers, the layer at the peak and a remedy."""
    with pytest.raises(DoesNotFit, match=message):
        check_fits(LAYOUT, MEMORY, limits)
