"""``refold build`` for an ESP32-S3, with programs that stand for ESP-IDF's."""

from __future__ import annotations

import configparser
import json
import shlex
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
from port_harness import PORT

from refoldc.artefact import Artefact
from refoldc.errors import DoesNotFit

from refold import esp_tool
from refold.boards import Board, Memory, load_board
from refold.build import Build, build
from refold.errors import UserError
from refold.images import read_images

BOARD = load_board("esp32s3-devkitc-1")

PIO = """
project = Path(sys.argv[sys.argv.index("-d") + 1])
assert (project / "CMakeLists.txt").is_file()
ini = configparser.ConfigParser(inline_comment_prefixes=("#", ";"))
ini.read(project / "platformio.ini")
(name,) = [s for s in ini.sections() if s.startswith("env:")]
out = project / ".pio/build" / name.removeprefix("env:")
out.mkdir(parents=True, exist_ok=True)
for image in ("bootloader", "partitions", "firmware"):
    (out / f"{image}.bin").write_text(image)
"""
IDF = """
if "--version" in sys.argv:
    print("ESP-IDF v5.4.1")
    sys.exit()
out = Path(sys.argv[sys.argv.index("-B") + 1])
(out / "bootloader").mkdir(parents=True, exist_ok=True)
(out / "bootloader/bootloader.bin").write_text("bootloader")
(out / "partitions.bin").write_text("partitions")
(out / "refold.bin").write_text("firmware")
files = {"0x0": "bootloader/bootloader.bin", "0x10000": "refold.bin",
         "0x8000": "partitions.bin"}
(out / "flasher_args.json").write_text(json.dumps({"flash_files": files}))
"""
BAD = "print('error: no rule to make target'); sys.exit(3)\n"


@pytest.fixture
def model(artefact: Artefact, tmp_path: Path) -> Path:
    """Return a copy of the compiled network."""
    return Path(shutil.copytree(artefact.path, tmp_path / "model.refold"))


class Programs:
    """Programs on PATH; each notes how it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, body: str) -> None:
        """Put a program on PATH."""
        calls = self.folder / f"{name}.calls"
        script = self.folder / name
        script.write_text(
            f"#!{sys.executable}\nimport configparser, json, sys\n"
            f"from pathlib import Path\n"
            f"with open({str(calls)!r}, 'a') as file:\n"
            f"    print(json.dumps(sys.argv[1:]), file=file)\n{body}"
        )
        script.chmod(0o755)

    def calls(self, name: str) -> list[list[str]]:
        """How a program was called, its version apart."""
        path = self.folder / f"{name}.calls"
        lines = path.read_text().splitlines() if path.exists() else []
        calls = [json.loads(line) for line in lines]
        return [call for call in calls if call != ["--version"]]


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    """Return a PATH without any tool, to put programs on."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(esp_tool.importlib.util, "find_spec", lambda _: None)
    return Programs(folder)


def images(built: Build) -> dict[int, tuple[str, str]]:
    """Offset to name and content of what is to be flashed."""
    found = read_images(built.directory)
    assert ("esp32s3", built.build_hash) == (found.chip, found.build_hash)
    return {
        image.offset: (image.file, (built.directory / image.file).read_text())
        for image in found.images
    }


IMAGES = {
    0x0: ("bootloader.bin", "bootloader"),
    0x8000: ("partition-table.bin", "partitions"),
    0x10000: ("refold.bin", "firmware"),
}


def test_platformio_builds(model: Path, programs: Programs) -> None:
    """In a project of its own, whose settings name the port and the build."""
    programs.add("pio", PIO)
    built = build(model, BOARD)
    assert IMAGES == images(built)
    assert model / "build/esp32s3-devkitc-1" == built.directory
    assert built.directory / "refold.bin" == built.executable
    (call,) = programs.calls("pio")
    project = built.directory.resolve() / "project"
    assert ["run", "-d", str(project)] == call
    ini = configparser.ConfigParser(inline_comment_prefixes=("#", ";"))
    ini.read(project / "platformio.ini")
    environment = ini["env:esp32-s3-devkitc-1"]
    assert ("espidf", "esp32-s3-devkitc-1") == (
        environment["framework"],
        environment["board"],
    )
    assert PORT == Path(ini["platformio"]["src_dir"])
    arguments = shlex.split(environment["board_build.cmake_extra_args"])
    assert f"-DREFOLD_CONFIG={built.directory.resolve()}" in arguments
    (defaults,) = (a for a in arguments if a.startswith("-DSDKCONFIG_DEFAULTS="))
    files = [Path(name) for name in defaults.split("=", 1)[1].split(";")]
    assert ["sdkconfig.defaults", "sdkconfig.refold"] == [f.name for f in files]
    assert all(file.is_file() for file in files)


