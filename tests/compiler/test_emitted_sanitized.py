"""An emitted network under address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cbuild import RUNTIME_SOURCES, STRICT, compile_c, compilers

from refoldc.artefact import Artefact
from refoldc.pipeline import compile_model

from refold.data import load_data
from refold.resources import bundled_model

GUARDED = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
X86 = ("-march=native", "-DREFOLD_X86")
BUILDS = [
    *((cc, ()) for cc in compilers() if "zig" not in cc),
    # With clang the vector kernels take minutes to compile under sanitizers.
    *((cc, X86) for cc in compilers() if cc == "gcc"),
]
MAIN = """
#include <stdio.h>
#include "model.h"
#include "refold/refold.h"

static REFOLD_ALIGNED uint8_t arena[REFOLD_MODEL_ARENA_BYTES];
static uint8_t images[8][REFOLD_MODEL_INPUT_BYTES];
static int32_t logits[REFOLD_MODEL_OUTPUTS];

int main(void)
{
    size_t count = fread(images, sizeof images[0], 8, stdin);
    refold_adapt_config config;
    refold_ctx *ctx;
    int was_open = 0;

    if (refold_init(&ctx, &refold_model_data, arena, sizeof arena) < 0)
        return 1;
    for (size_t i = 0; i < count; i++) {
        if (refold_infer(ctx, images[i], logits) < 0)
            return 1;
        fwrite(logits, sizeof logits, 1, stdout);
    }
    refold_adapt_defaults(&refold_model_data, &config);
    for (int mode = 0; mode < 4; mode++) {
        config.stats = mode & 1;
        config.gate = mode >> 1;
        if (refold_adapt_set(ctx, &config) < 0)
            return 1;
        refold_adapt_reset(ctx);
        for (size_t i = 0; i < 8 * count; i++) {
            if (refold_infer(ctx, images[i % count], logits) < 0)
                return 1;
            if (i % 40 == 20) /* a shift, which opens the gate, and back */
                for (uint8_t *at = images[0]; at < images[count]; at++)
                    *at ^= 0xFF;
        }
        if (config.gate)
            was_open |= refold_last(ctx)->gate == REFOLD_GATE_OPEN;
    }
    return was_open ? 0 : 2;
}
"""


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """Return the bundled network, compiled."""
    images = load_data("digits", split="train", limit=64).images
    out = tmp_path_factory.mktemp("digits") / "artefact"
    return compile_model(bundled_model(), images, out)


@pytest.mark.parametrize(("cc", "flags"), BUILDS)
def test_sanitizers_are_silent(
    cc: str, flags: tuple[str, ...], digits: Artefact, tmp_path: Path
) -> None:
    """Golden logits, then FORGE gated and not, and not a word on stderr."""
    (tmp_path / "main.c").write_text(MAIN, encoding="utf-8")
    program = compile_c(
        [tmp_path / "main.c", digits.path / "model.c", *RUNTIME_SOURCES],
        tmp_path / "main",
        cc=cc,
        flags=(*STRICT, *GUARDED, *flags),
        include=(digits.path,),
    )
    with np.load(digits.path / "golden.npz") as golden:
        images, logits = golden["input"], golden[golden.files[-1]]
    result = subprocess.run(
        [program],
        input=images.tobytes(),
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
        capture_output=True,
        check=False,
    )
    assert (0, b"") == (result.returncode, result.stderr)
    assert logits.astype("<i4").tobytes() == result.stdout
