from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from refold import build as module
from refold.boards import Board, LinkSpec, Toolchain
from refold.build import Build, build
from refold.errors import UserError

BOARD = Board(
    id="toy",
    chip="toy",
    description="",
    port="toy",
    toolchain=Toolchain(kind="host", cflags=("-O1",), ldflags=("-lm",)),
    link=LinkSpec(kind="spawn"),
)
MAIN = """
#include <stdio.h>
#include "model.h"
#include "toy.h"
int main(void) { printf("%s %d %d", REFOLD_BUILD_HASH, model(), add(1, 2)); return 0; }
"""


@pytest.fixture
def firmware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a firmware of three sources; the object cache is the test's own."""
    folder = tmp_path / "firmware"
    for part in ("include", "src/deep", "ports/toy", "ports/other"):
        (folder / part).mkdir(parents=True)
    (folder / "include/toy.h").write_text("int add(int a, int b);\n")
    (folder / "src/deep/add.c").write_text(
        '#include "toy.h"\nint add(int a, int b) { return a + b; }\n'
    )
    (folder / "ports/toy/main.c").write_text(MAIN)
    (folder / "ports/other/main.c").write_text("#error not this board's\n")
    monkeypatch.setattr(module, "firmware_dir", lambda: folder)
    monkeypatch.setattr(module, "user_cache_path", lambda _: tmp_path / "cache")
    return folder


@pytest.fixture
def artefact(tmp_path: Path) -> Path:
    """Return a compiled model with three sites, of which two adapt."""
    folder = tmp_path / "artefact"
    folder.mkdir()
    (folder / "model.h").write_text("int model(void);\n")
    write_model(folder, 42)
    sites = [{"default_on": on} for on in (True, False, True)]
    (folder / "refold.json").write_text(json.dumps({"sites": sites}))
    return folder


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the tasks for which the compiler is called, as they come."""
    tasks: list[str] = []
    original = module._call

    def record(command: Any, task: str) -> None:
        tasks.append(task)
        original(command, task)

    monkeypatch.setattr(module, "_call", record)
    return tasks


def write_model(folder: Path, value: int) -> None:
    """Write a model that answers ``value``."""
    (folder / "model.c").write_text(
        f'#include "model.h"\nint model(void) {{ return {value}; }}\n'
    )


def output(built: Build) -> str:
    """What the program prints."""
    return subprocess.run(
        [built.executable], capture_output=True, text=True, check=True
    ).stdout


def test_the_program_has_model_firmware_and_hash(
    firmware: Path, artefact: Path
) -> None:
    """The sources of src, of the board's port and of the model are linked."""
    built = build(artefact, BOARD)
    assert f"{built.build_hash} 42 3" == output(built)
    assert artefact / "build/toy" == built.directory
    assert artefact / "build/toy/refold-toy" == built.executable
    assert (0, 2) == built.default_sites
    assert 16 == len(built.build_hash)


def test_code_is_measured(firmware: Path, artefact: Path) -> None:
    """The size of the code is known where binutils is installed."""
    if module.shutil.which("size") is None:
        pytest.skip("no size")
    assert 50 < (build(artefact, BOARD).code_bytes or 0) < 100_000


def test_what_is_up_to_date_is_left_alone(
    firmware: Path, artefact: Path, calls: list[str]
) -> None:
    """A second build calls no compiler and says the same."""
    first = build(artefact, BOARD)
    calls.clear()
    assert first == build(artefact, BOARD)
    assert [] == calls


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"build_hash": 1}'])
def test_a_damaged_record_is_made_again(
    content: str, firmware: Path, artefact: Path
) -> None:
    """What an interrupted copy left of build.json costs a link, no traceback."""
    first = build(artefact, BOARD)
    record = artefact / "build/toy/build.json"
    whole = record.read_bytes()
    record.write_text(content)
    assert first == build(artefact, BOARD)
    assert whole == record.read_bytes()


@pytest.mark.parametrize("fault", ["cut", "emptied", "one bit", "other mode", "gone"])
def test_a_damaged_program_is_linked_again(
    fault: str, firmware: Path, artefact: Path
) -> None:
    """A matching build.json does not vouch for another executable."""
    built = build(artefact, BOARD)
    program = built.executable
    whole = program.read_bytes()
    middle = len(whole) // 2
    if fault == "cut":
        program.write_bytes(whole[:middle])
    elif fault == "emptied":
        program.write_bytes(b"")
    elif fault == "one bit":
        flipped = bytes([whole[middle] ^ 1])
        program.write_bytes(whole[:middle] + flipped + whole[middle + 1 :])
    elif fault == "other mode":
        program.chmod(0o644)
    else:
        program.unlink()
    assert output(build(artefact, BOARD)) == f"{built.build_hash} 42 3"
    assert whole == program.read_bytes()


def test_only_what_changed_is_compiled(
    firmware: Path, artefact: Path, calls: list[str]
) -> None:
    """A new model costs its object and the port's, which names the build."""
    first = build(artefact, BOARD)
    calls.clear()
    write_model(artefact, 43)
    second = build(artefact, BOARD)
    assert {"compiling main.c", "compiling model.c", "linking refold-toy"} == set(calls)
    assert f"{second.build_hash} 43 3" == output(second)
    assert first.build_hash != second.build_hash


