"""One file over HTTP: resumed where it broke off, checked, never half in place.

What has come lies beside the target as ``NAME.part``. A server that cannot give the
rest sends all of it anew.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any, cast

from refold.errors import InfraError, UserError

WAIT_S = 30.0
"""Longest silence of the server."""
TRIES = 5
"""In turn without a byte; any byte begins to count anew."""
CHUNK_BYTES = 1 << 18
_PAUSE_S = 0.5
_AGENT = "refold-data-fetch"

Progress = Callable[[int, int | None], None]
"""Called with the bytes present and the size, None where it is unknown."""

_logger = logging.getLogger(__name__)


def download(
    url: str,
    target: Path,
    *,
    size: int | None = None,
    md5: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Fetch ``url`` to ``target``, going on from what an earlier call left.

    Args:
        url: http or https.
        target: Its folder exists.
        size: Expected bytes; None takes what comes.
        md5: Expected checksum; None checks none.
        progress: Told about bytes.

    Raises:
        UserError: There is no such file, no network, no room, or what came is not
            what was expected.
        InfraError: The server broke off again and again; what came is kept.
    """
    part = target.with_name(f"{target.name}.part")
    _fetch_all(url, part, size, progress)
    found = part.stat().st_size
    if size is not None and found != size:
        part.unlink()
        raise UserError(
            f"{url}: {found} bytes came, expected {size}; the file there is another "
            "one: try again later, or get it by hand"
        )
    if md5 is not None:
        _verify(url, part, md5)
    part.replace(target)


def _fetch_all(
    url: str, part: Path, size: int | None, progress: Progress | None
) -> None:
    """Ask for what is missing until nothing is."""
    failures = 0
    while size is None or _present(part) < size:
        before = _present(part)
        try:
            if _fetch_rest(url, part, size, progress):
                return
            why: object = "the connection was closed"
        except (OSError, HTTPException) as error:
            _raise_if_final(url, part, error)
            why = error
        failures = 1 if _present(part) > before else failures + 1
        if failures >= TRIES:
            raise InfraError(
                f"{url}: broke off {TRIES} times in turn ({why}); {_present(part)} "
                f"bytes are kept in {part}: the same command goes on from there"
            )
        _logger.info("%s: broke off (%s), going on", url, why)
        time.sleep(_PAUSE_S)


def _present(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _fetch_rest(
    url: str, part: Path, size: int | None, progress: Progress | None
) -> bool:
    """One request; returns whether all of its answer has come."""
    start = _present(part)
    headers = {"User-Agent": _AGENT}
    if start:
        headers["Range"] = f"bytes={start}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310  # ours
    with urllib.request.urlopen(request, timeout=WAIT_S) as opened:  # noqa: S310
        response = cast("HTTPResponse", opened)
        if start and not _continues(response, start):
            _logger.info("%s: the server gives no part, all comes anew", url)
            start = 0
        announced = response.headers["Content-Length"]
        total = size if announced is None else start + int(announced)
        check_room(part.parent, (total or start) - start)
        with part.open("ab" if start else "wb") as file:
            _copy(response, file, total, progress)
            return total is None or file.tell() >= total


def _continues(response: HTTPResponse, start: int) -> bool:
    """Whether the answer begins at byte ``start``."""
    given = response.headers["Content-Range"] or ""
    return response.status == 206 and given.startswith(f"bytes {start}-")


def _copy(
    response: HTTPResponse,
    file: IO[bytes],
    total: int | None,
    progress: Progress | None,
) -> None:
    while chunk := response.read1(CHUNK_BYTES):
        file.write(chunk)
        if progress is not None:
            progress(file.tell(), total)


def check_room(folder: Path, needed: int) -> None:
    """See that a disk holds ``needed`` bytes more.

    Raises:
        UserError: It does not.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(
            f"{folder}: {needed / 1e9:.1f} GB are needed, the disk has "
            f"{free / 1e9:.1f} GB free; make room, or choose another folder with -o"
        )


def _raise_if_final(url: str, part: Path, error: BaseException) -> None:
    """Raise where asking again does not help."""
    if isinstance(error, urllib.error.HTTPError):
        _raise_for_status(url, part, error)
    elif isinstance(error, urllib.error.URLError):
        raise UserError(
            f"{url}: cannot be reached ({error.reason}); connect this computer to the "
            f"network (https_proxy names a proxy), or copy the file to "
            f"{part.with_suffix('')} by hand and run the command again"
        ) from None
    elif isinstance(error, OSError) and (
        error.filename is not None or error.errno == errno.ENOSPC
    ):
        raise UserError(
            f"cannot write {part}: {error.strerror}; choose another folder with -o"
        ) from None


def _raise_for_status(url: str, part: Path, error: urllib.error.HTTPError) -> None:
    error.close()
    if error.code == 416:  # what is kept is longer than the file, or all of it
        part.unlink(missing_ok=True)
    elif error.code < 500 and error.code not in (408, 429):
        raise UserError(
            f"{url}: the server answers {error.code} {error.reason}; the file has "
            "moved: get it by hand (docs/data.md), and report this"
        ) from None


def _verify(url: str, part: Path, md5: str) -> None:
    found = md5_of(part)
    if found != md5:
        part.unlink()
        raise UserError(
            f"{url}: what came has MD5 {found}, expected {md5}; it was damaged on its "
            "way or changed at its source, and has been removed: run the command again"
        )


def md5_of(path: Path) -> str:
    """Return a file's MD5, which Zenodo and others publish; it guards no secret."""

    def new() -> Any:
        return hashlib.md5(usedforsecurity=False)

    with path.open("rb") as file:
        return hashlib.file_digest(file, new).hexdigest()
