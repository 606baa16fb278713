"""Fixtures for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """Return the repository's root."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared(repo_root: Path) -> Path:
    """Return the folder of large data beside the repository, or skip."""
    folder = repo_root.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"no data folder at {folder}")
    return folder
