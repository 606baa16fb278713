"""Why a board did not say who it is."""

from __future__ import annotations

from refold import facts
from refold.errors import GarbledError, RefoldError, SilentError, UserError
from refold.link import Link

BAUDS = (115200, 460800, 921600)
"""The usual rates."""


def no_hello(link: Link, waited_s: float, remedy: str) -> RefoldError:
    """Return what to raise where no Hello came.

    Args:
        link: Over which it was asked for.
        waited_s: How long.
        remedy: What to do where the board speaks another version.
    """
    wait = f"within {waited_s:g} s of asking"
    if link.other_version is not None:
        return UserError(
            f"port {link.url}: the board speaks protocol version "
            f"{link.other_version}, this refold {facts.PROTOCOL}; {remedy}"
        )
    if link.received_bytes == 0:
        return SilentError(
            f"port {link.url}: the board is silent: no byte {wait}",
            "check that refold's firmware is flashed, then reset or power-cycle the "
            "board",
        )
    return GarbledError(
        f"port {link.url}: no answer to hello, but {link.received_bytes} bytes that "
        f"are no frames {wait}, the last: '{link.last_words(unfinished=True)}'",
        "either another program runs on the board or the baud rate differs (usual: "
        f"{', '.join(map(str, BAUDS))}): flash refold's firmware or correct the board "
        "file",
    )
