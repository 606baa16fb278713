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


@pytest.fixture
def user_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the place of a user board file of this test's own, still empty."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "refold" / "boards.toml"
