"""The emitted model with its runtime as one folder for other people's firmware.

An ESP-IDF component, a plain CMake library, or sources for any other build; building
it needs a C compiler and nothing else. Equal artefacts give equal bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from numpy.typing import NDArray

from refoldc.artefact import (
    GOLDEN,
    GOLDEN_INPUT,
    Artefact,
    check_place,
    load_artefact,
    replacing,
    unwritable,
)
from refoldc.ctext import c_array, c_comment
from refoldc.memory import measure
from refoldc.plan import plan
from refoldc.version import VERSION

from refold.errors import UserError
from refold.esp_project import APP_ALIGNMENT, NVS_LEAST_BYTES, app_offset
from refold.resources import firmware_dir, resource

MARK = "Written by 'refold export'"
"""Stands in the component's manifest; what lacks it is not ours to replace."""
MANIFEST = "idf_component.yml"
EXAMPLE_BYTES = 512 * 1024
"""Allowed for the example beside the network's constants: ESP-IDF, the runtime and the
golden inputs."""
GOLDEN_BYTES = 64 * 1024
"""Of inputs in the example; more would not fit beside it in small flashes."""

_ELSEWHERE = ("link", "mlperf", "x86")
"""Folders of sources that belong to refold's own firmware and to other machines."""
_HEADERS = ("adapt", "arena", "facts", "kernels", "model", "refold", "status")


def export(directory: Path, out: Path, *, force: bool = False) -> None:
    """Write the component of a compiled model to ``out``.

    Args:
        directory: The compiled model.
        out: Replaced as a whole where it is an earlier export.
        force: Replace it, too, where it is something else.

    Raises:
        RefoldcError: ``directory`` holds no compiled model.
        UserError: ``out`` is in the way, or cannot be written.
    """
    artefact = load_artefact(directory)
    try:
        check_place(out)
        _check_replaceable(out, force=force)
        with replacing(out) as folder:
            _copy_sources(artefact, folder)
            _write_texts(artefact, folder)
    except OSError as error:
        raise UserError(unwritable(out, error)) from error


def _check_replaceable(out: Path, *, force: bool) -> None:
    if not out.exists():
        return
    if not out.is_dir():
        raise UserError(f"{out} is a file, expected a folder to write; choose another")
    manifest = out / MANIFEST
    ours = manifest.is_file() and MARK in manifest.read_text("utf-8", "replace")
    if any(out.iterdir()) and not ours and not force:
        raise UserError(
            f"{out} is not empty and no earlier export; choose another folder, or "
            "replace all of it with --force"
        )


# --- sources -------------------------------------------------------------------


def _copy_sources(artefact: Artefact, folder: Path) -> None:
    firmware = firmware_dir()
    for source in runtime_sources():
        _copy(source, folder / source.relative_to(firmware))
    for name in ("model.c", "model.h"):
        _copy(artefact.path / name, folder / name)
    _copy(resource("LICENSE"), folder / "LICENSE")


def runtime_sources() -> tuple[Path, ...]:
    """What a model needs of the firmware: no link, no port, no other machine's code."""
    firmware = firmware_dir()
    headers = [firmware / f"include/refold/{name}.h" for name in _HEADERS]
    sources = (firmware / "src").rglob("*.[ch]")
    own = [path for path in sources if path.parent.name not in _ELSEWHERE]
    return (*headers, *sorted(own))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


# --- texts ---------------------------------------------------------------------


def _write_texts(artefact: Artefact, folder: Path) -> None:
    templates = Environment(
        loader=PackageLoader("refold", "templates/component"),
        autoescape=False,  # noqa: S701 - none of this is HTML
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    files = sorted(path.relative_to(folder) for path in folder.rglob("src/**/*.c"))
    simd = [path for path in files if path.parent.name == "esp32s3"]
    facts = {
        "mark": MARK,
        "version": VERSION,
        "manifest": artefact.manifest,
        "name": c_comment(artefact.manifest.model.name),
        "sources": [path.as_posix() for path in files if path not in simd],
        "simd_sources": [path.as_posix() for path in simd],
        **_example_flash(artefact),
    }
    for name in templates.list_templates():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = templates.get_template(name).render(facts)
        target.write_text(text, encoding="utf-8", newline="\n")
    golden = "".join(render_golden(artefact))
    (folder / "examples/main/golden.h").write_text(golden, "ascii", newline="\n")


def _example_flash(artefact: Artefact) -> dict[str, int]:
    """Flash of the example: its application's partition, and the least chip with it."""
    graph = artefact.qgraph
    constants = measure(graph, plan(graph)).constants(packed=True)
    units = -(-(constants + EXAMPLE_BYTES) // APP_ALIGNMENT)
    offset, size = app_offset(NVS_LEAST_BYTES), units * APP_ALIGNMENT
    flash_mb = 1 << ((offset + size - 1) >> 20).bit_length()
    return {"app_offset": offset, "app_bytes": size, "flash_mb": max(2, flash_mb)}


def render_golden(artefact: Artefact) -> Iterator[str]:
    """``golden.h``: inputs as the device takes them, and what the model answers."""
    with np.load(artefact.path / GOLDEN) as golden:
        inputs: NDArray[np.integer] = golden[GOLDEN_INPUT]
        logits: NDArray[np.integer] = golden[artefact.manifest.layers[-1].name]
    count = max(1, min(len(inputs), GOLDEN_BYTES // inputs[0].size))
    kind = "uint8_t" if inputs.dtype == np.uint8 else "int8_t"
    yield "/* Inputs, and the logits of the host model for them, adaptation off. */\n"
    yield "#ifndef GOLDEN_H\n#define GOLDEN_H\n\n#include <stdint.h>\n\n"
    yield f"#define GOLDEN_IMAGES {count}\n\n"
    yield c_array(kind, "golden_inputs", inputs[:count]) + "\n\n"
    yield c_array("int32_t", "golden_logits", logits[:count]) + "\n\n#endif\n"
