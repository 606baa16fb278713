"""Files below a folder or inside a zip, by relative name."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from refold.errors import UserError


class Tree(Protocol):
    """A folder or archive opened for reading."""

    def names(self) -> list[str]:
        """Relative names of all files, with forward slashes, sorted."""

    def read(self, name: str) -> bytes:
        """Contents of one file."""


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> list[str]:
        found = []
        for folder, _, files in os.walk(self._path):
            below = Path(folder).relative_to(self._path)
            found += [(below / name).as_posix() for name in files]
        return sorted(found)

    def read(self, name: str) -> bytes:
        return (self._path / name).read_bytes()


class _Zip:
    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def names(self) -> list[str]:
        return sorted(n for n in self._archive.namelist() if not n.endswith("/"))

    def read(self, name: str) -> bytes:
        return self._archive.read(name)


@contextmanager
def open_tree(path: Path) -> Iterator[Tree]:
    """Open a folder or a zip.

    Raises:
        UserError: The file is no zip.
    """
    if path.is_dir():
        yield _Folder(path)
        return
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise UserError(
            f"{path} cannot be read as a zip ({error}); expected a folder or a zip of "
            "class folders"
        ) from error
    with archive:
        yield _Zip(archive)
