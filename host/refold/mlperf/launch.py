"""Let MLPerf Tiny's public runner drive the native board.

    python -m refold.mlperf.launch ARTEFACT RUNNER/main.py -d devices.yaml -m a ...

The runner looks for serial ports by USB numbers and opens a device path, which a
pseudo-terminal is without having such numbers. So the board is started, its terminal
is added to pyserial's list under VENDOR and PRODUCT, and the runner is run within
this process. Its device file needs an entry::

    - name: refold
      type: dut
      usb: {0x1209: 0x0001}
      baud: 115200
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from refoldc.artefact import load_artefact

from refold.boards import load_board
from refold.build import build
from refold.mlperf.run import native_command
from refold.process import spawn

VENDOR, PRODUCT = 0x1209, 0x0001
"""pid.codes' numbers for tests on one's own desk."""


def announce(port: str) -> None:
    """Add ``port`` to what ``comports()`` lists from now on."""
    known = list_ports.comports
    virtual = ListPortInfo(port, skip_link_detection=True)
    virtual.vid, virtual.pid, virtual.description = VENDOR, PRODUCT, "refold"

    def listed(include_links: bool = False) -> list[ListPortInfo]:
        return [*known(include_links), virtual]

    list_ports.comports = listed


def launch(artefact: Path, runner: Path, arguments: Sequence[str]) -> None:
    """Start the native board and run the runner's ``main.py`` against it.

    Raises:
        UserError, RefoldcError: The artefact is at fault, or cannot be built.
    """
    built = build(artefact, load_board("native"))
    with spawn(native_command(built, load_artefact(artefact))) as port:
        announce(port)
        sys.argv = [str(runner), *arguments]
        sys.path.insert(0, str(runner.parent))
        runpy.run_path(str(runner), run_name="__main__")


if __name__ == "__main__":
    launch(Path(sys.argv[1]), Path(sys.argv[2]).resolve(), sys.argv[3:])
