"""Boards on other computers: the link and flashing by RFC 2217 and raw sockets."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from chip import Chip, bootloader, read_flash
from rfc2217_server import Rfc2217Server
from small_model import make_images, write_data, write_model
from virtual_device import BUILD, VirtualDevice

from refoldc import compile_model

from refold.boards import load_board
from refold.build import build
from refold.cli import status
from refold.device import Device
from refold.errors import UserError
from refold.esptool import read_mac
from refold.flash import FlashPatience, flash
from refold.images import FlashImages, Image, write_images
from refold.link import open_link
from refold.link_check import check_link
from refold.lock import hold
from refold.place import Place
from refold.process import spawn
from refold.result import load_result

UART = load_board("esp32s3-devkitc-1")
OWN = load_board("esp32s3-devkitc-1-usb")
HASTE = FlashPatience(overhead_s=30, hello_s=2)

# pyserial names its reader thread by methods that Python deprecates.
pytestmark = pytest.mark.filterwarnings("ignore:set(Daemon|Name):DeprecationWarning")


# --- the link ----------------------------------------------------------------


def test_frames_cross_an_rfc2217_port() -> None:
    """Of every size and content: telnet's escapes are undone, the rate is set."""
    with (
        VirtualDevice(tcp=True) as device,
        Rfc2217Server(device.url) as server,
        open_link(server.url, baud=460800) as link,
    ):
        report = check_link(link, Device(link).hello(), rounds=4)
    assert (0, 0) == (report.lost, report.differing)
    assert 460800 == server.bauds[-1]


def test_an_rfc2217_port_without_a_server_is_told(free_port: int) -> None:
    """It is the user's: the server does not run."""
    with pytest.raises(UserError, match="check that the RFC 2217 server runs"):
        open_link(f"rfc2217://127.0.0.1:{free_port}")


@pytest.fixture
def free_port() -> int:
    """Return a TCP port at which nothing listens."""
    with VirtualDevice(tcp=True) as device:
        return int(device.url.rpartition(":")[2])


# --- two boards in parallel --------------------------------------------------


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small network, compiled and built, with its data beside it."""
    folder = tmp_path_factory.mktemp("remote")
    write_data(folder / "data.npz", 8)
    compile_model(write_model(folder / "m.onnx"), make_images(64), folder / "a")
    build(folder / "a", load_board("native"))
    return folder / "a"


def start(artefact: Path, words: Sequence[str]) -> subprocess.Popen[str]:
    """Begin a short run as a process of its own."""
    fixed = ("--data", f"npz:{artefact.parent / 'data.npz'}", "--corruptions", "fog")
    command = [sys.executable, "-m", "refold", "run", str(artefact), *fixed, *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def test_two_remote_boards_run_in_parallel(
    artefact: Path, user_boards: Path, tmp_path: Path
) -> None:
    """Each under its own name: one by RFC 2217, one by a raw socket."""
    firmware = str(build(artefact, load_board("native")).executable)
    with (
        spawn([firmware, "--tcp", "0"]) as one,
        spawn([firmware, "--tcp", "0"]) as two,
        Rfc2217Server(one) as server,
    ):
        user_boards.parent.mkdir(parents=True)
        user_boards.write_text(
            f'[left]\nboard = "native"\nurl = "{server.url}"\n'
            f'[right]\nboard = "native"\nurl = "{two}"\n'
        )
        files = {name: tmp_path / f"{name}.json" for name in ("left", "right")}
        runs = [
            start(artefact, ["--port", name, "--json", str(file)])
            for name, file in files.items()
        ]
        said = [run.communicate(timeout=120)[1] for run in runs]
    assert [0, 0] == [run.returncode for run in runs], said
    results = {name: load_result(file) for name, file in files.items()}
    assert {"left": server.url, "right": two} == {
        name: result.board.port for name, result in results.items()
    }
    left, right = (
        [(s.correct, s.parity_mismatches) for run in result.runs for s in run.streams]
        for result in results.values()
    )
    assert left == right
    assert {0} == {mismatches for _, mismatches in left}


def test_a_remote_board_is_one_commands(
    artefact: Path, user_boards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name and by URL it is the same board."""
    url = "socket://127.0.0.1:9"
    user_boards.parent.mkdir(parents=True)
    user_boards.write_text(f'[left]\nboard = "native"\nurl = "{url}"\n')
    words = ("--data", f"npz:{artefact.parent / 'data.npz'}", "--adapt", "off")
    with hold(Place(url)):
        assert 2 == status(["run", str(artefact), *words, "--port", "left"])
    assert f"port {url} is in use by process {os.getpid()} " in capsys.readouterr().err


