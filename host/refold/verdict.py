"""What the accuracy report of a compiled model says, in words."""

from __future__ import annotations

from collections.abc import Iterator

from refoldc.accuracy import LOSSY_DB, Accuracy, LayerAccuracy
from refoldc.manifest import Manifest, OptionsRecord
from refoldc.options import MINMAX

from refold.columns import Column

GOOD = 99.0
"""An agreement below it calls for advice."""
LOW = 90.0
"""An agreement below it says that the int8 network is not the model any more."""
NOISIEST = 3
SATURATED = 0.1
"""Percentage of a layer's values from which on its range is too narrow."""


def summary(accuracy: Accuracy, options: OptionsRecord, *, what: str) -> Iterator[str]:
    """Yield lines: agreement, the worst layers, the culprit, and what to try.

    Args:
        accuracy: The report.
        options: That the model was compiled with.
        what: Word for what both networks choose, such as ``class``.
    """
    yield (
        f"same {what} as the float model: {accuracy.agreement:.1f} % of "
        f"{accuracy.images} images; the output is {accuracy.output_db:.1f} dB above "
        "quantisation noise"
    )
    noisiest = sorted(accuracy.layers, key=lambda found: found.sqnr_db)[:NOISIEST]
    names = ", ".join(f"{found.layer} {found.sqnr_db:.1f} dB" for found in noisiest)
    yield f"noisiest layers: {names}"
    yield f"most noise of its own: {culprit(accuracy)}"
    if accuracy.first_loss is not None:
        yield f"first layer below {LOSSY_DB:g} dB: {accuracy.first_loss}"
    if accuracy.agreement < GOOD:
        yield from (f"try: {advice}" for advice in advise(accuracy, options))


def culprit(accuracy: Accuracy) -> str:
    """The layer that adds most noise, and the channels that hold most of it."""
    found = accuracy.layer(accuracy.culprit)
    channels = ", ".join(map(str, found.worst_channels))
    return f"{found.layer}, {found.own_sqnr_db:.1f} dB" + (
        f"; noisiest channels {channels}" if channels else ""
    )


def advise(accuracy: Accuracy, options: OptionsRecord) -> Iterator[str]:
    """Yield what may help, the likeliest first; none of it has been tried."""
    saturated = max(accuracy.layers, key=lambda found: found.saturated)
    if options.calibration != MINMAX and saturated.saturated >= SATURATED:
        yield (
            f"--calibration minmax: {saturated.saturated:.2g} % of the values of "
            f"{saturated.layer} are beyond its range"
        )
    if options.calibration == MINMAX:
        yield (
            "--calibration percentile:99.99, where a few outliers stretch the range of "
            f"{accuracy.culprit}"
        )
    if not options.correct_bias:
        yield "--correct-bias, which takes the mean of the noise out of each channel"
    if not options.equalise and options.calibration == MINMAX:
        yield "--equalise, where channels between two convolutions differ in range"
    if accuracy.agreement < LOW:
        yield (
            "real images like those of the device, 256 or more, normalised as in "
            "training (--mean, --std)"
        )


def search_line(manifest: Manifest) -> str | None:
    """Say what PACE moves and what a candidate costs; None in a model without."""
    search = manifest.search
    if search is None:
        return None
    sites = "+".join(map(str, search.sites))
    head = f"search: moves sites {sites} with {search.channels} channels; candidates "
    if search.cut.tensor is None:
        return f"{head}run the whole network"
    return (
        f"{head}run from layer {manifest.layers[search.cut.first].name} on: "
        f"{100 * search.cut.macs / manifest.model.macs:.1f} % of the network's MACs; "
        f"{search.cut.kept_bytes:,} bytes of an image are kept"
    )


def layer_columns(layers: tuple[LayerAccuracy, ...]) -> list[Column]:
    """Return one row a layer."""
    return [
        Column("layer", tuple(found.layer for found in layers)),
        _numbers("dB", [found.sqnr_db for found in layers]),
        _numbers("of its own", [found.own_sqnr_db for found in layers]),
        _numbers("% saturated", [found.saturated for found in layers], "{:.2f}"),
        Column(
            "noisiest channels",
            tuple(", ".join(map(str, found.worst_channels)) for found in layers),
            spare=True,
        ),
    ]


def _numbers(title: str, values: list[float], form: str = "{:.1f}") -> Column:
    return Column(title, tuple(map(form.format, values)), right=True)
