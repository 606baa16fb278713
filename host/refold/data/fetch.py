"""``refold data fetch``: a public data set, downloaded, checked and unpacked."""

from __future__ import annotations

import tarfile
import tempfile
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import msgspec

from refold.data.download import WAIT_S, Progress, check_room, download, md5_of
from refold.data.sources import Source
from refold.errors import UserError
from refold.watch import Watch


class _File(msgspec.Struct, frozen=True):
    key: str
    size: int
    checksum: str


class _Record(msgspec.Struct, frozen=True):
    """What Zenodo says of a record's files."""

    files: tuple[_File, ...]


def fetch(
    source: Source, folder: Path, *, watch: Watch, progress: Progress | None = None
) -> Path:
    """Bring a data set into ``folder``; what is there already is kept.

    Args:
        source: Which.
        folder: Made where it is missing.
        watch: Told what is done.
        progress: Told about bytes.

    Returns:
        The folder that a data spec names.

    Raises:
        UserError: No network, no room, or what came is not what was expected.
        InfraError: The server broke off again and again.
    """
    unpacked = folder / source.folder
    if unpacked.is_dir():
        watch.stage(f"{unpacked} is there already")
        return unpacked
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"cannot make {folder}: {error.strerror}; choose another place with -o"
        ) from None
    archive = folder / source.file
    source = _with_checksum(source)
    part = archive.with_name(f"{archive.name}.part")
    have = next((p.stat().st_size for p in (archive, part) if p.exists()), 0)
    check_room(folder, (source.bytes or 0) - have + source.unpacked_bytes)
    if not archive.exists():
        watch.stage(f"downloading {source.url}")
        download(
            source.url, archive, size=source.bytes, md5=source.md5, progress=progress
        )
    elif md5_of(archive) != source.md5:
        raise UserError(
            f"{archive} is not the official file: its MD5 is {md5_of(archive)}, "
            f"expected {source.md5}; remove it and run the command again"
        )
    watch.stage(f"unpacking {archive}")
    _unpack(archive, source.folder, folder)
    archive.unlink()
    return unpacked


def _with_checksum(source: Source) -> Source:
    """Ask the record for what is not known beforehand."""
    if source.md5 is not None or source.record is None:
        return source
    try:
        answered = urllib.request.urlopen(source.record, timeout=WAIT_S)  # noqa: S310
        with answered as answer:
            record = msgspec.json.decode(answer.read(), type=_Record)
        file = next(file for file in record.files if file.key == source.file)
        kind, _, md5 = file.checksum.partition(":")
    except urllib.error.URLError as error:
        raise UserError(
            f"{source.record}: cannot be reached ({error.reason}); connect this "
            "computer to the network (https_proxy names a proxy), then run again"
        ) from None
    except (OSError, msgspec.MsgspecError, StopIteration) as error:
        raise UserError(
            f"{source.record}: is no record of {source.file} ({error}); get the file "
            "by hand (docs/data.md), and report this"
        ) from None
    return replace(source, bytes=file.size, md5=md5 if kind == "md5" else None)


def _unpack(archive: Path, name: str, folder: Path) -> None:
    """Unpack beside the place and rename: the folder is whole or not there."""
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder) as beside:
        try:
            with tarfile.open(archive) as files:
                files.extractall(beside, filter="data")
            (Path(beside) / name).rename(folder / name)
        except (OSError, tarfile.TarError, EOFError) as error:
            raise UserError(
                f"{archive} cannot be unpacked ({error}); make room, or remove it and "
                "run the command again"
            ) from None
