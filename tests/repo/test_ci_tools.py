"""What other tests skip for want of must not be wanting where everything counts."""

from __future__ import annotations

import importlib.util
import os
import shutil

import pytest

PROGRAMS = (
    "chromium",
    *("cc", "gcc", "clang", "c++", "nm", "size"),
    *("xtensa-lx106-elf-gcc", "qemu-system-xtensa"),
)
MODULES = (
    "cma",
    "cmaes",
    "ziglang",
    "hatchling",
    "sklearn",
    "yaml",
    "platformio",
    "SCons",
)


@pytest.mark.skipif(not os.environ.get("CI"), reason="elsewhere tests may skip")
def test_continuous_integration_has_every_tool() -> None:
    """Compilers, emulator and wheels that .ci/run installs are there."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    missing += [name for name in MODULES if importlib.util.find_spec(name) is None]
    assert [] == missing
