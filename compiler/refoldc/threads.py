"""How many threads the reference's matrix products use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Within, or in a function so decorated, BLAS keeps to the calling thread.

    One image is too little work to share: the other threads mostly wait for each
    other, spinning, and that takes longer than the product itself.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        yield
