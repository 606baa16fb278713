"""An artefact whose native board is a device of MLPerf Tiny."""

from __future__ import annotations

import pytest
from cbuild import compilers

from refoldc.artefact import Artefact
from refoldc.pipeline import compile_model

from refold.data import load_data
from refold.resources import bundled_model


@pytest.fixture(scope="session")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """Compile the bundled network."""
    if not compilers():
        pytest.skip("no C compiler")
    images = load_data("digits", split="train", limit=64).images
    out = tmp_path_factory.mktemp("mlperf") / "digits.refold"
    return compile_model(bundled_model(), images, out)
