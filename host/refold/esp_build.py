"""Builds firmware with ESP-IDF: by ``idf.py``, or by PlatformIO, which brings it.

A build's folder, ``DIR/build/BOARD``, gets the settings first, then the images and
``flash.json``, which says where in flash they belong.
"""

from __future__ import annotations

import hashlib
import logging
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from refoldc.artefact import load_artefact

from refold.boards import Board
from refold.errors import UserError
from refold.esp_project import (
    CMAKE_PROJECT,
    PARTITION_TABLE_OFFSET,
    PLATFORM,
    app_offset,
    nvs_bytes,
    render_header,
    render_partitions,
    render_platformio,
    render_sdkconfig,
)
from refold.esp_tool import Tool, find_tool
from refold.images import FlashImages, Image, read_images, write_images
from refold.placement import Placement, place
from refold.resources import firmware_dir

HASH_DIGITS = 16
APP = "refold.bin"
BOOTLOADER, PARTITION_TABLE = "bootloader.bin", "partition-table.bin"
_SHOWN_LINES = 20
_OFFLINE = "HTTPClientError"
"""All that PlatformIO says where it cannot download."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Project:
    """A build whose settings are written.

    Attributes:
        directory: ``DIR/build/BOARD``, absolute.
        build_hash: 16 hexadecimal digits, which the firmware will report.
        placement: Of the model.
        defaults: Files of settings; the later win.
    """

    directory: Path
    build_hash: str
    placement: Placement
    defaults: tuple[Path, ...]

    @property
    def sdkconfig(self) -> Path:
        """What ESP-IDF makes of the defaults."""
        return self.directory / "sdkconfig"

    def definitions(self) -> tuple[str, ...]:
        """What CMake needs to know."""
        defaults = ";".join(path.as_posix() for path in self.defaults)
        return (
            f"-DREFOLD_CONFIG={self.directory.as_posix()}",
            f"-DSDKCONFIG_DEFAULTS={defaults}",
        )


def port_dir() -> Path:
    """ESP-IDF's project; the component is in ``main``."""
    return firmware_dir() / "ports" / "esp_idf"


def build_images(artefact: Path, board: Board) -> FlashImages:
    """Build firmware for a board; leaves the images and ``flash.json``.

    Args:
        artefact: Compiled model directory.
        board: Of kind ``esp_idf``.

    Raises:
        RefoldcError: The model is none, or the board cannot hold it.
        UserError: There is no tool, or it fails.
    """
    compiled = load_artefact(artefact)
    placement = place(compiled.qgraph, board, search=compiled.manifest.search)
    tool = find_tool()
    project = prepare(artefact, board, placement, tool.kind)
    made = _up_to_date(project)
    if made is None:
        build = _by_idf if tool.kind == "idf.py" else _by_platformio
        made = _collect(project, board, build(tool, project, board))
    return made


def _up_to_date(project: Project) -> FlashImages | None:
    """The images of an earlier build that was the same."""
    try:
        images = read_images(project.directory)
    except UserError:
        return None
    return images if images.build_hash == project.build_hash else None


# --- settings ----------------------------------------------------------------


def prepare(artefact: Path, board: Board, placement: Placement, kind: str) -> Project:
    """Write the settings of a build.

    Args:
        artefact: Compiled model directory.
        board: To build for.
        placement: Of the model on it.
        kind: What builds: equal hashes mean equal builders, too.
    """
    directory = (artefact / "build" / board.id).resolve()
    partitions = directory / "partitions.csv"
    table = render_partitions(placement, board.memory.flash_bytes or 0)
    settings = render_sdkconfig(board, placement, partitions)
    port = port_dir()
    psram = (port / "sdkconfig.psram",) if board.memory.psram_bytes else ()
    defaults = (port / "sdkconfig.defaults", *psram)
    placeless = settings.replace(directory.as_posix(), "")
    texts = (kind, PLATFORM, table, placeless, render_header(placement, ""))
    build_hash = _hash((*_sources(artefact), *defaults), texts)
    directory.mkdir(parents=True, exist_ok=True)
    own = directory / "sdkconfig.refold"
    changed = _write(own, settings)
    _write(partitions, table)
    _write(directory / "refold_build.h", render_header(placement, build_hash))
    project = Project(directory, build_hash, placement, (*defaults, own))
    if changed:  # ESP-IDF prefers what it made of older defaults
        project.sdkconfig.unlink(missing_ok=True)
    return project


