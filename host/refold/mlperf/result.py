"""The result of an MLPerf Tiny run; the file that ``--json`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from refold.files import write_text

SCHEMA = "refold.mlperf/1"


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """``target`` and ``auc`` are null where there is none; percentages but for it.

    ``differing`` counts images whose answer is not the host model's, null unchecked.
    """

    images: int
    top1: float
    auc: float | None
    target: float | None
    differing: int | None


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """One ``infer``: so many inferences took ``us`` by the device's clock."""

    inferences: int
    us: int

    @property
    def throughput(self) -> float:
        """Inferences a second."""
        return 1e6 * self.inferences / self.us


class Performance(msgspec.Struct, frozen=True, kw_only=True):
    """``throughput`` is the median of the windows', ``latency_us`` its inverse."""

    windows: tuple[Window, ...]
    throughput: float
    latency_us: float


class EnergyWindow(Window, frozen=True, kw_only=True):
    """One ``infer`` by the instrument: ``us`` and ``uj`` between the two edges."""

    uj: float

    @property
    def inference_uj(self) -> float:
        """Microjoules an inference."""
        return self.uj / self.inferences

    @property
    def power_mw(self) -> float:
        """Milliwatts."""
        return 1e3 * self.uj / self.us


class Energy(msgspec.Struct, frozen=True, kw_only=True):
    """``inference_uj`` and ``power_mw`` are the medians of the windows'.

    ``differing`` counts windows whose answer is not the host model's, null unchecked.
    """

    windows: tuple[EnergyWindow, ...]
    inference_uj: float
    power_mw: float
    differing: int | None = None


class MlperfResult(msgspec.Struct, frozen=True, kw_only=True):
    """Of one device; ``reasons`` say why it is no pass.

    With an instrument the energy mode was run alone, else the two others.
    """

    schema: str
    tool: dict[str, str]
    verdict: Literal["pass", "fail"]
    reasons: tuple[str, ...]
    model: str
    board: str
    port: str
    dut: str
    benchmark: str
    data: str
    accuracy: Accuracy | None
    performance: Performance | None
    energy: Energy | None = None


def write_mlperf(result: MlperfResult, path: Path) -> None:
    """Write ``result`` as indented JSON, never half."""
    encoded = msgspec.json.format(msgspec.json.encode(result), indent=2)
    write_text(path, encoded.decode() + "\n")
