"""The whole job on bundled data: compile, build, stream, score.

Nothing is downloaded and nothing is tuned: the bundled network is calibrated
with the bundled training split and scored on the test split.
"""

from __future__ import annotations

from pathlib import Path

from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model

from refold.data import load_data
from refold.report import write_report
from refold.resources import bundled_model
from refold.result import Result, write_result
from refold.runner import RunOptions, run
from refold.watch import Watch

CALIBRATION_IMAGES = 512


def demo(folder: Path, *, watch: Watch | None = None) -> Result:
    """Run the demonstration.

    Args:
        folder: Receives ``artefact/``, ``result.json`` and ``report.html``.
        watch: Told about progress.

    Returns:
        The result that ``result.json`` holds.
    """
    watch = watch or Watch()
    watch.stage("compiling the bundled model")
    train = load_data("digits", split="train", limit=CALIBRATION_IMAGES)
    artefact = folder / "artefact"
    compile_model(bundled_model(), train.images, artefact, options=CompileOptions())
    result = run(artefact, RunOptions(data="digits"), watch=watch)
    write_result(result, folder / "result.json")
    write_report([(result.model.name, result)], folder / "report.html")
    return result