# --- flashing ----------------------------------------------------------------


@pytest.fixture
def images(tmp_path: Path) -> FlashImages:
    """Return one image, listed as a build lists it."""
    (tmp_path / "app.bin").write_bytes(bytes(range(256)) * 40)
    listed = (Image(offset=0x10000, file="app.bin"),)
    found = FlashImages(chip="esp32s3", build_hash=BUILD.hex(), images=listed)
    write_images(tmp_path, found)
    return found


def test_a_board_behind_rfc2217_is_flashed(images: FlashImages, tmp_path: Path) -> None:
    """The real esptool writes and verifies there, and the firmware is greeted."""
    with (
        bootloader(tmp_path) as mock,
        VirtualDevice(tcp=True) as device,
        Chip(mock, device) as chip,
        Rfc2217Server(chip.url) as server,
    ):
        done = flash(tmp_path, images, UART, server.url, patience=HASTE)
        written = read_flash(mock, 0x10000, 256 * 40)
    assert (1, BUILD.hex()) == (done.images.written, done.hello.build_hash)
    assert bytes(range(256)) * 40 == written
    assert {115200, 921600} <= set(server.bauds)


def test_a_raw_socket_is_warned_of(
    images: FlashImages, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It can be flashed, where somebody else sees to download mode and rate."""
    with (
        bootloader(tmp_path) as mock,
        VirtualDevice(tcp=True) as device,
        Chip(mock, device) as chip,
        caplog.at_level(logging.WARNING),
    ):
        flash(tmp_path, images, UART, chip.url, patience=HASTE)
    (warning,) = (
        record.getMessage()
        for record in caplog.records
        if record.levelno == logging.WARNING
    )
    assert "carries neither reset lines nor baud rates" in warning
    assert "the server at 115200 baud" in warning


@pytest.mark.parametrize("scheme", ["rfc2217", "socket"])
def test_a_remote_chips_own_port_is_refused(
    scheme: str, images: FlashImages, tmp_path: Path
) -> None:
    """esptool cannot restart it from afar; the message says where it can."""
    with pytest.raises(UserError, match=r"run 'refold flash' there \(lab:4000\)"):
        flash(tmp_path, images, OWN, f"{scheme}://lab:4000", patience=HASTE)


# --- the chip is the one that was meant ------------------------------------------


def test_the_macs_chip_is_flashed(
    images: FlashImages, tmp_path: Path, user_boards: Path
) -> None:
    """It is asked before anything is written."""
    with (
        bootloader(tmp_path) as mock,
        VirtualDevice(tcp=True) as device,
        Chip(mock, device) as chip,
    ):
        enter(user_boards, chip.url, read_mac(chip.url).upper())
        done = flash(tmp_path, images, UART, "left", patience=HASTE)
    assert 1 == done.images.written


def test_another_chip_is_left_alone(
    images: FlashImages, tmp_path: Path, user_boards: Path
) -> None:
    """Cables were swapped: both MACs are told, and its flash stays as it was."""
    with (
        bootloader(tmp_path) as mock,
        VirtualDevice(tcp=True) as device,
        Chip(mock, device) as chip,
    ):
        enter(user_boards, chip.url, "24:0A:C4:00:00:01")
        before = read_flash(mock, 0x10000, 256)
        message = r"has MAC 24:0a:c4:\S+, expected 24:0a:c4:00:00:01: another board is"
        with pytest.raises(UserError, match=message):
            flash(tmp_path, images, UART, "left", patience=HASTE)
        assert before == read_flash(mock, 0x10000, 256)
    assert [] == device.heard


def enter(file: Path, url: str, mac: str) -> None:
    """Name a board of which the chip's MAC is known."""
    file.parent.mkdir(parents=True)
    file.write_text(f'[left]\nboard = "{UART.id}"\nurl = "{url}"\nmac = "{mac}"\n')
