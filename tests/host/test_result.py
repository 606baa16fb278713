"""result.json: fixed keys, round trip, faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sample_results import two_modes

from refold.errors import UserError
from refold.result import load_result, tool_versions, write_result

KEYS: dict[str, set[str]] = {
    "": {
        *("schema", "tool", "verdict", "complete", "model", "memory", "board"),
        *("data", "runs", "gain"),
    },
    "model": {"name", "sha256", "macs", "parameters", "sites", "site_channels"},
    "memory": {"arena_bytes", "weights_bytes", "adapt_state_bytes", "code_bytes"},
    "board": {"id", "chip", "build", "port"},
    "data": {"spec", "images", "severity", "seed", "sha256"},
    "runs": {"adapt", "mean_accuracy", "clean_accuracy", "seconds", "streams"},
    "runs/streams": {
        *("corruption", "severity", "images", "correct", "accuracy"),
        *("parity_mismatches", "frames_resent", "latency_us", "adapt_us"),
        *("forward_passes", "adapted_images", "gate", "energy_mj"),
        *("round", "repeat", "segment"),
    },
    "runs/streams/latency_us": {"p50", "p95", "max"},
    "runs/streams/adapt_us": {"p50", "p95", "max"},
}
"""The contract with readers of result.json, by path to the object."""


@pytest.mark.parametrize("place", KEYS)
def test_fixed_keys_are_there(place: str, tmp_path: Path) -> None:
    """No key that others rely on is missing or renamed."""
    write_result(two_modes(), tmp_path / "result.json")
    found: Any = json.loads((tmp_path / "result.json").read_text())
    for key in filter(None, place.split("/")):
        found = found[key]
        found = found[0] if isinstance(found, list) else found
    assert set() == KEYS[place] - set(found)


def test_schema_is_stamped(tmp_path: Path) -> None:
    """The file says which schema it has."""
    write_result(two_modes(), tmp_path / "r.json")
    assert "refold.result/1" == json.loads((tmp_path / "r.json").read_text())["schema"]


def test_round_trip(tmp_path: Path) -> None:
    """What is written is read back equal."""
    write_result(two_modes(), tmp_path / "deep" / "r.json")
    assert two_modes() == load_result(tmp_path / "deep" / "r.json")


def test_nothing_but_the_file_is_left(tmp_path: Path) -> None:
    """The file is written beside its place and renamed."""
    write_result(two_modes(), tmp_path / "r.json")
    assert ["r.json"] == [path.name for path in tmp_path.iterdir()]


def test_additional_keys_are_read_over(tmp_path: Path) -> None:
    """A result of a newer refold with more keys still loads."""
    write_result(two_modes(), tmp_path / "r.json")
    content = json.loads((tmp_path / "r.json").read_text())
    (tmp_path / "r.json").write_text(json.dumps({**content, "new": 1}))
    assert two_modes() == load_result(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no refold result"),
        (b"\xff\xfe", "no refold result"),
        (b"{}", "no refold result"),
        (b"[1, 2", "no refold result"),
    ],
)
def test_other_files_are_refused(content: bytes, words: str, tmp_path: Path) -> None:
    """A file that is no result is a user error."""
    (tmp_path / "r.json").write_bytes(content)
    with pytest.raises(UserError, match=words):
        load_result(tmp_path / "r.json")


def test_missing_file(tmp_path: Path) -> None:
    """A missing file is a user error that names it."""
    with pytest.raises(UserError, match=r"gone\.json"):
        load_result(tmp_path / "gone.json")


def test_another_schema_is_refused(tmp_path: Path) -> None:
    """A later schema is not guessed at."""
    write_result(two_modes(), tmp_path / "r.json")
    text = (tmp_path / "r.json").read_text().replace("result/1", "result/2")
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(UserError, match=r"refold\.result/2"):
        load_result(tmp_path / "r.json")


def test_a_later_schema_is_named_whatever_it_holds(tmp_path: Path) -> None:
    """Keys of another shape are not what the message is about."""
    content = {"schema": "refold.result/2", "model": "digits", "runs": {}}
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match=r"refold\.result/2', expected 'refold"):
        load_result(tmp_path / "r.json")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """The message names what is in the way."""
    (tmp_path / "a").touch()
    with pytest.raises(UserError, match=r"a is a file; choose another place"):
        write_result(two_modes(), tmp_path / "a" / "r.json")


def test_versions_name_every_tool() -> None:
    """The stamp holds the tools that the contract lists."""
    tools = {"refold", "numpy", "pillow", "scipy", "onnx", "onnxruntime", "python"}
    assert tools == set(tool_versions())
