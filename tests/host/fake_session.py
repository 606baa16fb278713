"""A session with a board in Python, which never comes back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from refold.errors import InfraError


@dataclass
class FakeSession:
    """Stands for :class:`refold.session.Session`."""

    device: Any

    def recover(self, error: InfraError, *, restart: bool) -> NoReturn:
        """Give up."""
        del restart
        raise error


@contextmanager
def fake_open_session(device: Any) -> Iterator[FakeSession]:
    """Stand for :func:`refold.board_session.open_session`."""
    yield FakeSession(device)
