"""What a mean image of a run costs: passes through the network, and where time goes."""

from __future__ import annotations

from dataclasses import dataclass

from refold.result import Run, Stream

TITLES = ("network, ms", "update, ms", "search, ms", "passes", "in full", "adapted, %")


@dataclass(frozen=True)
class Cost:
    """Of a mean image.

    Attributes:
        passes: Forward passes, those of candidates included.
        full_passes: The same, those weighed by the part of the network they run.
        adapted: Percentage of images of which something was learnt.
        network_us, update_us, search_us: Of the device's time: the network, FORGE's
            statistics to tables, PACE's search.
    """

    passes: float
    full_passes: float
    adapted: float
    network_us: float
    update_us: float
    search_us: float

    @property
    def cells(self) -> tuple[str, ...]:
        """What stands below :data:`TITLES` in a table."""
        times = (self.network_us, self.update_us, self.search_us)
        return (
            *(f"{time / 1000:.3f}" for time in times),
            *(f"{number:.2f}" for number in (self.passes, self.full_passes)),
            f"{self.adapted:.1f}",
        )


def stream_cost(stream: Stream) -> Cost | None:
    """None where no image was answered, or in a result that does not tell."""
    split, count = stream.split_us, stream.images
    if split is None or stream.full_passes is None or not count:
        return None
    return Cost(
        passes=stream.forward_passes / count,
        full_passes=stream.full_passes / count,
        adapted=100 * stream.adapted_images / count,
        network_us=split.network,
        update_us=split.update,
        search_us=split.search,
    )


def run_cost(run: Run) -> Cost | None:
    """Over all images of a run; None as of a stream."""
    costs = [(s.images, found) for s in run.streams if (found := stream_cost(s))]
    images = sum(count for count, _ in costs)
    if not images:
        return None

    def mean(field: str) -> float:
        total: float = sum(count * getattr(cost, field) for count, cost in costs)
        return total / images

    return Cost(**{field: mean(field) for field in Cost.__dataclass_fields__})
