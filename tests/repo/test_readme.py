"""README and docs: their commands exist and are what continuous integration runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from commands import accept

from refold.cli.group import COMMANDS, refold

FENCE = re.compile(r"^```(?:sh|bash|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shell_lines(text: str) -> Iterator[str]:
    """Yield the commands of shell blocks, continued lines joined."""
    for block in FENCE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip() and not line.lstrip().startswith("#"):
                yield line.strip().removeprefix("$ ")


def refold_commands(repo_root: Path) -> list[tuple[str, list[str]]]:
    """Return (file, words) of every refold command in README and docs."""
    found = []
    for path in (repo_root / "README.md", *sorted((repo_root / "docs").glob("*.md"))):
        for line in shell_lines(path.read_text(encoding="utf-8")):
            for part in line.split("&&"):
                words = shlex.split(part, comments=True)
                if words and Path(words[0]).name == "refold":
                    found.append((path.name, words[1:]))
    return found


def test_documented_commands_are_accepted(repo_root: Path) -> None:
    """Every command line in README and docs has known options and values."""
    commands = refold_commands(repo_root)
    assert commands
    for _, words in commands:
        accept(words)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    """Each command and each of its options has a help text."""
    command = refold.get_command(click.Context(refold), name)
    assert command is not None
    assert command.get_short_help_str()
    assert command.name == name


def test_every_command_is_in_the_readme(repo_root: Path) -> None:
    """The README names all commands and no other."""
    text = (repo_root / "README.md").read_text(encoding="utf-8")
    table = set(re.findall(r"^\| `refold (\w+)", text, flags=re.MULTILINE))
    assert set(COMMANDS) == table


def test_ci_runs_the_readme_test_command(repo_root: Path) -> None:
    """There is one test command; .ci/run takes it from the README."""
    readme = (repo_root / "README.md").read_text(encoding="utf-8")
    lines = [line for line in shell_lines(readme) if "bin/pytest" in line]
    assert 1 == len(lines)
    assert "README.md" in (repo_root / ".ci" / "run").read_text(encoding="utf-8")
