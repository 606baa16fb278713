"""Pre-script of the ESP32-S3's environments: the settings that refold makes.

It runs after artefact.py and before PlatformIO's builder of ESP-IDF, which takes
partitions, sdkconfig and CMake's arguments from the board's manifest.
"""

import shlex
import sys
from pathlib import Path

try:
    from refoldc.artefact import load_artefact
    from refoldc.errors import RefoldcError

    from refold.boards import list_boards
    from refold.errors import RefoldError
    from refold.esp_build import prepare
    from refold.placement import place
except ImportError as error:
    sys.exit(f"refold: {error}; install it beside PlatformIO: pip install 'refold[hw]'")

Import("env")  # noqa: F821  # PlatformIO's

artefact = Path(env["REFOLD_ARTEFACT"])  # noqa: F821
name = env["PIOENV"]  # noqa: F821
(board,) = (board for board in list_boards() if board.toolchain.env == name)
try:
    placement = place(load_artefact(artefact).qgraph, board)
    project = prepare(artefact, board, placement, "platformio")
except (RefoldError, RefoldcError) as error:
    sys.exit(f"refold: {error}")

manifest = env.BoardConfig()  # noqa: F821
manifest.update("build.partitions", str(project.directory / "partitions.csv"))
manifest.update("build.esp-idf.sdkconfig_path", str(project.sdkconfig))
manifest.update("build.cmake_extra_args", shlex.join(project.definitions()))
