"""The accuracy report: how far the int8 network is from the float one.

Two ratios of signal to quantisation noise describe a layer: of its output against
the float network's, which counts all that went wrong up to there, and against
the float layer fed with the same int8 inputs, which is its own fault alone.
"""

from __future__ import annotations

import msgspec

LOSSY_DB = 20.0
"""Below it the noise of a tensor is a tenth of its values."""


class LayerAccuracy(msgspec.Struct, frozen=True, kw_only=True):
    """One layer's output.

    Attributes:
        layer: Its name.
        sqnr_db: Signal to noise against the float network, in dB.
        own_sqnr_db: Against the float layer on equal inputs, in dB.
        saturated: Percentage of float values that int8 cannot reach.
        worst_channels: The channels with most noise of their own relative to their
            signal, at most three.
    """

    layer: str
    sqnr_db: float
    own_sqnr_db: float
    saturated: float
    worst_channels: tuple[int, ...]


class Accuracy(msgspec.Struct, frozen=True, kw_only=True):
    """The report on a compiled model, adaptation off.

    Attributes:
        images: How many calibration images it is made from.
        agreement: Percentage on which both networks have one largest output.
        first_loss: The first layer whose output is below ``LOSSY_DB``.
        culprit: The layer that adds most noise of its own, relative to its signal.
        layers: In execution order.
    """

    images: int
    agreement: float
    first_loss: str | None
    culprit: str
    layers: tuple[LayerAccuracy, ...]

    @property
    def output_db(self) -> float:
        """Signal to noise of the answer."""
        return self.layers[-1].sqnr_db

    def layer(self, name: str) -> LayerAccuracy:
        """The entry of one layer."""
        return next(found for found in self.layers if found.layer == name)