def test_a_changed_header_counts(
    firmware: Path, artefact: Path, calls: list[str]
) -> None:
    """Headers are part of every object's identity."""
    first = build(artefact, BOARD)
    calls.clear()
    header = firmware / "include/toy.h"
    header.write_text(header.read_text() + "/* changed */\n")
    assert first.build_hash != build(artefact, BOARD).build_hash
    assert "compiling add.c" in calls


def test_flags_count(firmware: Path, artefact: Path) -> None:
    """Other flags, another build."""
    other = msgspec.structs.replace(
        BOARD, toolchain=Toolchain(kind="host", cflags=("-O2",), ldflags=("-lm",))
    )
    assert build(artefact, BOARD).build_hash != build(artefact, other).build_hash


def test_equal_artefacts_build_equal_firmware(
    firmware: Path, artefact: Path, calls: list[str], tmp_path: Path
) -> None:
    """The hash does not depend on places, and objects are shared."""
    first = build(artefact, BOARD)
    calls.clear()
    elsewhere = artefact.rename(tmp_path / "elsewhere")
    (elsewhere / "build/toy/build.json").unlink()
    assert first.build_hash == build(elsewhere, BOARD).build_hash
    assert ["linking refold-toy"] == calls


def test_progress_counts_objects(firmware: Path, artefact: Path) -> None:
    """One call an object, the last with all of them."""
    seen: list[tuple[int, int]] = []
    build(artefact, BOARD, progress=lambda *pair: seen.append(pair))
    assert [(1, 3), (2, 3), (3, 3)] == seen


def test_a_refused_source_is_shown_in_its_first_lines(
    firmware: Path, artefact: Path
) -> None:
    """The message has the file and the compiler's words, and nothing is left."""
    (firmware / "src/bad.c").write_text("int f(void) { return nowhere; }\n" * 40)
    with pytest.raises(UserError, match=r"compiling bad\.c failed: ") as error:
        build(artefact, BOARD)
    lines = str(error.value).splitlines()
    assert any("nowhere" in line for line in lines)
    assert "more lines" in lines[-1]
    assert len(lines) == 14
    assert not (artefact / "build/toy/refold-toy").exists()
    assert not list(artefact.glob("build/toy/unfinished-*"))


def test_a_failed_build_leaves_the_old_program(firmware: Path, artefact: Path) -> None:
    """The executable is replaced when the new one is whole."""
    first = build(artefact, BOARD)
    (artefact / "model.c").write_text("#error broken\n")
    with pytest.raises(UserError, match=r"compiling model\.c failed"):
        build(artefact, BOARD)
    assert f"{first.build_hash} 42 3" == output(first)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("refold.json", "no compiled model: .*'refold compile MODEL -o "),
        ("model.c", "the artefact is incomplete; .*'refold compile MODEL -o "),
        ("model.h", "the artefact is incomplete"),
    ],
)
def test_what_is_no_artefact_is_refused(
    firmware: Path, artefact: Path, name: str, message: str
) -> None:
    """A missing file is named with the command that makes it."""
    (artefact / name).unlink()
    with pytest.raises(UserError, match=rf"{name}.*{message}|{message}"):
        build(artefact, BOARD)


def test_a_read_only_home_is_no_obstacle(
    firmware: Path, artefact: Path, tmp_path: Path
) -> None:
    """Objects then stay with the artefact."""
    (tmp_path / "cache").write_text("a file where the cache should be")
    assert output(build(artefact, BOARD)).endswith(" 42 3")
    assert 3 == len(list(artefact.glob("build/toy/objects/*.o")))


def test_a_read_only_cache_is_no_obstacle(
    firmware: Path, artefact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that exists but may not be written is passed over."""
    cache = tmp_path / "cache/objects"
    cache.mkdir(parents=True)
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda p, m: p != cache and allowed(p, m))
    assert output(build(artefact, BOARD)).endswith(" 42 3")
    assert 3 == len(list(artefact.glob("build/toy/objects/*.o")))


@pytest.mark.parametrize("name", ["build", "build/toy", "build/toy/.lock"])
def test_a_place_that_cannot_be_written_is_the_users(
    name: str, firmware: Path, artefact: Path
) -> None:
    """A file where a folder must be, or the reverse, is named in one message."""
    place = artefact / name
    if name.endswith(".lock"):
        place.mkdir(parents=True)
    else:
        place.parent.mkdir(exist_ok=True)
        place.write_text("in the way")
    with pytest.raises(UserError, match=rf"cannot build in .*{name}.*can be written"):
        build(artefact, BOARD)


def test_old_objects_are_forgotten(
    firmware: Path, artefact: Path, tmp_path: Path
) -> None:
    """What no build used for a month goes."""
    build(artefact, BOARD)
    cache = tmp_path / "cache/objects"
    stale = cache / "stale.o"
    stale.touch()
    os.utime(stale, (0, 0))
    write_model(artefact, 1)
    build(artefact, BOARD)
    assert not stale.exists()
    assert len(list(cache.iterdir())) == 5