def test_idf_builds_where_it_is_activated(model: Path, programs: Programs) -> None:
    """It comes before PlatformIO, and says itself where the images belong."""
    programs.add("pio", PIO)
    programs.add("idf.py", IDF)
    built = build(model, BOARD)
    assert IMAGES == images(built)
    assert [] == programs.calls("pio")
    (call,) = programs.calls("idf.py")
    assert "build" == call[-1]
    assert str(PORT.parent) == call[call.index("-C") + 1]
    assert "-DIDF_TARGET=esp32s3" in call


def test_psram_has_its_settings(model: Path, programs: Programs) -> None:
    """Only on boards that have it."""
    programs.add("idf.py", IDF)
    build(model, load_board("esp32s3-devkitc-1-n8r8"))
    build(model, BOARD)
    first, second = programs.calls("idf.py")
    assert "sdkconfig.psram" in " ".join(first)
    assert "sdkconfig.psram" not in " ".join(second)


def test_what_is_up_to_date_is_left_alone(model: Path, programs: Programs) -> None:
    """Until the model changes, or an image is missing."""
    programs.add("pio", PIO)
    first = build(model, BOARD)
    assert first == build(model, BOARD)
    assert 1 == len(programs.calls("pio"))
    (first.directory / "bootloader.bin").unlink()
    assert first == build(model, BOARD)
    with (model / "model.c").open("a") as file:
        file.write("/* changed */\n")
    assert first.build_hash != build(model, BOARD).build_hash
    assert 3 == len(programs.calls("pio"))


def test_the_hash_does_not_depend_on_the_place(
    model: Path, programs: Programs, tmp_path: Path
) -> None:
    """Equal models, equal hashes; another builder makes another build."""
    programs.add("pio", PIO)
    first = build(model, BOARD)
    elsewhere = Path(shutil.copytree(model, tmp_path / "elsewhere"))
    assert first.build_hash == build(elsewhere, BOARD).build_hash
    programs.add("idf.py", IDF)
    assert first.build_hash != build(model, BOARD).build_hash


def test_changed_settings_discard_what_idf_made_of_the_old(
    model: Path, programs: Programs
) -> None:
    """ESP-IDF would go on with its sdkconfig."""
    programs.add("pio", PIO)
    directory = build(model, BOARD).directory
    (directory / "sdkconfig").write_text("CONFIG_REFOLD_WINDOW=4\n")
    build(model, BOARD)
    assert (directory / "sdkconfig").exists()
    link = msgspec.structs.replace(BOARD.link, baud=460800)
    build(model, msgspec.structs.replace(BOARD, link=link))
    assert not (directory / "sdkconfig").exists()


# --- failures ----------------------------------------------------------------


def test_want_of_a_tool_is_told(model: Path, programs: Programs) -> None:
    """What to install, and the other way."""
    with pytest.raises(UserError, match=r"refold\[hw\].*\. \$IDF_PATH/export\.sh"):
        build(model, BOARD)


def test_an_old_idf_is_refused(model: Path, programs: Programs) -> None:
    """The version that was found and the one that is needed."""
    programs.add("idf.py", "print('ESP-IDF v4.4.7')\n")
    with pytest.raises(UserError, match=r"ESP-IDF 4\.4, expected 5\.1 or later"):
        build(model, BOARD)


def test_a_large_model_fails_before_any_tool_is_looked_for(
    model: Path, programs: Programs
) -> None:
    """With numbers, and without a trace."""
    small: Board = msgspec.structs.replace(BOARD, memory=Memory(sram_bytes=9999))
    with pytest.raises(DoesNotFit, match="which has 9999"):
        build(model, small)
    assert not list((model / "build").rglob("sdkconfig*"))


def test_a_build_without_the_internet_says_so(model: Path, programs: Programs) -> None:
    """PlatformIO itself has only the name of an exception for it."""
    programs.add("pio", "print('HTTPClientError: ')\nsys.exit(1)\n")
    with pytest.raises(UserError, match="downloads ESP-IDF: connect to the internet"):
        build(model, BOARD)


@pytest.mark.parametrize("name", ["pio", "idf.py"])
def test_a_failed_build_shows_its_last_words(
    name: str, model: Path, programs: Programs
) -> None:
    """And says where all of them are; nothing is left to be flashed."""
    programs.add(name, "if '--version' in sys.argv: sys.exit()\n" + BAD)
    with pytest.raises(UserError, match=r"(?s)exited with 3.*build\.log.*no rule to"):
        build(model, BOARD)
    directory = model / "build/esp32s3-devkitc-1"
    assert "no rule to make" in (directory / "build.log").read_text()
    assert not (directory / "flash.json").exists()
