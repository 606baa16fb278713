"""Compiles the firmware and a model for a board.

Objects are named by a hash of all they are made from and shared between
artefacts, so only what changed is compiled. The build hash covers the sources,
the model, the flags and the compiler; the firmware reports it, which is how a
stale board is told.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec
from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from refold.boards import Board
from refold.errors import UserError
from refold.esp_build import APP, build_images
from refold.recipe import Recipe, make_recipe, make_twin_recipe

LOCK_S = 600.0
"""Longest wait for another process that builds the same."""
KEEP_OBJECTS_S = 30 * 24 * 3600.0
_SHOWN_LINES = 12

_logger = logging.getLogger(__name__)

Progress = Callable[[int, int], None]
"""Called with the number of objects ready and their total."""


@dataclass(frozen=True)
class Build:
    """Firmware for a board.

    Attributes:
        executable: The file that runs on the board.
        build_hash: 16 hexadecimal digits; the firmware reports them.
        code_bytes: Machine code without the model's weights; None unknown.
        directory: Where it was built, within the artefact.
        default_sites: Sites that adapt where a mode does not say.
    """

    executable: Path
    build_hash: str
    code_bytes: int | None
    directory: Path
    default_sites: tuple[int, ...]


class _Record(msgspec.Struct, frozen=True):
    """What a finished build leaves beside its executable."""

    build_hash: str
    executable_sha256: str
    code_bytes: int | None


class _Site(msgspec.Struct, frozen=True):
    default_on: bool = True


class _Manifest(msgspec.Struct, frozen=True):
    """What the build needs of refold.json."""

    sites: tuple[_Site, ...]


def build(artefact: Path, board: Board, *, progress: Progress | None = None) -> Build:
    """Build an artefact's firmware; what is up to date is left alone.

    Args:
        artefact: Compiled model directory.
        board: To build for.
        progress: Told about objects.

    Raises:
        UserError: The directory is no artefact or cannot be written, there is no
            compiler, or it refuses a source.
    """
    sites = _default_sites(artefact)
    directory = artefact / "build" / board.id
    suffix = ".exe" if os.name == "nt" else ""
    executable = directory / f"refold-{board.id}{suffix}"
    with _alone_in(directory):
        if board.toolchain.kind == "esp_idf":
            build_hash = build_images(artefact, board).build_hash
            return Build(directory / APP, build_hash, None, directory, sites)
        recipe = make_recipe(artefact, board)
        record = _bring_up_to_date(recipe, executable, progress)
    return Build(executable, record.build_hash, record.code_bytes, directory, sites)


def build_twin(artefact: Path, board: Board) -> Path:
    """Build the library by which the host computes what the firmware does.

    Args:
        artefact: Compiled model directory.
        board: Whose compiler makes it: the native one.

    Raises:
        UserError: As of :func:`build`.
    """
    directory = artefact / "build" / "twin"
    library = directory / f"refold-twin{'.dll' if os.name == 'nt' else '.so'}"
    with _alone_in(directory):
        _bring_up_to_date(make_twin_recipe(artefact, board), library, None)
    return library


@contextlib.contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Make the directory and keep other processes from building in it.

    Raises:
        UserError: One does for too long, or the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with FileLock(directory / ".lock", timeout=LOCK_S):
            yield
    except Timeout:
        raise UserError(
            f"{directory}: another process has been building there for {LOCK_S:g} s; "
            "end it and try again"
        ) from None
    except OSError as error:
        raise UserError(
            f"cannot build in {directory}: {error}; make it a folder that can be "
            "written, with space on its disk"
        ) from error


def _default_sites(artefact: Path) -> tuple[int, ...]:
    try:
        text = (artefact / "refold.json").read_bytes()
        sites = msgspec.json.decode(text, type=_Manifest).sites
    except FileNotFoundError:
        raise UserError(
            f"{artefact} is no compiled model: it has no refold.json; make one with "
            "'refold compile MODEL -o DIR'"
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise UserError(
            f"{artefact} is no compiled model: refold.json cannot be read ({error}); "
            f"make it with 'refold compile MODEL -o {artefact}'"
        ) from None
    return tuple(number for number, site in enumerate(sites) if site.default_on)


def _bring_up_to_date(
    recipe: Recipe, executable: Path, progress: Progress | None
) -> _Record:
    path = executable.with_name("build.json")
    record = _read_record(path)
    fresh = record is not None and record.build_hash == recipe.build_hash
    if record and fresh and _intact(executable, record):
        _logger.info("%s is up to date: build %s", executable, recipe.build_hash)
        return record
    _logger.info("building %s: build %s", executable, recipe.build_hash)
    objects = _compile_all(recipe, executable.parent, progress)
    _link(recipe, objects, executable)
    record = _Record(recipe.build_hash, _sha256(executable), _code_bytes(executable))
    _replace(path, msgspec.json.encode(record))
    return record


def _read_record(path: Path) -> _Record | None:
    """The record of an earlier build; None where there is none that is whole."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Record)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _intact(executable: Path, record: _Record) -> bool:
    """Tell whether it is what was linked, and may be run."""
    runs = os.access(executable, os.X_OK)
    return runs and _sha256(executable) == record.executable_sha256


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# --- objects -----------------------------------------------------------------


