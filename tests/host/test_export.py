"""The exported component: builds with a C compiler alone, and checks itself."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from cbuild import IEEE, STRICT, compilers

from refoldc import compile_model
from refoldc.errors import RefoldcError

from refold.cli import status
from refold.data import load_data
from refold.errors import UserError
from refold.export import export
from refold.resources import bundled_model

LAYOUT = {
    *("CMakeLists.txt", "LICENSE", "README.md", "idf_component.yml"),
    *("examples", "include", "model.c", "model.h", "src"),
}

needs_cmake = pytest.mark.skipif(
    shutil.which("cmake") is None and not os.environ.get("CI"),
    reason="no cmake on PATH",
)


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled bundled network."""
    out = tmp_path_factory.mktemp("digits") / "digits.refold"
    digits = load_data("digits", split="train", limit=64)
    compile_model(bundled_model(), digits.images, out)
    return out


@pytest.fixture(scope="module")
def component(artefact: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return its export, which no test changes."""
    out = tmp_path_factory.mktemp("component") / "digits"
    export(artefact, out)
    return out


def listed(component: Path, name: str) -> list[Path]:
    """Return the files of one list in CMakeLists.txt."""
    text = (component / "CMakeLists.txt").read_text()
    found = re.search(rf"set\({name}\n(.*?)\n\)", text, re.DOTALL)
    assert found is not None
    return [component / part for part in re.findall(r'"([^"]+)"', found[1])]


def build_example(
    component: Path, output: Path, *, cc: str = "cc", simd: bool = False
) -> Path:
    """Compile the example with the files that CMakeLists.txt lists."""
    sources = listed(component, "sources")
    if simd:
        sources += listed(component, "esp32s3_sources")
    flags = ["-O1", *IEEE, *STRICT, *(["-DREFOLD_ESP32S3"] if simd else [])]
    example = component / "examples/main/main.c"
    folders = [f"-I{component / 'include'}", f"-I{component}"]
    command = [*shlex.split(cc), *flags, *folders, example, *sources, "-lm"]
    subprocess.run([*command, "-o", output], check=True)
    return output


def contents(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


# --- builds ----------------------------------------------------------------------


def test_the_component_has_its_layout(component: Path) -> None:
    """Nothing is missing and nothing of refold's own firmware is there."""
    assert {path.name for path in component.iterdir()} == LAYOUT
    names = set(contents(component))
    assert {"examples/main/main.c", "include/refold/refold.h"} <= names
    assert [] == [n for n in names if re.search("link|port|x86|frames", n)]


@pytest.mark.parametrize("constants", [100_000, 1_400_000, 3_000_000])
def test_the_example_has_flash_for_the_network(
    constants: int,
    artefact: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its application's partition is aligned, and within the flash it asks for."""
    sizes = SimpleNamespace(constants=lambda *, packed: constants * (1 + packed) // 2)
    monkeypatch.setattr("refold.export.measure", lambda *_: sizes)
    export(artefact, tmp_path / "out")
    examples = tmp_path / "out/examples"
    app = (examples / "partitions.csv").read_text().splitlines()[-1]
    offset, size = (int(word, 0) for word in app.split(", ")[3:])
    settings = (examples / "sdkconfig.defaults").read_text()
    assert (0, 0) == (offset % 0x10000, size % 0x10000)
    assert constants + 2**19 <= size < constants + 2**19 + 0x10000
    least = next(mb for mb in (2, 4, 8) if offset + size <= mb * 2**20)
    assert [str(least)] == re.findall(r"FLASHSIZE_(\d+)MB", settings)


@pytest.mark.parametrize("cc", compilers(), ids=lambda cc: shlex.split(cc)[-1])
def test_the_example_passes_with_every_compiler(
    cc: str, component: Path, tmp_path: Path
) -> None:
    """Every golden logit is computed, without a warning."""
    example = build_example(component, tmp_path / "example", cc=cc)
    done = subprocess.run([example], capture_output=True, text=True, check=False)
    assert (0, "PASS") == (done.returncode, done.stdout.splitlines()[-1])
    assert 4 == done.stdout.count(": 0 of 10 logits differ")


def test_the_simd_kernels_build_from_it(component: Path, tmp_path: Path) -> None:
    """With the ESP32-S3's kernels, on their C model, it computes the same."""
    example = build_example(component, tmp_path / "example", simd=True)
    done = subprocess.run([example], capture_output=True, text=True, check=False)
    assert (0, "PASS") == (done.returncode, done.stdout.splitlines()[-1])


def test_the_example_can_fail(component: Path, tmp_path: Path) -> None:
    """One wrong logit is found, and the exit code says so."""
    changed = tmp_path / "changed"
    shutil.copytree(component, changed)
    golden = changed / "examples/main/golden.h"
    head, logits = golden.read_text().split("golden_logits[")
    wrong = re.sub(r"\{\n    -?\d+", "{\n    123456", logits, count=1)
    golden.write_text(f"{head}golden_logits[{wrong}")
    example = build_example(changed, tmp_path / "example")
    done = subprocess.run([example], capture_output=True, text=True, check=False)
    assert (1, "FAIL") == (done.returncode, done.stdout.splitlines()[-1])
    assert "image 0: 1 of 10 logits differ" in done.stdout


def test_its_readme_builds_it_without_python(component: Path, tmp_path: Path) -> None:
    """The commands there are all it takes; Python is out of reach."""
    place = tmp_path / "component"
    shutil.copytree(component, place)
    broken = tmp_path / "bin"
    broken.mkdir()
    for name in ("python", "python3"):
        (broken / name).write_text("#!/bin/sh\nexit 1\n")
        (broken / name).chmod(0o755)
    (commands,) = re.findall(
        r"^```sh\n(.*?)^```",
        (place / "README.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    done = subprocess.run(
        ["sh", "-ec", commands],
        cwd=place,
        env={**os.environ, "PATH": f"{broken}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "PASS" == done.stdout.splitlines()[-1]


@needs_cmake
def test_cmake_builds_it(component: Path, tmp_path: Path) -> None:
    """A project adds the folder and links the library, without flags of its own."""
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(user C)\n"
        f"add_subdirectory({component.as_posix()} model)\n"
        f"add_executable(example {component.as_posix()}/examples/main/main.c)\n"
        "target_link_libraries(example refold_model)\n"
    )
    build = tmp_path / "build"
    for command in (
        ["cmake", "-S", tmp_path, "-B", build],
        ["cmake", "--build", build],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert 0 == done.returncode, done.stdout + done.stderr
    done = subprocess.run(
        [build / "example"], capture_output=True, text=True, check=True
    )
    assert "PASS" == done.stdout.splitlines()[-1]


def idf_sources(component: Path, target: str, folder: Path) -> tuple[list[str], str]:
    """Return sources and definitions that CMakeLists.txt gives ESP-IDF for a chip."""
    script = folder / "idf.cmake"
    script.write_text(
        "set(ESP_PLATFORM 1)\nset(COMPONENT_LIB component)\n"
        f"function(idf_build_get_property name what)\n set(${{name}} {target} "
        "PARENT_SCOPE)\nendfunction()\n"
        'function(idf_component_register)\n message(STATUS "${ARGN}")\n'
        "endfunction()\n"
        'function(target_compile_definitions)\n message(STATUS "D ${ARGN}")\n'
        "endfunction()\nfunction(target_compile_options)\n"
        ' message(STATUS "O ${ARGN}")\nendfunction()\n'
        f"include({component.as_posix()}/CMakeLists.txt)\n"
    )
    done = subprocess.run(
        ["cmake", "-P", script], capture_output=True, text=True, check=True
    )
    registered, definitions, options = done.stdout.replace("-- ", "").splitlines()
    assert "-ffp-contract=off" in options
    return registered.split(";"), definitions


@needs_cmake
@pytest.mark.parametrize(("target", "simd"), [("esp32s3", True), ("esp32c3", False)])
def test_esp_idf_gets_the_simd_kernels_for_their_chip(
    target: str, simd: bool, component: Path, tmp_path: Path
) -> None:
    """Every listed file exists; those of the ESP32-S3 are for it alone."""
    words, definitions = idf_sources(component, target, tmp_path)
    sources = [word for word in words if word.endswith(".c")]
    assert [] == [name for name in sources if not (component / name).is_file()]
    assert simd == any("esp32s3" in name for name in sources)
    assert simd == ("REFOLD_ESP32S3" in definitions)
    assert ["INCLUDE_DIRS", "include", "."] == words[-3:]


def test_the_lists_hold_every_source(component: Path) -> None:
    """What is exported is compiled, but for the example."""
    lists = [*listed(component, "sources"), *listed(component, "esp32s3_sources")]
    found = [*(component / "src").rglob("*.c"), component / "model.c"]
    assert sorted(found) == sorted(lists)


# --- the folder --------------------------------------------------------------------


def test_equal_artefacts_give_equal_bytes(artefact: Path, tmp_path: Path) -> None:
    """Nothing of the time, the machine or the place gets in."""
    export(artefact, tmp_path / "one")
    export(artefact, tmp_path / "two")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_strange_name_stays_in_its_comment(artefact: Path, tmp_path: Path) -> None:
    """The name of the ONNX file is the user's, and the build files are code."""
    strange = tmp_path / "strange"
    shutil.copytree(artefact, strange)
    manifest = json.loads((strange / "refold.json").read_text())
    manifest["model"]["name"] = 'a"b\\\nmessage(FATAL_ERROR no)'
    (strange / "refold.json").write_text(json.dumps(manifest))
    export(strange, tmp_path / "out")
    lines = (tmp_path / "out/CMakeLists.txt").read_text().splitlines()
    assert lines[0].endswith('a"b\\?message(FATAL_ERROR no).')


def test_an_earlier_export_is_replaced(artefact: Path, tmp_path: Path) -> None:
    """As a whole: what is no longer part of it goes."""
    out = tmp_path / "component"
    export(artefact, out)
    (out / "src/old.c").write_text("")
    export(artefact, out)
    assert not (out / "src/old.c").exists()
    assert ["component"] == [path.name for path in tmp_path.iterdir()]


def test_another_folder_is_left_alone(artefact: Path, tmp_path: Path) -> None:
    """Unless it is forced."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    with pytest.raises(UserError, match=r"no earlier export; .*--force"):
        export(artefact, tmp_path / "mine")
    assert ["letter.txt"] == [path.name for path in (tmp_path / "mine").iterdir()]
    export(artefact, tmp_path / "mine", force=True)
    assert {path.name for path in (tmp_path / "mine").iterdir()} == LAYOUT


def test_a_failure_loses_nothing(
    artefact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk leaves the earlier export as it was, and nothing beside it."""
    out = tmp_path / "component"
    export(artefact, out)
    before = contents(out)

    def full(*_: object) -> Iterator[str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("refold.export.render_golden", full)
    with pytest.raises(UserError, match="cannot be written: No space left"):
        export(artefact, out)
    assert before == contents(out)
    assert ["component"] == [path.name for path in tmp_path.iterdir()]


def test_what_is_no_artefact_is_named(tmp_path: Path) -> None:
    """With the command that makes one, and nothing written."""
    with pytest.raises(RefoldcError, match=r"no compiled model.*refold compile"):
        export(tmp_path, tmp_path / "out")
    assert [] == list(tmp_path.iterdir())


def test_the_command_exports(
    artefact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says where to read on."""
    out = tmp_path / "component"
    assert 0 == status(["export", str(artefact), "-o", str(out)])
    assert f"{out}: README.md there" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == LAYOUT
