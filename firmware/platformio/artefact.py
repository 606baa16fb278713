"""Pre-script of every environment: finds the compiled model to build.

``REFOLD_ARTEFACT`` in the environment comes first, then ``custom_refold_artefact``
of platformio.ini. The path is handed on as ``env["REFOLD_ARTEFACT"]``.
"""

import os
import sys
from pathlib import Path

Import("env")  # noqa: F821  # PlatformIO's

found = os.environ.get("REFOLD_ARTEFACT") or env.GetProjectOption(  # noqa: F821
    "custom_refold_artefact", ""
)
artefact = Path(env.subst("$PROJECT_DIR"), found).resolve()  # noqa: F821
if not found or not (artefact / "refold.json").is_file():
    sys.exit(
        f"refold: {found or 'no artefact'}: expected the folder of a compiled model; "
        "name it with custom_refold_artefact in platformio.ini or REFOLD_ARTEFACT, "
        "and make it with 'refold compile MODEL -o DIR'"
    )
env["REFOLD_ARTEFACT"] = str(artefact)  # noqa: F821
