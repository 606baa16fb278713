"""Figures that outlive the command that found them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from refold.errors import UserError
from refold.files import write_text


class Measured:
    """What has been measured, kept in a JSON file so that a command can go on.

    Args:
        path: Of the file; None keeps nothing.
        subject: What the figures are of. A file of another subject is refused.
    """

    def __init__(self, path: Path | None, subject: Mapping[str, Any]) -> None:
        self._path = path
        self._kept: dict[str, Any] = {"subject": dict(subject), "figures": {}}
        if path is not None and path.exists():
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["subject"] != self._kept["subject"]:
                raise UserError(
                    f"{path} has figures of {kept['subject']}, and these would be of "
                    f"{dict(subject)}; name another file"
                )
            self._kept = kept

    def get(self, key: str, measure: Callable[[], Any]) -> Any:
        """The figure of ``key``: known, or measured now and kept."""
        figures = self._kept["figures"]
        if key not in figures:
            figures[key] = measure()
            if self._path is not None:
                write_text(self._path, json.dumps(self._kept, indent=1))
        return figures[key]
