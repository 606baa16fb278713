"""What native.py times: the firmware in this process, and ONNX Runtime."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from refoldc.artefact import Artefact

from refold import facts
from refold.errors import UserError
from refold.inputs import device_input, model_input
from refold.resources import firmware_dir
from refold.toolchain import Compiler
from refold.twin import NativeConfig

Infer = Callable[[int], object]
"""Runs one image, given by its number."""

TO_ALIGN = 64


def firmware(
    artefact: Artefact,
    compiler: Compiler,
    folder: Path,
    *,
    model: Path | None = None,
    include: tuple[Path, ...] = (),
) -> ctypes.CDLL:
    """Compile the native board's sources and flags into a library, and load it.

    Args:
        artefact: Whose model it holds.
        compiler: The board's.
        folder: For the library.
        model: Source to take instead of the artefact's own.
        include: Folders of headers to take before the firmware's own.
    """
    sources = [
        *sorted((firmware_dir() / "src").rglob("*.c")),
        model or artefact.path / "model.c",
    ]
    own = (firmware_dir() / "include", firmware_dir() / "src", artefact.path)
    x86 = ["-DREFOLD_X86"] if compiler.defines("__x86_64__") else []
    library = folder / "firmware.so"
    command = [*compiler.command, *compiler.cflags, *x86, "-fPIC", "-shared"]
    command += [f"-I{path}" for path in (*include, *own)]
    command += [os.fspath(source) for source in sources]
    command += [*compiler.ldflags, "-o", os.fspath(library)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise UserError(f"the firmware does not compile:\n{result.stderr}")
    return ctypes.CDLL(str(library))


def model_data(library: ctypes.CDLL) -> Any:
    """The model that a library holds."""
    return ctypes.byref(ctypes.c_char.in_dll(library, "refold_model_data"))


def start(library: ctypes.CDLL, arena: NDArray[np.uint8]) -> ctypes.c_void_p:
    """A context in ``arena``, which has ``TO_ALIGN`` bytes to spare."""
    context = ctypes.c_void_p()
    status = library.refold_init(
        ctypes.byref(context),
        model_data(library),
        ctypes.c_void_p(arena.ctypes.data + -arena.ctypes.data % TO_ALIGN),
        ctypes.c_size_t(arena.size - TO_ALIGN),
    )
    check(status)
    return context


def check(status: int) -> None:
    """Refuse a status other than OK."""
    if status != facts.Status.OK:
        raise UserError(f"the firmware refused: {facts.STATUS_TEXT[status]}")


class Firmware:
    """A context of the firmware over a set of images.

    Args:
        library: From :func:`firmware`.
        artefact: That it holds.
        images: uint8 [N, H, W, C].
        forge: Recalibrate at every site, ungated; else adaptation is off.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        artefact: Artefact,
        images: NDArray[np.uint8],
        *,
        forge: bool,
    ) -> None:
        arena_bytes = artefact.manifest.memory.arena_bytes
        self._arena = np.zeros(arena_bytes + TO_ALIGN, np.uint8)
        self._context = start(library, self._arena)
        if forge:
            self._adapt(library, sites=len(artefact.manifest.sites))
        self._images = device_input(artefact.manifest.input, images)
        self._pointers = [ctypes.c_void_p(image.ctypes.data) for image in self._images]
        self.logits = np.zeros(int(np.prod(artefact.manifest.layers[-1].shape)), "<i4")
        self._logits = ctypes.c_void_p(self.logits.ctypes.data)
        self._infer = library.refold_infer

    def _adapt(self, library: ctypes.CDLL, *, sites: int) -> None:
        config = NativeConfig()
        library.refold_adapt_defaults(model_data(library), ctypes.byref(config))
        mask = ((1 << sites) - 1).to_bytes(facts.SITE_MASK_BYTES, "little")
        config.gate = 0
        config.sites[:] = list(mask)
        check(library.refold_adapt_set(self._context, ctypes.byref(config)))

    def __call__(self, number: int) -> None:
        """Run image ``number``."""
        self._infer(self._context, self._pointers[number], self._logits)


class OnnxRuntime:
    """ONNX Runtime on the artefact's int8 QDQ model, one thread.

    Inputs and outputs are bound once, so that only inference is timed.

    Args:
        artefact: Compiled model.
        images: uint8 [N, H, W, C].
    """

    def __init__(self, artefact: Artefact, images: NDArray[np.uint8]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            os.fspath(artefact.path / "model.int8.onnx"),
            options,
            providers=["CPUExecutionProvider"],
        )
        self._bindings = [self._bind(image) for image in _real(artefact, images)]

    def _bind(self, image: NDArray[np.float32]) -> Any:
        binding = self._session.io_binding()
        binding.bind_cpu_input(self._session.get_inputs()[0].name, image)
        for output in self._session.get_outputs():
            binding.bind_output(output.name)
        return binding

    def __call__(self, number: int) -> None:
        """Run image ``number``."""
        self._session.run_with_iobinding(self._bindings[number])

    def scores(self, number: int) -> NDArray[np.float32]:
        """The outputs of the last run of image ``number``, flat."""
        values: NDArray[np.float32] = self._bindings[number].copy_outputs_to_cpu()[0]
        return values.ravel()


def _real(artefact: Artefact, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Images as the float model takes them, [N, 1, ...], channels first."""
    values = model_input(artefact.manifest.input, images)
    if values.ndim == 4:
        values = np.moveaxis(values, -1, 1)
    return np.ascontiguousarray(values[:, None])
