"""A network whose firmware contains FORGE and PACE, and the host's twin of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_model import make_images, write_model

from refoldc.artefact import Artefact
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model

from refold.boards import load_board
from refold.build import build_twin
from refold.twin import Twin


@pytest.fixture(scope="session")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """Compile the network."""
    folder = tmp_path_factory.mktemp("twin")
    return compile_model(
        write_model(folder / "small.onnx"),
        make_images(64),
        folder / "small.refold",
        options=CompileOptions(adapt="forge+pace"),
    )


@pytest.fixture(scope="session")
def library(artefact: Artefact) -> Path:
    """Build its twin."""
    return build_twin(artefact.path, load_board("native"))


@pytest.fixture
def twin(library: Path, artefact: Artefact) -> Twin:
    """Return a twin that has seen nothing."""
    return Twin(library, artefact.qgraph)
