"""Nordic's Power Profiler Kit II, through ppk2lab.

ppk2lab (MIT, typed, with a simulated instrument) and not ppk2-api, which is under the
GPL and cannot be imported by a program under Apache-2.0.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from refold.errors import InfraError, UserError
from refold.power.energy import Samples
from refold.power.recorder import Meter

if TYPE_CHECKING:
    from ppk2lab import PPK2

FORM = "ppk2:PORT[;mv=3300][;supply=board|meter]"
MV_DEFAULT = 3300
MV_RANGE = range(800, 5001)


@dataclass(frozen=True)
class Spec:
    """A parsed ``--power``.

    Attributes:
        port: Of the instrument; "" takes the only one there is.
        voltage_mv: At the board: of its own supply, or to be given to it.
        supplies: The instrument powers the board.
    """

    port: str
    voltage_mv: int
    supplies: bool


def parse(text: str) -> Spec:
    """Read ``ppk2:PORT[;mv=3300][;supply=board|meter]``.

    Raises:
        UserError: It is something else.
    """
    kind, _, rest = text.partition(":")
    port, *settings = rest.split(";")
    values = {"mv": str(MV_DEFAULT), "supply": "board"}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in values:
            raise UserError(f"--power {text}: unknown '{setting}'; expected {FORM}")
        values[key] = value
    mv = int(values["mv"]) if values["mv"].isdecimal() else 0
    if (
        kind != "ppk2"
        or mv not in MV_RANGE
        or values["supply"] not in ("board", "meter")
    ):
        raise UserError(
            f"--power {text}: expected {FORM}, mv from {MV_RANGE.start} to "
            f"{MV_RANGE.stop - 1}"
        )
    return Spec(port, mv, values["supply"] == "meter")


@contextmanager
def open_meter(text: str | None) -> Iterator[Meter | None]:
    """Open the instrument that ``--power`` names; None opens nothing.

    Raises:
        UserError: The form is wrong, ppk2lab is not installed, or no instrument is
            there.
    """
    if text is None:
        yield None
        return
    spec, library = parse(text), _library()
    try:
        device = library.PPK2.open(port=spec.port or None)
        meter = Ppk2(device, spec)
    except (library.Ppk2labError, OSError) as error:
        raise UserError(
            f"--power {text}: {error}; connect the instrument, end nRF Connect, and "
            "name its first serial port ('ppk2lab discover' lists them)"
        ) from None
    try:
        yield meter
    finally:
        with suppress(library.Ppk2labError, OSError):  # it may be what was lost
            device.close()


def _library() -> ModuleType:
    try:
        import ppk2lab  # noqa: PLC0415  # an extra
    except ImportError:
        raise UserError("--power needs ppk2lab: pip install 'refold[power]'") from None
    return ppk2lab


class Ppk2:
    """An open instrument, set up by ``spec``; a :class:`Meter`.

    It is told the voltage in either mode, for its calibration depends on it.
    """

    def __init__(self, device: PPK2, spec: Spec) -> None:
        from ppk2lab import SAMPLE_RATE_HZ, Mode  # noqa: PLC0415  # an extra

        self.voltage_mv = spec.voltage_mv
        self.sample_hz = SAMPLE_RATE_HZ
        self._device = device
        self._stopped = threading.Event()
        device.set_mode(Mode.SOURCE if spec.supplies else Mode.AMPERE)
        device.set_source_voltage_mv(spec.voltage_mv)
        if spec.supplies:
            device.set_dut_power(True)

    def samples(self) -> Iterator[Samples]:
        from ppk2lab import GapEvent, Ppk2labError  # noqa: PLC0415  # an extra

        calibration = self._device.calibration
        try:
            if calibration is None:
                raise InfraError("the PPK2 gives no calibration; plug it in anew")
            with self._device.stream() as events:
                for event in events:
                    if self._stopped.is_set():
                        return
                    if not isinstance(event, GapEvent):
                        current = calibration.convert_block(event, self.voltage_mv)
                        yield Samples(
                            event.start_index,
                            np.array(current, np.float64),
                            np.frombuffer(event.logic, np.uint8),
                        )
        except (Ppk2labError, OSError) as error:
            raise InfraError(
                f"the PPK2 was lost: {error}", "check its cable, then run again"
            ) from None

    def stop(self) -> None:
        self._stopped.set()
