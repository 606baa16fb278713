"""docs/integrate.md: its commands run, its builds build, its C compiles."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cbuild import IEEE, STRICT

from refoldc import compile_model

from refold.cli import status
from refold.data import load_data
from refold.resources import bundled_model

MAIN = """
#include <stdio.h>
#include "model.h"
int network_start(void);
int network_classify(const uint8_t *pixels);
int main(void)
{
    static uint8_t pixels[REFOLD_MODEL_INPUT_BYTES];
    if (network_start() < 0)
        return 1;
    while (fread(pixels, 1, sizeof pixels, stdin) == sizeof pixels)
        printf("%d ", network_classify(pixels));
    return 0;
}
"""


def blocks(repo_root: Path, language: str) -> list[str]:
    """Return the fenced texts of a language, in order."""
    text = (repo_root / "docs/integrate.md").read_text(encoding="utf-8")
    fence = re.compile(rf"^```{language}\n(.*?)^```", re.MULTILINE | re.DOTALL)
    return fence.findall(text)


@pytest.fixture(scope="module")
def project(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a compiled model, its export by the document's command,
    and a program around the document's C.
    """
    folder = tmp_path_factory.mktemp("project")
    digits = load_data("digits", split="train", limit=64)
    compile_model(bundled_model(), digits.images, folder / "model.refold")
    command = blocks(repo_root, "sh")[0].split()
    assert ["refold", "export", "model.refold", "-o", "my_model"] == command
    model, out = str(folder / "model.refold"), str(folder / "my_model")
    assert 0 == status(["export", model, "-o", out])
    (folder / "main.c").write_text(blocks(repo_root, "c")[0] + MAIN, encoding="utf-8")
    return folder


def check_program(program: Path, project: Path) -> None:
    """It answers with the class of the golden image."""
    with np.load(project / "model.refold/golden.npz") as golden:
        image, logits = golden["input"][0], golden[golden.files[-1]][0]
    done = subprocess.run(
        [program], input=image.tobytes(), capture_output=True, check=True
    )
    assert [int(logits.argmax())] == [int(word) for word in done.stdout.split()]


def test_the_example_is_built_as_described(repo_root: Path, project: Path) -> None:
    """The second shell block, word for word."""
    done = subprocess.run(
        ["sh", "-ec", blocks(repo_root, "sh")[1]],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (0, "PASS") == (done.returncode, done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.skipif(
    shutil.which("make") is None and not os.environ.get("CI"), reason="no make on PATH"
)
def test_the_makefile_builds(repo_root: Path, project: Path) -> None:
    """As it stands, around the C of section 5."""
    (project / "Makefile").write_text(blocks(repo_root, "make")[0], encoding="utf-8")
    subprocess.run(["make", "-s", "app"], cwd=project, check=True)
    check_program(project / "app", project)


@pytest.mark.skipif(
    shutil.which("cmake") is None and not os.environ.get("CI"),
    reason="no cmake on PATH",
)
def test_the_cmake_lines_build(repo_root: Path, project: Path) -> None:
    """In a project that has the program already."""
    lines = "cmake_minimum_required(VERSION 3.16)\nproject(app C)\n"
    lines += "add_executable(app main.c)\n" + blocks(repo_root, "cmake")[1]
    (project / "CMakeLists.txt").write_text(lines, encoding="utf-8")
    for command in (["-S", ".", "-B", "build"], ["--build", "build"]):
        subprocess.run(
            ["cmake", *command], cwd=project, check=True, capture_output=True
        )
    check_program(project / "build/app", project)


@pytest.mark.parametrize("number", range(3))
def test_each_snippet_compiles(number: int, repo_root: Path, project: Path) -> None:
    """By itself, without a warning."""
    snippets = blocks(repo_root, "c")
    assert 3 == len(snippets)
    source = project / f"snippet{number}.c"
    source.write_text(snippets[number], encoding="utf-8")
    model = project / "my_model"
    folders = [f"-I{model / 'include'}", f"-I{model}"]
    command = ["cc", *IEEE, *STRICT, *folders, "-c", source, "-o", f"{source}.o"]
    subprocess.run(command, check=True)


def test_every_failure_of_the_runtime_is_explained(repo_root: Path) -> None:
    """The table names each status that the exported API returns."""
    text = (repo_root / "docs/integrate.md").read_text(encoding="utf-8")
    table = set(re.findall(r"^\| `(REFOLD_ERROR_\w+)`", text, re.MULTILINE))
    headers = (
        repo_root / "firmware/include/refold" / n for n in ("refold.h", "adapt.h")
    )
    returned = {
        name
        for header in headers
        for name in re.findall(r"REFOLD_ERROR_\w+", header.read_text(encoding="utf-8"))
    }
    assert returned == table
