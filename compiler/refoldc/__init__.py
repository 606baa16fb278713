"""refoldc: from an ONNX network to int8 C that recalibrates itself."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from refoldc.version import VERSION as __version__

if TYPE_CHECKING:
    from refoldc.artefact import load_artefact
    from refoldc.inspection import inspect_model
    from refoldc.options import CompileOptions
    from refoldc.pipeline import compile_model

__all__ = [
    "CompileOptions",
    "__version__",
    "compile_model",
    "inspect_model",
    "load_artefact",
]

_HOMES = {
    "CompileOptions": "options",
    "compile_model": "pipeline",
    "inspect_model": "inspection",
    "load_artefact": "artefact",
}


def __getattr__(name: str) -> Any:
    """Import on first use: ONNX Runtime takes longer than most of its users."""
    if name not in _HOMES:
        raise AttributeError(f"module 'refoldc' has no attribute '{name}'")
    return getattr(import_module(f"refoldc.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return list(__all__)
