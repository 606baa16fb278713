"""``refold flash``: what it takes, says and exits with."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from chip import Chip, bootloader, read_flash
from virtual_device import BUILD, Script, VirtualDevice

from refoldc import compile_model
from refoldc.artefact import load_artefact

from refold import boards
from refold.boards import Board, load_board
from refold.cli import status
from refold.data import load_data
from refold.esp_build import prepare
from refold.images import FlashImages, Image, write_images
from refold.lock import hold
from refold.place import Place
from refold.placement import place
from refold.resources import boards_dir, bundled_model

BOARD = "esp32s3-devkitc-1"
FAKE_PIO = """
import json, os, sys
from pathlib import Path

step = "upload" if "--target" in sys.argv else "build"
work = Path(os.environ["PLATFORMIO_WORKSPACE_DIR"])
work.mkdir(parents=True, exist_ok=True)
(work / f"{step}.json").write_text(json.dumps(sys.argv[1:]))
print(f"{step} of {os.environ['REFOLD_ARTEFACT']}")
sys.exit(os.environ.get("FAKE_PIO_FAILS") == step)
"""


@pytest.fixture
def artefact(tmp_path: Path) -> Path:
    """Return a compiled model's folder with a build for the ESP32-S3 in it."""
    folder = tmp_path / "model.refold"
    directory = folder / "build" / BOARD
    directory.mkdir(parents=True)
    (directory / "app.bin").write_bytes(bytes(range(200)))
    listed = (Image(offset=0x10000, file="app.bin"),)
    images = FlashImages(chip="esp32s3", build_hash=BUILD.hex(), images=listed)
    write_images(directory, images)
    return folder


def flash_command(artefact: Path, port: str, *more: str, board: str = BOARD) -> int:
    """Run the command line."""
    return status(["flash", str(artefact), "--board", board, "--port", port, *more])


