"""gate.c against its definition."""

from __future__ import annotations

import ctypes as c
from pathlib import Path

import numpy as np
from cbuild import ROOT, compile_shared
from ctypes_model import Score

from refoldc.facts import GATE_FIRST
from refoldc.gate import GateState, Look, Verdict
from refoldc.recalibrate import score

SOURCES = [ROOT / "firmware/src" / name for name in ("gate.c", "forge.c")]
LOOKS: tuple[Look, ...] = ("not", "clean", "stream")
VERDICTS: tuple[Verdict, ...] = ("none", "switch", "open", "forget")
MARGIN, DOUBT = 2.5, 0.01


class Gate(c.Structure):
    """refold_gate."""

    _fields_ = (("phase", c.c_uint8), ("images", c.c_uint8), ("distance", Score))


def test_every_walk_is_the_same(tmp_path: Path) -> None:
    """Look, verdict and place agree on streams that shift now and then."""
    lib = compile_shared(SOURCES, out_dir=tmp_path)
    rng = np.random.default_rng(0)
    gate, twin, absorbed, seen = Gate(), GateState(), 0, set()
    for step in range(20000):
        shift = float(rng.choice([0.0, 0.05, 3.0], p=[0.6, 0.3, 0.1]))
        shift *= step % 4000 < 1000  # then long without one, until a recheck
        total = int(65536 * 7 * (shift + 0.01 * rng.random()))
        look = twin.look(absorbed)
        assert LOOKS.index(look) == lib.refold_gate_next(
            c.byref(gate), c.c_uint32(absorbed)
        )
        gate.distance = Score(total, 7)
        absorbed += twin.phase.name != "RECHECK"
        twin, verdict = twin.decide(
            look, score(total, 7), absorbed=absorbed, margin=MARGIN, doubt=DOUBT
        )
        assert VERDICTS.index(verdict) == lib.refold_gate_decide(
            c.byref(gate),
            c.c_int(LOOKS.index(look)),
            c.c_uint32(absorbed),
            c.c_float(MARGIN),
            c.c_float(DOUBT),
        )
        absorbed = {"forget": 0, "open": GATE_FIRST}.get(verdict, absorbed)
        assert (twin.phase, twin.images) == (gate.phase, gate.images)
        seen.add((twin.phase.name, verdict))
    assert {"none", "switch", "open", "forget"} == {verdict for _, verdict in seen}
    assert {"CLOSED", "OPEN", "RECHECK"} == {phase for phase, _ in seen}
