"""An emitted model as a device: compiled, loaded and driven through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from cbuild import RUNTIME_SOURCES, compile_shared
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.emit import Sources, Stamp, emit_model
from refoldc.facts import Gate
from refoldc.ir import QGraph
from refoldc.memory import CONTEXT_BYTES, TENSOR_SLACK, measure
from refoldc.plan import ALIGNMENT, plan
from refoldc.reference import Outcome

from refold.twin import NativeReport, native_config

STAMP = Stamp("0", "test.onnx", "00", "CompileOptions()")
FLAGS = ("-O2", "-march=native")

TRACE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint16, ctypes.c_void_p, ctypes.c_uint32
)


@cache
def runtime(*flags: str) -> ctypes.CDLL:
    """The firmware's runtime, once a process for each set of flags."""
    folder = Path(mkdtemp(prefix="refold-runtime-"))
    source = Path(__file__).resolve().parents[2] / "firmware/src"
    library = compile_shared(
        RUNTIME_SOURCES, flags=(*FLAGS, *flags), include=[source], out_dir=folder
    )
    for name in ("refold_arena_bytes", "refold_adapt_state_bytes"):
        getattr(library, name).restype = ctypes.c_size_t
        getattr(library, name).argtypes = [ctypes.c_void_p]
    library.refold_last.restype = ctypes.POINTER(NativeReport)
    return library


def emit(graph: QGraph) -> Sources:
    """The C text of a network."""
    layout = plan(graph)
    return emit_model(graph, layout, measure(graph, layout), stamp=STAMP)


def write_sources(sources: Sources, folder: Path) -> Path:
    """Write model.c and model.h; return model.c."""
    (folder / "model.h").write_text(sources.model_h)
    (folder / "model.c").write_text(sources.model_c)
    return folder / "model.c"


class EmittedModel:
    """The interface of ``refoldc.reference.Reference``, computed by the C.

    Args:
        graph: The network.
        folder: For its sources.
        flags: For the compiler, to choose the kernels.
    """

    def __init__(self, graph: QGraph, folder: Path, *flags: str) -> None:
        self.graph = graph
        self.runtime = runtime(*flags)
        source = write_sources(emit(graph), folder)
        library = compile_shared(
            [source, Path(self.runtime._name)],
            flags=flags,
            include=[folder],
            out_dir=folder,
        )
        self.model = ctypes.addressof(
            ctypes.c_char.in_dll(library, "refold_model_data")
        )
        self._library = library
        self.arena_bytes = self.runtime.refold_arena_bytes(self.model)
        self._arena = np.zeros(self.arena_bytes + 16, np.uint8)
        start = self._arena.ctypes.data
        self._context = ctypes.c_void_p()
        arena = ctypes.c_void_p(start + -start % 16)
        status = self.runtime.refold_init(
            ctypes.byref(self._context),
            ctypes.c_void_p(self.model),
            arena,
            ctypes.c_size_t(self.arena_bytes),
        )
        assert status == 0

    def configure(self, config: AdaptConfig, keep_state: bool = False) -> None:
        """As the host configures a device at the start of a stream."""
        defaults = tuple(i for i, s in enumerate(self.graph.sites) if s.default_on)
        native = native_config(config, defaults)
        status = self.runtime.refold_adapt_set(self._context, ctypes.byref(native))
        assert status == 0
        if not keep_state:
            self.runtime.refold_adapt_reset(self._context)

    def infer(self, image: NDArray[Any]) -> Outcome:
        """Run one image."""
        logits = np.zeros(self.graph.output_count, np.int32)
        data = np.ascontiguousarray(image)
        status = self.runtime.refold_infer(
            self._context,
            ctypes.c_void_p(data.ctypes.data),
            ctypes.c_void_p(logits.ctypes.data),
        )
        assert status == 0
        report = self.runtime.refold_last(self._context).contents
        gate = None if report.gate == Gate.NONE else report.gate == Gate.OPEN
        return Outcome(
            logits, np.float32(report.shift_score), bool(report.adapted), gate
        )

    @property
    def activations(self) -> NDArray[np.uint8]:
        """The activation arena with its slack, as bytes that can be written."""
        first = -self._arena.ctypes.data % ALIGNMENT + CONTEXT_BYTES
        size = plan(self.graph).activation_bytes + TENSOR_SLACK
        return self._arena[first : first + size]

    def trace(
        self, image: NDArray[Any], after: Callable[[int], None] = lambda _: None
    ) -> dict[str, NDArray[Any]]:
        """Run one image and collect every layer's output.

        Args:
            image: As the device receives it.
            after: Called behind each layer with its number.
        """
        found: dict[str, NDArray[Any]] = {}
        layers = self.graph.layers

        def keep(_user: Any, index: int, data: int, size: int) -> None:
            shape = self.graph.shapes[layers[index].output]
            wide = size == 4 * int(np.prod(shape))
            values = np.frombuffer(
                ctypes.string_at(data, size), np.int32 if wide else np.int8
            )
            found[layers[index].name] = values.reshape(shape)
            after(index)

        callback = TRACE(keep)
        self.runtime.refold_set_trace(self._context, callback, None)
        self.infer(image)
        self.runtime.refold_set_trace(self._context, None, None)
        return found

    def save_state(self) -> bytes:
        """What refold_adapt_save writes."""
        size = self.runtime.refold_adapt_state_bytes(self.model)
        buffer = ctypes.create_string_buffer(size)
        status = self.runtime.refold_adapt_save(
            self._context, buffer, ctypes.c_size_t(size)
        )
        assert status == 0
        return buffer.raw

    def load_state(self, record: bytes) -> int:
        """Status of refold_adapt_load."""
        return int(
            self.runtime.refold_adapt_load(
                self._context, record, ctypes.c_size_t(len(record))
            )
        )