def test_it_writes_what_the_build_lists(
    artefact: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says which chip, how many images, which rate, and who answers."""
    with (
        bootloader(tmp_path) as mock,
        VirtualDevice(tcp=True) as device,
        Chip(mock, device) as chip,
    ):
        code = flash_command(artefact, chip.url)
        assert bytes(range(200)) == read_flash(mock, 0x10000, 200)
    said = capsys.readouterr().out
    assert (0, True) == (code, f"answers: virtual, build {BUILD.hex()}" in said)
    assert "1 images written and verified at 921600 baud; 0 unchanged" in said


def test_it_writes_named_files(artefact: Path, tmp_path: Path) -> None:
    """Prebuilt images need no build; any firmware may answer."""
    file = tmp_path / "a@b.bin"
    file.write_bytes(b"prebuilt" * 9)
    other = VirtualDevice(Script(build_hash=bytes(8)), tcp=True)
    with bootloader(tmp_path) as mock, other, Chip(mock, other) as chip:
        assert 0 == flash_command(artefact, chip.url, "--image", f"{file}@0x8000")
        assert b"prebuilt" * 9 == read_flash(mock, 0x8000, 72)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("app.bin", "expected FILE@OFFSET, such as app.bin@0x10000"),
        ("app.bin@here", "expected FILE@OFFSET"),
        ("app.bin@-4", "expected FILE@OFFSET"),
        ("app.bin@0", "app.bin is missing or empty; correct the path"),
    ],
)
def test_a_bad_image_is_refused(
    image: str, message: str, artefact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the port is touched."""
    assert 2 == flash_command(artefact, "/dev/none", "--image", image)
    assert message in capsys.readouterr().err


def test_a_spawned_board_is_not_flashed(
    artefact: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message says what starts its firmware."""
    assert 2 == flash_command(artefact, "/dev/none", board="native")
    assert "board native is not flashed: 'refold run'" in capsys.readouterr().err


def test_old_or_missing_esptool_is_told(
    artefact: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the command that installs the right one."""
    monkeypatch.setattr("refold.esptool.metadata.version", lambda _: "4.8.1")
    assert 2 == flash_command(artefact, "/dev/none")
    words = (
        "esptool 4.8.1: flashing needs esptool>=5.2,<6; run pip install 'refold[hw]'"
    )
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wait", "code", "words"),
    [((), 2, "or wait for it with --wait"), (("--wait", "0.05"), 3, "for 0.05 s")],
)
def test_a_board_in_use_is_not_flashed(
    wait: tuple[str, ...],
    code: int,
    words: str,
    artefact: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The message says whose it is; waiting in vain is infrastructure."""
    url = "socket://127.0.0.1:9"
    with hold(Place(url)):
        assert code == flash_command(artefact, url, *wait)
    said = capsys.readouterr().err
    assert f"in use by process {os.getpid()} " in said
    assert words in said


def test_a_name_of_yours_is_board_and_port(
    artefact: Path,
    tmp_path: Path,
    user_boards: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The board file's settings and the place come by one word."""
    user_boards.parent.mkdir(parents=True)
    with (
        bootloader(tmp_path) as mock,
        VirtualDevice(tcp=True) as device,
        Chip(mock, device) as chip,
    ):
        user_boards.write_text(f'[left]\nboard = "{BOARD}"\nurl = "{chip.url}"\n')
        assert 0 == status(["flash", str(artefact), "--board", "left"])
    assert f"{chip.url}: chip 24:0a:c4:" in capsys.readouterr().out


# --- PlatformIO --------------------------------------------------------------------


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the compiled bundled network."""
    out = tmp_path_factory.mktemp("digits") / "digits.refold"
    digits = load_data("digits", split="train", limit=64)
    compile_model(bundled_model(), digits.images, out)
    return out


@pytest.fixture
def pio_board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    """Let PlatformIO flash the board, and put a PlatformIO of ours first."""
    package = tmp_path / "modules/platformio"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(FAKE_PIO)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    folder = tmp_path / "boards"
    shutil.copytree(boards_dir(), folder)
    file = folder / f"{BOARD}.toml"
    file.write_text(file.read_text().replace('"esptool"', '"platformio"'))
    monkeypatch.setattr(boards, "boards_dir", lambda: folder)
    return load_board(BOARD)


def pio_build(artefact: Path, board: Board) -> bytes:
    """The hash of what PlatformIO would build."""
    placement = place(load_artefact(artefact).qgraph, board)
    return bytes.fromhex(prepare(artefact, board, placement, "platformio").build_hash)


def test_platformio_builds_then_uploads(
    compiled: Path, pio_board: Board, repo_root: Path
) -> None:
    """In the board's environment, within the artefact; then its build is awaited."""
    script = Script(build_hash=pio_build(compiled, pio_board))
    with VirtualDevice(script, tcp=True) as device, Chip("1", device) as chip:
        assert 0 == flash_command(compiled, chip.url)
    work = compiled / "build" / BOARD / "platformio"
    environment = ("--environment", pio_board.toolchain.env)
    run = ["run", "--project-dir", str(repo_root), *environment]
    assert run == json.loads((work / "build.json").read_text())
    to = ["--target", "upload", "--upload-port", chip.url]
    assert [*run, *to] == json.loads((work / "upload.json").read_text())


def test_what_platformio_did_not_upload_is_refused(
    compiled: Path, pio_board: Board, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its word for it is not enough: the firmware must be of this build."""
    with VirtualDevice(tcp=True) as device, Chip("1", device) as chip:
        assert 2 == flash_command(compiled, chip.url)
    expected = pio_build(compiled, pio_board).hex()
    assert f"expected build {expected}" in capsys.readouterr().err


@pytest.mark.parametrize(("step", "code"), [("build", 2), ("upload", 3)])
@pytest.mark.usefixtures("pio_board")
def test_platformios_failures_are_told_apart(
    step: str,
    code: int,
    compiled: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Sources that do not compile are the user's, a line that fails is not."""
    monkeypatch.setenv("FAKE_PIO_FAILS", step)
    with VirtualDevice(tcp=True) as device, Chip("1", device) as chip:
        assert code == flash_command(compiled, chip.url)
    assert f"{step} of {compiled.resolve()}" in capsys.readouterr().err
    assert [] == device.heard


def test_platformio_knows_the_options(pio_options: str) -> None:
    """Those that the fake takes without a look."""
    options = ("--project-dir", "--environment", "--target", "--upload-port")
    assert [] == [option for option in options if option not in pio_options]


@pytest.fixture
def pio_options() -> str:
    """Return what the real PlatformIO says of ``run``."""
    if importlib.util.find_spec("platformio") is None:
        words = "no platformio (pip install platformio)"
        if os.environ.get("CI"):
            pytest.fail(words)
        pytest.skip(words)
    command = [sys.executable, "-m", "platformio", "run", "--help"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
