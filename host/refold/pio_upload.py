"""PlatformIO builds and uploads, for boards whose file says so.

It compiles first, so that a fault of the sources and a fault of the line are told
apart, and works within the artefact: nothing is left in the project's folder.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shlex
import subprocess
import sys
from pathlib import Path

from refoldc.artefact import load_artefact

from refold import placement
from refold.boards import Board
from refold.boot import Boot
from refold.deadline import Deadline
from refold.errors import InfraError, UserError, during
from refold.esp_build import prepare
from refold.flash import check_mac
from refold.lock import hold
from refold.phase import Phase
from refold.place import find_place
from refold.protocol import Hello
from refold.recipe import make_recipe
from refold.resources import resource
from refold.watch import Watch
from refold.wire import open_wire

BUILD_S = 3600.0
"""The first build downloads the toolchain."""
UPLOAD_S = 600.0
HELLO_S = 15.0
_SHOWN_LINES = 12

_logger = logging.getLogger(__name__)


def upload(
    artefact: Path,
    board: Board,
    port: str,
    *,
    watch: Watch,
    wait_s: float = 0.0,
    deadline: Deadline | None = None,
) -> Hello:
    """Build and upload with the board's PlatformIO environment, await the firmware.

    Args:
        artefact: Compiled model.
        board: Its environment is that of its toolchain, else named as the board is.
        port: As :func:`refold.place.find_place` takes it.
        watch: Told what is done.
        wait_s: How long to wait for a process that has the board.
        deadline: Of all of it; building is not interrupted.

    Raises:
        RefoldcError: ``artefact`` is no compiled model, or too large for the board.
        UserError: PlatformIO or the port is missing, or the build fails.
        InfraError: The upload fails, or no firmware answers.
    """
    deadline = deadline or Deadline()
    if importlib.util.find_spec("platformio") is None:
        raise UserError("PlatformIO is not installed; run pip install 'refold[hw]'")
    watch.stage(f"PlatformIO builds {board.toolchain.env}")
    code, said = _pio(artefact, board, timeout_s=BUILD_S)
    if code != 0:
        raise UserError(f"PlatformIO cannot build {board.toolchain.env}:\n{said}")
    place = find_place(board, port)
    with hold(place, wait_s=min(wait_s, deadline.left)):
        port = place.url
        open_wire(port, baud=board.link.baud).close()
        check_mac(place)
        build_hash = _build_hash(artefact, board)
        boot = Boot(
            place, board.link.baud, build_hash, wait_s=HELLO_S, deadline=deadline
        )
        with during(Phase.FLASH):
            deadline.require()
            watch.stage(f"PlatformIO uploads to {port}")
            target = ("--target", "upload", "--upload-port", port)
            limit_s = min(UPLOAD_S, deadline.left)
            code, said = _pio(artefact, board, *target, timeout_s=limit_s)
            if code != 0:
                deadline.require()
                raise InfraError(
                    f"port {port}: PlatformIO cannot upload:\n{said}\n"
                    "check cable and port; hold BOOT while it connects"
                )
        watch.stage(f"{port}: waiting for the firmware's hello")
        return boot.await_hello()


def _build_hash(artefact: Path, board: Board) -> str:
    """What firmware reports that PlatformIO builds now."""
    if board.toolchain.kind == "esp_idf":
        compiled = load_artefact(artefact)
        placed = placement.place(
            compiled.qgraph, board, search=compiled.manifest.search
        )
        return prepare(artefact, board, placed, "platformio").build_hash
    return make_recipe(artefact, board).build_hash


def _pio(
    artefact: Path, board: Board, *options: str, timeout_s: float
) -> tuple[int, str]:
    """Run the environment; return exit code and last lines."""
    project = resource("platformio.ini").parent
    command = [sys.executable, "-m", "platformio", "run"]
    environment = board.toolchain.env or board.id
    command += ["--project-dir", str(project), "--environment", environment]
    command += options
    _logger.debug("%s", shlex.join(command))
    workspace = artefact.resolve() / "build" / board.id / "platformio"
    settings = {
        "REFOLD_ARTEFACT": str(artefact.resolve()),
        "PLATFORMIO_WORKSPACE_DIR": str(workspace),
    }
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **settings},
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"no end after {timeout_s:.0f} s"
    _logger.debug("%s", done.stdout)
    return done.returncode, "\n".join(done.stdout.strip().splitlines()[-_SHOWN_LINES:])