def _compile_all(
    recipe: Recipe, directory: Path, progress: Progress | None
) -> list[Path]:
    cache = _object_cache(directory)
    _forget_old(cache)
    objects = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tasks = [
            pool.submit(_compile, recipe, source, cache) for source in recipe.sources
        ]
        try:
            for task in tasks:
                objects.append(task.result())
                if progress:
                    progress(len(objects), len(tasks))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return objects


def _object_cache(directory: Path) -> Path:
    """The user's cache, or ``directory`` where the home folder is read-only."""
    cache = user_cache_path("refold") / "objects"
    with contextlib.suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
    if not os.access(cache, os.W_OK):
        cache = directory / "objects"
        cache.mkdir(exist_ok=True)
    return cache


def _compile(recipe: Recipe, source: Path, cache: Path) -> Path:
    """Return the object of ``source``, compiled unless the cache has it."""
    flags = recipe.source_flags(source)
    obj = cache / f"{recipe.digest([source], *flags)}.o"
    if obj.exists():
        obj.touch()
        _logger.debug("%s: compiled before", source.name)
        return obj
    unfinished = obj.with_suffix(f".{os.getpid()}.tmp")
    include = [f"-I{folder}" for folder in recipe.include]
    _call(
        [*recipe.compiler.command, *flags, *include, "-c", source, "-o", unfinished],
        f"compiling {source.name}",
    )
    unfinished.replace(obj)
    return obj


def _forget_old(cache: Path) -> None:
    """Drop objects that no build has used for long."""
    oldest = time.time() - KEEP_OBJECTS_S
    for path in cache.iterdir():
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except FileNotFoundError:  # another process forgot it first
            continue


def _link(recipe: Recipe, objects: list[Path], executable: Path) -> None:
    compiler = recipe.compiler
    unfinished = executable.with_name(f"unfinished-{executable.name}")
    tail: list[str | Path] = [*compiler.ldflags, "-o", unfinished]
    _call(
        [*compiler.command, *recipe.link_flags, *objects, *tail],
        f"linking {executable.name}",
    )
    unfinished.replace(executable)


def _call(command: Sequence[str | Path], task: str) -> None:
    _logger.debug("%s", shlex.join(map(str, command)))
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines()
        more = len(lines) - _SHOWN_LINES
        shown = lines[:_SHOWN_LINES] + ([f"... {more} more lines"] if more > 0 else [])
        raise UserError(
            f"{task} failed: {Path(command[0]).name} exited with "
            f"{result.returncode}; check the compiler (CC selects another) and the "
            "sources it names:\n" + "\n".join(shown)
        )


def _code_bytes(executable: Path) -> int | None:
    """Size of the machine code, where binutils' ``size`` can tell."""
    tool = shutil.which("size")
    if tool is None:
        return None
    command = [tool, "-A", str(executable)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    for line in result.stdout.splitlines():
        name, *numbers = line.split() or [""]
        if name == ".text":
            return int(numbers[0])
    return None


def _replace(path: Path, content: bytes) -> None:
    unfinished = path.with_name(f"unfinished-{path.name}")
    unfinished.write_bytes(content)
    unfinished.replace(path)
