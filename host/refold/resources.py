"""Where the files that come with refold lie.

A wheel carries them in ``refold/_data``; a checkout, an unpacked sdist and an
editable install use the repository itself. Both have the same layout below.
"""

from __future__ import annotations

from pathlib import Path

from refold.errors import UserError

_PACKAGED = Path(__file__).resolve().parent / "_data"
_REPOSITORY = Path(__file__).resolve().parents[2]


def firmware_dir() -> Path:
    """The firmware's sources: ``include``, ``src`` and ``ports``."""
    return resource("firmware")


def boards_dir() -> Path:
    """The board files."""
    return resource("boards")


def bundled_model() -> Path:
    """The ONNX file of the network that ``refold demo`` compiles."""
    return resource("models/digits.onnx")


def resource(relative: str) -> Path:
    """Return the path of a bundled file or folder.

    Raises:
        UserError: It is missing, so the installation is damaged.
    """
    root = _PACKAGED if _PACKAGED.is_dir() else _REPOSITORY
    path = root / relative
    if not path.exists():
        raise UserError(
            f"{path} is missing: it belongs to refold's installation; "
            "reinstall refold (pip install --force-reinstall refold)"
        )
    return path
