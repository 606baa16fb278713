"""The repository's texts: no machine's paths, one version, no loose ends."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from refoldc.version import VERSION

TEXTS = {".py", ".c", ".h", ".md", ".toml", ".ini", ".html", ".jinja", ".txt", ".S", ""}
FORBIDDEN = {
    "absolute path": re.compile(r"(?<![\w.])/(?:work|root|home|Users|mnt)/\w"),
    "unfinished work": re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b"),
}


def texts(repo_root: Path) -> Iterator[tuple[Path, str]]:
    """Yield every text that git tracks or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=repo_root,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = repo_root / name
        if path.suffix in TEXTS and path.is_file():
            yield path.relative_to(repo_root), path.read_text(encoding="utf-8")


@pytest.mark.parametrize("what", FORBIDDEN)
def test_texts_are_free_of(what: str, repo_root: Path) -> None:
    """No file holds a path of one machine or work left undone."""
    pattern = FORBIDDEN[what]
    found = [
        f"{path}: {match[0]}"
        for path, text in texts(repo_root)
        if path.name != "LICENSE"
        for match in pattern.finditer(text)
    ]
    assert [] == found


def test_the_version_has_one_place(repo_root: Path) -> None:
    """Only version.py and the change log name the version."""
    places = [
        path.as_posix()
        for path, text in texts(repo_root)
        if re.search(rf'["\s]{re.escape(VERSION)}["\s]', text)
        and path.parts[0] != "tests"
    ]
    assert {"CHANGELOG.md", "compiler/refoldc/version.py"} >= set(places)
    assert "compiler/refoldc/version.py" in places


def test_the_change_log_knows_the_version(repo_root: Path) -> None:
    """The newest entry is the present version."""
    log = (repo_root / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", log, flags=re.MULTILINE)
    assert newest is not None
    assert VERSION == newest[1]


def test_core_dependencies_have_lower_bounds_only(repo_root: Path) -> None:
    """An upper bound in a library makes others uninstallable beside it."""
    project = tomllib.loads((repo_root / "pyproject.toml").read_text())["project"]
    assert [] == [
        d for d in project["dependencies"] if not re.fullmatch(r"\w+>=[\d.]+", d)
    ]
