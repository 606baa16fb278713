"""The energy mode: an instrument sees current and the device's timestamps.

A timestamp is a falling edge of a pin. The energy of a window is that between the
edges before and after its inferences, all of it: what the board spends at rest counts.
"""

from __future__ import annotations

import math
from statistics import median
from typing import Any

from numpy.typing import NDArray

from refold.errors import InfraError
from refold.mlperf.dut import Dut
from refold.mlperf.result import Energy, EnergyWindow
from refold.mlperf.windows import windows
from refold.power.recorder import SETTLE_S, Meter, Recorder

UJ_PER_MJ = 1000.0


class Instrument:
    """Measures what a device does between two edges.

    Attributes:
        answer: Of the device, to the last measurement.
    """

    def __init__(self, dut: Dut, meter: Meter, recorder: Recorder) -> None:
        self.answer: tuple[float, ...] = ()
        self._dut, self._recorder = dut, recorder
        self._us_per_sample = 1e6 / meter.sample_hz

    def check_wire(self) -> None:
        """Have the device mark the time, and see it; no earlier edge comes after that.

        Raises:
            InfraError: The edge is not seen, or the device is not in energy mode.
        """
        before = self._recorder.edges()
        self._dut.mark_time()
        if not self._recorder.await_edges(before, 1):
            raise InfraError(
                f"the power meter saw no timestamp of the device at {self._dut.url} "
                f"within {SETTLE_S:g} s",
                "check the wire from its pin to D2 (docs/mlperf-tiny.md)",
            )

    def measure(self, inferences: int, warmups: int) -> EnergyWindow:
        """Run the loaded image.

        Raises:
            InfraError: The device or the instrument is lost, or edges or samples are.
        """
        before = self._recorder.edges()
        self.answer = self._dut.infer_silently(inferences, warmups)
        edges = self._recorder.await_edges(before, 2)
        if len(edges) != 2:
            raise InfraError(
                f"the power meter saw {len(edges)} timestamps of the 2 around "
                f"{inferences} inferences",
                "check the wire from the device's pin to D2",
            )
        start, end = edges
        if math.isnan(end.mj):
            raise InfraError(
                "the power meter lost samples within a window, or was out of range",
                "give it a USB port of its own, and run again while nothing else "
                "keeps this computer busy",
            )
        return EnergyWindow(
            inferences=inferences,
            us=round((end.sample - start.sample) * self._us_per_sample),
            uj=UJ_PER_MJ * end.mj,
        )


def measure_energy(
    instrument: Instrument, dut: Dut, images: NDArray[Any], window_s: float
) -> tuple[Energy, list[tuple[float, ...]]]:
    """Return the energy of five windows, and the answers of each.

    Raises:
        InfraError: See :meth:`Instrument.measure`.
    """
    instrument.check_wire()
    found: list[EnergyWindow] = []
    answers = []
    for window in windows(dut, images, instrument.measure, window_s):
        found.append(window)
        answers.append(instrument.answer)
    uj = median(window.inference_uj for window in found)
    mw = median(window.power_mw for window in found)
    return Energy(windows=tuple(found), inference_uj=uj, power_mw=mw), answers
