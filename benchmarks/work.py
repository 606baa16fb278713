"""Measurements that take long: kept until something that they depend on changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from refoldc.artefact import Artefact, load_artefact

from refold.files import write_text

ROOT = Path(__file__).resolve().parent.parent

Value = TypeVar("Value")


@dataclass(frozen=True)
class Work:
    """A folder of them; a command that is ended goes on there when run again.

    A file holds one value, and what it depends on, whose hash is in its name.
    """

    folder: Path

    def recall(
        self,
        name: str,
        depends: Mapping[str, Any],
        kind: type[Value],
        make: Callable[[], Value],
    ) -> Value:
        """Return what is kept under these dependences, or make and keep it.

        Args:
            name: For people who look into the folder.
            depends: Everything that the value follows from, as JSON has it.
            kind: Of the value, as msgspec reads it.
            make: Measures it.
        """
        path = self.folder / f"{_file_name(name, depends)}.json"
        if path.exists():
            return msgspec.convert(
                msgspec.json.decode(path.read_bytes())["value"], kind
            )
        value = make()
        text = msgspec.json.encode({"depends": depends, "value": value})
        write_text(path, msgspec.json.format(text, indent=1).decode() + "\n")
        return value

    def artefact(
        self, name: str, depends: Mapping[str, Any], make: Callable[[Path], Artefact]
    ) -> Artefact:
        """As :meth:`recall`, of an artefact, which ``make`` compiles into a folder."""
        path = self.folder / _file_name(name, depends)
        return load_artefact(path) if path.exists() else make(path)


def _file_name(name: str, depends: Mapping[str, Any]) -> str:
    words = "".join(c if c.isalnum() else "-" for c in name)
    encoded = msgspec.json.encode(depends, order="deterministic")
    return f"{words}-{hashlib.sha256(encoded).hexdigest()[:16]}"


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def source_hash(*places: str) -> str:
    """SHA-256 of sources: files of the repository, and all that folders hold."""
    digest = hashlib.sha256()
    for path in _files(ROOT / place for place in places):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files(places: Iterable[Path]) -> list[Path]:
    """Without what Python compiles beside them."""
    found = []
    for place in places:
        inside = place.rglob("*") if place.is_dir() else [place]
        found += [p for p in inside if p.is_file() and "__pycache__" not in p.parts]
    return sorted(found)
