"""The firmware in this process as a device: streams of images through compiled C."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

import contenders
import numpy as np
from numpy.typing import NDArray

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact
from refoldc.input_spec import input_slots

from refold import facts
from refold.boards import load_board
from refold.errors import UserError
from refold.inputs import device_input
from refold.resources import firmware_dir
from refold.toolchain import find_compiler
from refold.twin import NativeReport, native_config


@dataclass(frozen=True, eq=False)
class Answers:
    """What a stream got: ``logits`` int32 [N, C]; ``is_open`` bool [N], of the gate."""

    logits: NDArray[np.int32]
    is_open: NDArray[np.bool_]

    def accuracy(self, labels: NDArray[np.int64]) -> float:
        """Percent of images whose first largest logit is their label's."""
        return 100 * float((self.logits.argmax(axis=1) == labels).mean())


@dataclass(frozen=True)
class SearchSize:
    """What of PACE is fixed when a model is compiled; None: as it was.

    Attributes:
        moved: Numbers of the sites that move.
        dimension, window: The most that there is memory for.
        whole: Candidates run the whole network; needed where other sites move than
            those that the model was compiled for.
    """

    moved: tuple[int, ...] | None = None
    dimension: int | None = None
    window: int | None = None
    whole: bool = False


AS_COMPILED = SearchSize()


class NativeModel:
    """An artefact on this machine.

    Args:
        artefact: Compiled model.
        limits: Values of facts.toml to build the firmware with instead of its own.
        margin: Of the gate, instead of the model's own.
        search: Of PACE, instead of the model's own.
    """

    def __init__(
        self,
        artefact: Artefact,
        *,
        limits: Mapping[str, int] | None = None,
        margin: float | None = None,
        search: SearchSize = AS_COMPILED,
    ) -> None:
        folder = Path(mkdtemp(prefix="refold-native-"))
        source = folder / "model.c"
        text = (artefact.path / "model.c").read_text()
        text = _with_search(text, search, artefact)
        source.write_text(_with_margin(text, margin))
        include = _with_limits(limits or {}, folder)
        compiler = find_compiler(load_board("native").toolchain)
        self.library = contenders.firmware(
            artefact, compiler, folder, model=source, include=include
        )
        self.library.refold_last.restype = ctypes.POINTER(NativeReport)
        self._artefact = artefact
        self.library.refold_arena_bytes.restype = ctypes.c_size_t
        model = contenders.model_data(self.library)
        arena_bytes = self.library.refold_arena_bytes(model)
        self._arena = np.zeros(arena_bytes + contenders.TO_ALIGN, np.uint8)
        self._context = contenders.start(self.library, self._arena)

    def configure(self, config: AdaptConfig, *, keep_state: bool = False) -> None:
        """As the host begins a stream."""
        sites = self._artefact.manifest.sites
        defaults = tuple(i for i, site in enumerate(sites) if site.default_on)
        native = native_config(config, defaults)
        contenders.check(
            self.library.refold_adapt_set(self._context, ctypes.byref(native))
        )
        if not keep_state:
            self.library.refold_adapt_reset(self._context)

    def run(self, images: NDArray[np.uint8]) -> Answers:
        """Stream images [N, H, W, C], one after the other."""
        received = device_input(self._artefact.manifest.input, images)
        outputs = int(np.prod(self._artefact.manifest.layers[-1].shape))
        logits = np.zeros((len(received), outputs), np.int32)
        gates = np.zeros(len(received), np.uint8)
        for number, image in enumerate(received):
            self.library.refold_infer(
                self._context,
                ctypes.c_void_p(image.ctypes.data),
                ctypes.c_void_p(logits[number].ctypes.data),
            )
            gates[number] = self.library.refold_last(self._context).contents.gate
        return Answers(logits, gates != facts.Gate.CLOSED)

    def search_s(self, window: NDArray[np.uint8]) -> float:
        """Run images that fill a window; the processor's seconds of its search."""
        self.run(window)
        start = time.thread_time()
        self.library.refold_adapt_search(self._context)
        return time.thread_time() - start


def _with_margin(text: str, margin: float | None) -> str:
    """The model's source, with another margin of the gate."""
    if margin is None:
        return text
    return _replaced(r"(\.gate_margin = )[^,]+", f"{margin!r}f", text)


def _with_search(text: str, search: SearchSize, artefact: Artefact) -> str:
    """The model's source, with another plan of PACE."""
    values = {"dimension": search.dimension, "window": search.window}
    if search.whole:
        slot = input_slots(artefact.qgraph)[-1]
        values |= {"first": 0, "kept": 0, "kept_bytes": slot.end}
    if search.moved is not None:
        sites = artefact.manifest.sites
        values["channels"] = sum(sites[number].channels for number in search.moved)
        mask = sum(1 << number for number in search.moved)
        octets = mask.to_bytes(facts.SITE_MASK_BYTES, "little")
        text = _replaced(
            r"(refold_pace_plan pace = \{\s*\.sites = \{)[^}]*",
            ", ".join(map(str, octets)),
            text,
        )
    for name, value in values.items():
        if value is not None:
            pattern = rf"(refold_pace_plan pace = \{{[^;]*?\.{name} = )\d+"
            text = _replaced(pattern, str(value), text)
    return text


def _replaced(pattern: str, value: str, text: str) -> str:
    """What follows the pattern's first group, replaced."""
    text, count = re.subn(pattern, rf"\g<1>{value}", text)
    if count != 1:
        raise UserError(f"model.c has {count} places like {pattern}; compile it again")
    return text


def _with_limits(limits: Mapping[str, int], folder: Path) -> tuple[Path, ...]:
    """A folder whose refold/facts.h has other limits, to be searched first."""
    text = (firmware_dir() / "include/refold/facts.h").read_text()
    for name, value in limits.items():
        macro = f"REFOLD_{name.upper()}"
        text, count = re.subn(rf"(#define {macro}\s+)\S+", rf"\g<1>{value}", text)
        if count != 1:
            raise UserError(f"facts.toml has no limit {name}")
    (folder / "refold").mkdir()
    (folder / "refold/facts.h").write_text(text)
    return (folder,)
