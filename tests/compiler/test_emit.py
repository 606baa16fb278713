"""The emitted C: strict, reproducible, readable, and safe whatever the names are."""

from __future__ import annotations

import ctypes
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from cbuild import STRICT, compile_c, compile_shared, compilers
from emitted import EmittedModel, emit, runtime, write_sources
from graphs import GraphBuilder, quantised, small_cnn

from refoldc.ctext import c_array, c_comment, c_float, c_string
from refoldc.facts import ABI
from refoldc.ir import QGraph
from refoldc.options import CompileOptions
from refoldc.softmax import softmax_table


@pytest.fixture(scope="module")
def graph() -> QGraph:
    """A network of every operator."""
    return quantised(small_cnn())


def plain_graph() -> QGraph:
    """No pixels, no sites, no pools: every optional part missing."""
    b = GraphBuilder((6,))
    b.dense("t0", 3)
    return quantised(b.graph())


@pytest.mark.parametrize("cc", compilers())
@pytest.mark.parametrize("kind", ["every", "plain"])
def test_compiles_without_a_warning(
    kind: str, cc: str, graph: QGraph, tmp_path: Path
) -> None:
    """C99, pedantic, under every compiler of this machine."""
    sources = emit(graph if kind == "every" else plain_graph())
    source = write_sources(sources, tmp_path)
    flags = ("-c", *STRICT)
    compile_c([source], tmp_path / "model.o", cc=cc, flags=flags, include=[tmp_path])


def test_only_one_symbol_is_visible(graph: QGraph, tmp_path: Path) -> None:
    """Everything but refold_model_data is static."""
    source = write_sources(emit(graph), tmp_path)
    made = compile_c([source], tmp_path / "m.o", flags=["-c"], include=[tmp_path])
    command = ["nm", "--extern-only", "--defined-only", str(made)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ["refold_model_data"] == [
        row.split()[-1] for row in listed.stdout.splitlines()
    ]


def test_equal_inputs_give_equal_bytes() -> None:
    """Two runs from the float network on."""
    assert emit(quantised(small_cnn())) == emit(quantised(small_cnn()))
    assert emit(quantised(small_cnn())) != emit(quantised(small_cnn(seed=1)))


def test_another_abi_does_not_compile(graph: QGraph, tmp_path: Path) -> None:
    """The message says to compile the model again."""
    sources = emit(graph)
    header = sources.model_h.replace(f"REFOLD_ABI != {ABI}", "REFOLD_ABI != 999")
    source = write_sources(replace(sources, model_h=header), tmp_path)
    with pytest.raises(subprocess.CalledProcessError) as failure:
        compile_c([source], tmp_path / "m.o", flags=["-c"], include=[tmp_path])
    assert "compile it again" in failure.value.stderr


def test_header_has_the_sizes(graph: QGraph, tmp_path: Path) -> None:
    """Macros give what static buffers need."""
    header = emit(graph).model_h
    macros = dict(re.findall(r"#define REFOLD_MODEL_(\w+) (\d+)", header))
    arena = EmittedModel(graph, tmp_path).arena_bytes
    sizes = {"INPUT_BYTES": "270", "OUTPUTS": "7", "LAYERS": "11"}
    assert {"ARENA_BYTES": str(arena), **sizes} == macros


def test_layers_say_what_they_are(graph: QGraph) -> None:
    """Number, operator, ONNX names, shapes, cost and places are in a comment."""
    text = emit(graph).model_c
    title = re.search(r"/\* 0: conv2d n0\n(.*\n){1,2}.*\*/", text)
    assert title is not None
    assert "onnx_0" in title[0]
    assert "9x10x3 -> 9x10x8, 19440 MACs, arena " in title[0]


def test_hostile_names_do_no_harm(tmp_path: Path) -> None:
    """Comment ends, quotes, trigraphs and foreign letters stay names."""
    graph = quantised(small_cnn())
    name = 'a*/"\\??/\n%sü'
    first = replace(graph.layers[0], name=name, onnx_nodes=(name,), site=None)
    hostile = replace(graph, name=name, layers=(first, *graph.layers[1:]))
    source = write_sources(emit(hostile), tmp_path)
    flags = ("-c", *STRICT)
    compile_c([source], tmp_path / "m.o", flags=flags, include=[tmp_path])
    library = compile_shared(
        [source, Path(runtime()._name)], include=[tmp_path], out_dir=tmp_path
    )
    address = ctypes.addressof(ctypes.c_char.in_dll(library, "refold_model_data"))
    stored = ctypes.c_char_p.from_address(address + 8).value
    assert name.encode() == stored


def test_no_adaptation_emits_no_site() -> None:
    """Neither constants nor the method bit."""
    text = emit(quantised(small_cnn(), CompileOptions(adapt="none"))).model_c
    assert ".adaptation = REFOLD_METHOD_OFF" in text
    assert "refold_site " not in text


@pytest.mark.parametrize("value", [0.1, -1e-38, 3.4e38, 0.0, 1 / 3])
def test_float_literals_are_exact(value: float) -> None:
    """The literal reads back as the same float32."""
    single = np.float32(value)
    assert single == np.float32(float.fromhex(c_float(single)[:-1]))


def test_text_helpers() -> None:
    """Lines are bounded, and nothing ends a comment or string early."""
    array = c_array("int8_t", "x", np.arange(-60, 60).astype(np.int8))
    assert max(map(len, array.splitlines())) <= 96
    assert array.startswith("static const int8_t x[120] = {\n")
    assert "*/" not in c_comment("*/*/")
    assert r'"\042\134\077"' == c_string('"\\?')


@pytest.mark.parametrize("scale", [1.0, 0.1, 1e-3, 1e-6])
def test_softmax_table(scale: float) -> None:
    """Its last entry is below 2**-15, and no smaller shift would do."""
    table = softmax_table(scale)
    reach = 255 * 2.0**table.shift * scale
    assert np.exp(-reach) < 2.0**-15
    assert table.shift == 0 or np.exp(-reach / 2) >= 2.0**-15
    assert 32768 == table.exp[0]
