"""Lint, format, types and generated files are part of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = {
    "lint": [sys.executable, "-m", "ruff", "check", "--no-cache", "."],
    "format": [sys.executable, "-m", "ruff", "format", "--no-cache", "--check", "."],
    "types": [sys.executable, "-m", "mypy"],
    "generated files": [sys.executable, "firmware/generate.py", "--check"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_tool_finds_nothing(name: str, repo_root: Path) -> None:
    """Each tool ends without a complaint."""
    done = subprocess.run(
        COMMANDS[name], cwd=repo_root, capture_output=True, text=True, check=False
    )
    assert 0 == done.returncode, done.stdout + done.stderr