def _sources(artefact: Path) -> Iterator[Path]:
    """Everything that is compiled, or says how."""
    firmware = firmware_dir()
    for folder in (firmware / "include", firmware / "src", port_dir() / "main"):
        yield from sorted(path for path in folder.rglob("*") if path.is_file())
    yield artefact / "model.c"
    yield artefact / "model.h"


def _hash(paths: Sequence[Path], texts: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode() + b"\0")
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:HASH_DIGITS]


def _write(path: Path, text: str) -> bool:
    """Write what differs; tell whether it did. Nothing is built for nothing."""
    content = text.encode()
    if path.is_file() and path.read_bytes() == content:
        return False
    unfinished = path.with_name(f"unfinished-{path.name}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
    return True


# --- builds ------------------------------------------------------------------


class _FlasherArgs(msgspec.Struct, frozen=True):
    """flasher_args.json, which ESP-IDF leaves beside its images."""

    flash_files: dict[str, str]


def _by_idf(tool: Tool, project: Project, board: Board) -> Mapping[int, Path]:
    folder = project.directory / "idf"
    definitions = (*project.definitions(), f"-DSDKCONFIG={project.sdkconfig}")
    _run(
        [
            *(*tool.command, "-C", str(port_dir()), "-B", str(folder)),
            *(f"-DIDF_TARGET={board.chip}", *definitions, "build"),
        ],
        project,
    )
    content = (folder / "flasher_args.json").read_bytes()
    files = msgspec.json.decode(content, type=_FlasherArgs).flash_files
    return {int(offset, 0): folder / name for offset, name in files.items()}


def _by_platformio(tool: Tool, project: Project, board: Board) -> Mapping[int, Path]:
    folder = project.directory / "project"
    folder.mkdir(exist_ok=True)
    _write(folder / "CMakeLists.txt", CMAKE_PROJECT)
    _write(
        folder / "platformio.ini",
        render_platformio(
            board,
            sources=port_dir() / "main",
            sdkconfig=project.sdkconfig,
            partitions=project.directory / "partitions.csv",
            cmake=shlex.join(project.definitions()),
        ),
    )
    _run([*tool.command, "run", "-d", str(folder)], project)
    built = folder / ".pio" / "build" / board.toolchain.env
    app = app_offset(nvs_bytes(project.placement.memory.record_bytes))
    return {
        0: built / "bootloader.bin",
        PARTITION_TABLE_OFFSET: built / "partitions.bin",
        app: built / "firmware.bin",
    }


def _run(command: Sequence[str], project: Project) -> None:
    """Run a build; its output goes to a file, of which the end is shown."""
    log = project.directory / "build.log"
    _logger.info("building with %s; its output: %s", command[0], log)
    _logger.debug("%s", shlex.join(command))
    with log.open("wb") as output:
        result = subprocess.run(
            command, stdout=output, stderr=subprocess.STDOUT, check=False
        )
    if result.returncode != 0:
        text = log.read_text(errors="replace").strip()
        what = "correct what it says"
        if _OFFLINE in text:
            what = "its first build downloads ESP-IDF: connect to the internet"
        raise UserError(
            f"building failed: {Path(command[0]).name} exited with "
            f"{result.returncode}; {what} (all of it is in {log}):\n"
            + "\n".join(text.splitlines()[-_SHOWN_LINES:])
        )


def _collect(project: Project, board: Board, built: Mapping[int, Path]) -> FlashImages:
    """Copy the images to where flash.json names them."""
    names = {0: BOOTLOADER, PARTITION_TABLE_OFFSET: PARTITION_TABLE}
    images = []
    for offset, source in sorted(built.items()):
        name = names.get(offset, APP)
        unfinished = project.directory / f"unfinished-{name}"
        shutil.copyfile(source, unfinished)
        unfinished.replace(project.directory / name)
        images.append(Image(offset=offset, file=name))
    made = FlashImages(
        chip=board.chip, build_hash=project.build_hash, images=tuple(images)
    )
    write_images(project.directory, made)
    return made
