"""The README's C works as it stands."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np

from refoldc import compile_model

from refold.data import load_data
from refold.resources import bundled_model

FENCE = re.compile(r"^```c\n(.*?)^```", re.MULTILINE | re.DOTALL)
BUILD = re.compile(r"^cc (?:.*\\\n)+.*\n", re.MULTILINE)
MAIN = """
#include <stdio.h>
int classify(const uint8_t *pixels);
int main(void)
{
    static uint8_t pixels[REFOLD_MODEL_INPUT_BYTES];
    while (fread(pixels, 1, sizeof pixels, stdin) == sizeof pixels)
        printf("%d ", classify(pixels));
    return 0;
}
"""


def test_the_example_compiles_and_classifies(repo_root: Path, tmp_path: Path) -> None:
    """Built by the README's command it says what the model says."""
    readme = (repo_root / "README.md").read_text(encoding="utf-8")
    (example,), (build,) = FENCE.findall(readme), BUILD.findall(readme)
    (tmp_path / "main.c").write_text(example + MAIN, encoding="utf-8")
    (tmp_path / "firmware").symlink_to(repo_root / "firmware")
    artefact = tmp_path / "model.refold"
    digits = load_data("digits", split="train", limit=64)
    compile_model(bundled_model(), digits.images, artefact)
    with np.load(artefact / "golden.npz") as golden:
        images, logits = golden["input"], golden[golden.files[-1]]
    strict = build.replace("cc ", "cc -Wall -Wextra -Wpedantic -Werror ", 1)
    subprocess.run(["sh", "-ec", strict], cwd=tmp_path, check=True)
    answer = subprocess.run(
        [tmp_path / "app"],
        input=images[:1].tobytes(),
        check=True,
        capture_output=True,
    )
    assert [int(logits[0].argmax())] == [int(n) for n in answer.stdout.split()]
