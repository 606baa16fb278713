"""Writing files so that they are never half there."""

from __future__ import annotations

import os
from pathlib import Path

from refold.errors import UserError


def check_place(path: Path) -> None:
    """Find out, before the work, whether :func:`write_text` can write there.

    Raises:
        UserError: It cannot.
    """
    _write(path, text=None)


def write_text(path: Path, text: str) -> None:
    """Write a file beside its place and rename it, so that it is never half there.

    Raises:
        UserError: The place cannot be written.
    """
    _write(path, text)


def _write(path: Path, text: str | None) -> None:
    """Do all of it, or without a text all but the renaming."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            beside.write_text(text or "", encoding="utf-8")
            if text is not None:
                beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except FileExistsError as error:  # of a folder that is to be made
        raise UserError(
            f"cannot write {path}: {error.filename} is a file; choose another place"
        ) from None
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}; choose another place"
        ) from None
