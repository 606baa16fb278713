from __future__ import annotations

from pathlib import Path

import pytest

from refold import resources
from refold.errors import UserError


def test_a_checkout_uses_the_repository(repo_root: Path) -> None:
    """Firmware and boards are those of the checkout."""
    assert repo_root / "firmware" == resources.firmware_dir()
    assert repo_root / "boards" == resources.boards_dir()
    assert (resources.firmware_dir() / "include/refold/refold.h").is_file()


def test_a_wheel_uses_what_it_carries(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where the package has its data folder, that comes first."""
    (tmp_path / "firmware").mkdir()
    monkeypatch.setattr(resources, "_PACKAGED", tmp_path)
    assert tmp_path / "firmware" == resources.firmware_dir()


def test_a_missing_file_means_a_damaged_installation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The message names the file and says to reinstall."""
    monkeypatch.setattr(resources, "_PACKAGED", tmp_path)
    with pytest.raises(UserError, match=r"boards is missing: .* reinstall"):
        resources.boards_dir()
