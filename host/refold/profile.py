"""Where the time goes: each layer's, by the board's own clock.

The images of a profile run after the streams and for themselves, so that it changes
no other figure of a result. Of each layer the median over them counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median_low

from refoldc.cost import layer_macs
from refoldc.emit_layers import OPERATORS
from refoldc.ir import QGraph

from refold.columns import Column, table
from refold.device import Device
from refold.errors import UserError
from refold.facts import Ticks
from refold.modes import Mode
from refold.protocol import Times
from refold.result import LayerTime, Profile

IMAGES = 9
"""Measured of each mode, where there are as many."""
UNITS = {Ticks.NANOSECONDS: "ns", Ticks.CYCLES: "cycles"}


def require_times(device: Device) -> None:
    """Find out, before anything is streamed, whether the board keeps times.

    Raises:
        UserError: It does not.
    """
    if device.read_times().ticks_per_us == 0:
        raise UserError(
            f"port {device.port}: this firmware keeps no layer times (its port sets no "
            "layer_ticks); run without --profile"
        )


def measure(
    device: Device, mode: Mode, images: Sequence[bytes], graph: QGraph
) -> Profile:
    """Run images under a mode, one at a time, and take the median of their times.

    Args:
        device: That keeps times.
        mode: Adapts from fresh statistics on.
        images: At least one; the first ``IMAGES`` run.
        graph: What the device runs.

    Raises:
        InfraError: The device is lost.
    """
    device.begin(mode.config)
    taken = []
    for image in images[:IMAGES]:
        list(device.run([image]))
        taken.append(device.read_times())
    first = taken[0]
    return Profile(
        adapt=mode.text,
        images=len(taken),
        unit=UNITS[Ticks(first.kind)],
        ticks_per_us=first.ticks_per_us,
        total=median_low(times.image for times in taken),
        layers=tuple(_layers(graph, taken)),
    )


def _layers(graph: QGraph, taken: Sequence[Times]) -> Iterator[LayerTime]:
    columns = zip(*(times.layers for times in taken), strict=True)
    for layer, column in zip(graph.layers, columns, strict=True):
        yield LayerTime(
            name=layer.name,
            op=OPERATORS[type(layer)].kind(layer),
            macs=layer_macs(layer, graph),
            ticks=median_low(column),
        )


# --- the table ---------------------------------------------------------------


def profile_lines(profile: Profile, width: int | None = None) -> list[str]:
    """Return a profile as text; the first layer's time includes the input's.

    Args:
        profile: To show.
        width: Of a terminal; None for all of everything.
    """
    layers = profile.layers
    rest = profile.total - sum(layer.ticks for layer in layers)
    ticks = [*(layer.ticks for layer in layers), rest, profile.total]
    macs = [*(layer.macs for layer in layers), 0, sum(layer.macs for layer in layers)]
    names = (*(layer.name for layer in layers), "(after the last)", "all")
    per = "cycle" if profile.unit == "cycles" else "ns"
    pairs = list(zip(macs, ticks, strict=True))
    return table(
        [
            Column("layer", names),
            Column("op", (*(layer.op for layer in layers), "", "")),
            _numbers("MACs", [f"{n:,}" if n else "" for n in macs], spare=True),
            _numbers("us", [f"{t / profile.ticks_per_us:,.1f}" for t in ticks]),
            _numbers("share", [f"{t / max(profile.total, 1):.1%}" for t in ticks]),
            _numbers(profile.unit, [f"{t:,}" for t in ticks], spare=True),
            _numbers(
                f"MACs/{per}", [f"{m / t:.2f}" if m and t else "" for m, t in pairs]
            ),
        ],
        width,
    )


def _numbers(title: str, cells: list[str], *, spare: bool = False) -> Column:
    return Column(title, tuple(cells), right=True, spare=spare)
