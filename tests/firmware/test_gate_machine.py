"""gate.c against its definition."""

from __future__ import annotations

import ctypes as c
from pathlib import Path

import numpy as np
from cbuild import ROOT, compile_shared
from ctypes_model import Score

from refoldc.gate import GateState, Look, Verdict
from refoldc.recalibrate import score

SOURCES = [ROOT / "firmware/src" / name for name in ("gate.c", "forge.c")]
LOOKS: tuple[Look, ...] = ("not", "clean", "stream")
VERDICTS: tuple[Verdict, ...] = ("none", "window", "open", "forget")
LEVEL, NOISE = 0.03, 0.1


class Gate(c.Structure):
    """refold_gate."""

    _fields_ = (("phase", c.c_uint8), ("images", c.c_uint8), ("score", Score))


def test_every_walk_is_the_same(tmp_path: Path) -> None:
    """Look, verdict and place agree on streams that shift now and then."""
    lib = compile_shared(SOURCES, out_dir=tmp_path)
    rng = np.random.default_rng(0)
    gate, twin, absorbed, seen = Gate(), GateState(), 0, set()
    for _ in range(5000):
        shift = float(rng.choice([0.0, 0.02, 0.05, 0.3], p=[0.6, 0.2, 0.1, 0.1]))
        total = int(65536 * 7 * (shift + 0.01 * rng.random()))
        look = twin.look(absorbed + 1)
        assert LOOKS.index(look) == lib.refold_gate_next(
            c.byref(gate), c.c_uint32(absorbed + 1)
        )
        gate.score = Score(total, 7)
        twin, verdict = twin.decide(look, score(total, 7), level=LEVEL, noise=NOISE)
        assert VERDICTS.index(verdict) == lib.refold_gate_decide(
            c.byref(gate),
            c.c_int(LOOKS.index(look)),
            c.c_float(LEVEL),
            c.c_float(NOISE),
        )
        absorbed = 0 if verdict == "forget" else absorbed + 1
        if verdict != "none":
            gate.images = 0  # the runtime's part
        assert (twin.phase, twin.images) == (gate.phase, gate.images)
        seen.add((look, verdict))
    assert {"none", "window", "open", "forget"} == {verdict for _, verdict in seen}
