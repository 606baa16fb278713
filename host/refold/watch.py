"""How a run tells what it is doing."""

from __future__ import annotations

import logging

from refold.schedule import Step

_logger = logging.getLogger(__name__)


class Watch:
    """Observes a run; override what is of interest."""

    def stage(self, text: str) -> None:
        """Begin something that takes a while."""
        _logger.info("%s", text)

    def plan(self, images: int) -> None:
        """Announce how many images will be streamed in all."""

    def step(self, step: Step) -> None:
        """Begin a stream."""

    def image(self) -> None:
        """One image was answered."""

    def back(self, images: int) -> None:
        """The last ``images`` will be answered once more."""
