"""Imports: no cycles, the compiler knows nothing of the host, one place prints."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGES = {"refoldc": "compiler", "refold": "host"}


def modules(repo_root: Path) -> dict[str, Path]:
    """Return every module of both packages by dotted name."""
    found = {}
    for package, folder in PACKAGES.items():
        base = repo_root / folder
        for path in (base / package).rglob("*.py"):
            parts = path.relative_to(base).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = path
    return found


def imported(path: Path) -> Iterator[str]:
    """Yield what a module imports at run time, as dotted names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in _run_time_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _run_time_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _run_time_nodes(node)


def test_imports_have_an_order(repo_root: Path) -> None:
    """Modules can be listed so that each imports only those above it."""
    known = modules(repo_root)
    graph = {
        name: {target for target in imported(path) if target in known} - {name}
        for name, path in known.items()
        if path.name != "__init__.py"
    }
    list(TopologicalSorter(graph).static_order())  # raises CycleError


def test_the_compiler_does_not_know_the_host(repo_root: Path) -> None:
    """``refoldc`` imports nothing of ``refold``."""
    for name, path in modules(repo_root).items():
        if name.split(".")[0] == "refoldc":
            roots = {target.split(".")[0] for target in imported(path)}
            assert "refold" not in roots, name


@pytest.mark.parametrize("library", ["click", "rich"])
def test_only_the_command_line_talks_to_the_terminal(
    library: str, repo_root: Path
) -> None:
    """``click`` stays in the command line, ``rich`` there and in the console."""
    allowed = ("refold.cli", "refold.console") if library == "rich" else ("refold.cli",)
    users = {
        name
        for name, path in modules(repo_root).items()
        if library in {target.split(".")[0] for target in imported(path)}
    }
    assert set() == {name for name in users if not name.startswith(allowed)}
