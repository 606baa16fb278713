"""Flashing with the real esptool: a mock bootloader, and a line with faults."""

from __future__ import annotations

import dataclasses
import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from chip import Chip, Disturbed, bootloader, read_flash
from virtual_device import BUILD, Script, VirtualDevice

from refold.boards import Board, Flash, load_board
from refold.deadline import Deadline
from refold.errors import InfraError, UserError
from refold.faults import Fault
from refold.flash import FlashPatience, flash
from refold.images import FlashImages, Image, write_images

HASTE = FlashPatience(overhead_s=20, hello_s=1)
QUICK = """[esptool]
timeout = 1
connect_attempts = 2
md5_timeout_per_mb = 1
erase_write_timeout_per_mb = 1
erase_region_timeout_per_mb = 1
serial_write_timeout = 2
"""
"""esptool's own patience, cut short."""


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Board:
    """Return the ESP32-S3 board, and let esptool give up early."""
    config = tmp_path / "esptool.cfg"
    config.write_text(QUICK)
    monkeypatch.setenv("ESPTOOL_CFGFILE", str(config))
    return load_board("esp32s3-devkitc-1")


@pytest.fixture
def mock(tmp_path: Path) -> Iterator[str]:
    """Yield the TCP port of a fresh mock bootloader."""
    with bootloader(tmp_path) as port:
        yield port


@pytest.fixture
def images(tmp_path: Path) -> FlashImages:
    """Return two images, listed as a build lists them; they do not compress."""
    noise = random.Random(5)
    (tmp_path / "boot.bin").write_bytes(noise.randbytes(3000))
    (tmp_path / "app.bin").write_bytes(noise.randbytes(60_000))
    listed = (Image(offset=0, file="boot.bin"), Image(offset=0x10000, file="app.bin"))
    found = FlashImages(chip="esp32s3", build_hash=BUILD.hex(), images=listed)
    write_images(tmp_path, found)
    return found


def at_rates(board: Board, *bauds: int) -> Board:
    """The board with another ladder."""
    ladder = Flash(method="esptool", chip="esp32s3", bauds=bauds)
    return msgspec.structs.replace(board, flash=ladder)


def firmware() -> VirtualDevice:
    """What answers once the images are written."""
    return VirtualDevice(tcp=True)


def assert_written(mock: str, images: FlashImages, folder: Path) -> None:
    """The flash holds every byte of each image."""
    for image in images.images:
        expected = (folder / image.file).read_bytes()
        assert expected == read_flash(mock, image.offset, len(expected))


# --- a good line -----------------------------------------------------------------


def test_images_are_written_and_the_firmware_greeted(
    board: Board, mock: str, images: FlashImages, tmp_path: Path
) -> None:
    """Everything is in flash, at the first rate, and the build's firmware answers."""
    with firmware() as device, Chip(mock, device) as chip:
        done = flash(tmp_path, images, board, chip.url, patience=HASTE)
    assert (2, 0) == (done.images.written, done.images.unchanged)
    assert (921600, "", BUILD.hex()) == (
        done.baud,
        done.failures,
        done.hello.build_hash,
    )
    assert done.images.mac.startswith("24:0a:c4:"), "Espressif's, as the mock has it"
    assert_written(mock, images, tmp_path)


def test_only_what_changed_is_written(
    board: Board, mock: str, images: FlashImages, tmp_path: Path
) -> None:
    """What the chip says it has already is left alone, whoever wrote it."""
    with firmware() as device, Chip(mock, device) as chip:
        flash(tmp_path, images, board, chip.url, patience=HASTE)
    (tmp_path / "boot.bin").write_bytes(bytes(range(250)) * 12)
    counts = []
    for _ in range(2):
        with firmware() as device, Chip(mock, device) as chip:
            done = flash(tmp_path, images, board, chip.url, patience=HASTE)
        counts.append((done.images.written, done.images.unchanged))
    assert [(1, 1), (0, 2)] == counts
    assert_written(mock, images, tmp_path)


def test_a_serial_device_is_flashed(
    board: Board, images: FlashImages, tmp_path: Path
) -> None:
    """Behind a pty, with its exclusive lock and without its lines; nobody answers."""
    with (
        bootloader(tmp_path, pty=True) as path,
        pytest.raises(InfraError, match="verified, but no firmware answers: the chip"),
    ):
        flash(tmp_path, images, board, path, patience=HASTE)


# --- faults on the line ------------------------------------------------------------

MIDDLE = 40_000
"""Bytes to the chip: the stub has been loaded, an image is under way."""
FAULTS = {
    "lost-to-chip": ("chip", Fault("drop", MIDDLE, count=5)),
    "silence-later": ("host", Fault("drop", 700, count=10**6)),
    "damaged-to-chip": ("chip", Fault("corrupt", MIDDLE, count=3)),
    "damaged-to-host": ("host", Fault("corrupt", 700, count=3)),
    "delayed": ("chip", Fault("delay", MIDDLE, seconds=4.0)),
    "cut": ("chip", Fault("disconnect", MIDDLE)),
}
MORE_FAULTS = {
    "silence-at-first": ("host", Fault("drop", 0, count=10**6)),
    "lost-to-host": ("host", Fault("drop", 700, count=5)),
    "damaged-stub": ("chip", Fault("corrupt", 3000, count=2)),
    "cut-at-first": ("chip", Fault("disconnect", 20)),
    "cut-in-an-answer": ("host", Fault("disconnect", 700)),
}


@pytest.mark.parametrize(
    "fault",
    [
        *(pytest.param(fault, id=name) for name, fault in FAULTS.items()),
        *(
            pytest.param(fault, id=name, marks=pytest.mark.slow)
            for name, fault in MORE_FAULTS.items()
        ),
    ],
)
def test_a_fault_is_survived(
    fault: Disturbed, board: Board, mock: str, images: FlashImages, tmp_path: Path
) -> None:
    """After one fault of any kind the images are written all the same."""
    with firmware() as device, Chip(mock, device, faults=[fault]) as chip:
        done = flash(tmp_path, images, board, chip.url, patience=HASTE)
    assert chip.connections > bool(done.failures)
    assert_written(mock, images, tmp_path)


def test_a_slower_rate_is_tried_after_two_failures(
    board: Board, mock: str, images: FlashImages, tmp_path: Path
) -> None:
    """The result says which rate worked, and what failed before."""
    with firmware() as device, Chip(mock, device, fastest=500_000) as chip:
        done = flash(tmp_path, images, board, chip.url, patience=HASTE)
    assert (2, 460800) == (done.images.written, done.baud)
    assert {"921600"} == set(re.findall(r"(\d+) baud: ", done.failures))
    assert_written(mock, images, tmp_path)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            ("host", Fault("drop", 0, count=10**7)),
            r"no serial data received.*hold BOOT",
        ),
        (
            ("chip", Fault("disconnect", MIDDLE)),
            r"921600 baud: .*; 115200 baud: .*; use a s",
        ),
        (
            ("chip", Fault("corrupt", 9000, 10**7)),
            r"921600 baud: .*; 115200 baud: .*; use a s",
        ),
    ],
    ids=["silent", "cut", "damaged"],
)
def test_a_line_that_stays_bad_is_infrastructure(
    fault: Disturbed,
    message: str,
    board: Board,
    mock: str,
    images: FlashImages,
    tmp_path: Path,
) -> None:
    """No hang and no false success: one message, exit 3."""
    once = dataclasses.replace(HASTE, tries=1)
    two_rates = at_rates(board, 921600, 115200)
    with (
        firmware() as device,
        Chip(mock, device, always=fault) as chip,
        pytest.raises(InfraError, match=message) as error,
    ):
        flash(tmp_path, images, two_rates, chip.url, patience=once)
    assert 3 == error.value.exit_code
    assert [] == device.heard, "nobody may be greeted who was not flashed"


def test_a_try_has_a_deadline(
    board: Board, mock: str, images: FlashImages, tmp_path: Path
) -> None:
    """esptool is ended where it waits longer than the images can take."""
    slow = ("chip", Fault("delay", MIDDLE, seconds=3.0))
    patience = dataclasses.replace(HASTE, tries=1, overhead_s=1.0, slowness=0.1)
    with (
        Chip(mock, always=slow) as chip,
        pytest.raises(InfraError, match="921600 baud: no end after 1 s"),
    ):
        flash(tmp_path, images, at_rates(board, 921600), chip.url, patience=patience)


def test_the_deadline_ends_all_tries(
    board: Board, mock: str, images: FlashImages, tmp_path: Path
) -> None:
    """A try that it cuts short is not repeated; the phase is named."""
    slow = ("chip", Fault("delay", MIDDLE, seconds=8.0))
    patience = dataclasses.replace(HASTE, deadline=Deadline(3))
    began = time.monotonic()
    with Chip(mock, always=slow) as chip:
        with pytest.raises(InfraError, match="phase flash: the deadline of 3 s has"):
            flash(tmp_path, images, board, chip.url, patience=patience)
        took = time.monotonic() - began
    assert took < 7


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(30))
def test_random_faults_end_well_or_are_told(
    seed: int, board: Board, mock: str, images: FlashImages, tmp_path: Path
) -> None:
    """Wherever lines fail, success means that the flash holds the images."""
    generator = random.Random(seed)
    faults = [
        (
            generator.choice(["chip", "host"]),
            Fault(
                generator.choice(["drop", "corrupt", "delay", "disconnect"]),
                at=int(10 ** generator.uniform(0, 4.9)),
                count=int(10 ** generator.uniform(0, 4)),
                seconds=2.0,
            ),
        )
        for _ in range(generator.randint(1, 6))
    ]
    with firmware() as device, Chip(mock, device, faults=faults) as chip:
        try:
            flash(tmp_path, images, board, chip.url, patience=HASTE)
        except InfraError:
            return
    assert_written(mock, images, tmp_path)


# --- the firmware ------------------------------------------------------------------


def test_silent_firmware_is_no_success(
    board: Board, mock: str, images: FlashImages, tmp_path: Path
) -> None:
    """The images are written and verified, and still the command fails."""
    words = "written and verified, but no firmware answers: the chip is silent"
    with Chip(mock) as chip, pytest.raises(InfraError, match=words):
        flash(tmp_path, images, board, chip.url, patience=HASTE)
    assert_written(mock, images, tmp_path)


def test_a_chip_that_stays_in_download_mode_is_reset_by_its_watchdog(
    board: Board, mock: str, images: FlashImages, tmp_path: Path
) -> None:
    """Where that helps, nobody needs to press a button."""
    said = b"waiting for download\r\n"
    with (
        firmware() as device,
        Chip(mock, device, awake_after=2, boot_log=said) as chip,
    ):
        done = flash(tmp_path, images, board, chip.url, patience=HASTE)
    assert (2, BUILD.hex()) == (chip.connections, done.hello.build_hash)


def test_other_firmware_is_refused(
    board: Board, mock: str, images: FlashImages, tmp_path: Path
) -> None:
    """A chip that goes on with an old build was not flashed."""
    old = VirtualDevice(Script(build_hash=bytes(8)), tcp=True)
    with (
        old,
        Chip(mock, old) as chip,
        pytest.raises(UserError, match=f"expected build {BUILD.hex()}.*erase-fl"),
    ):
        flash(tmp_path, images, board, chip.url, patience=HASTE)


# --- the user's mistakes -----------------------------------------------------------


def test_another_chip_is_the_users_mistake(
    board: Board, images: FlashImages, tmp_path: Path
) -> None:
    """It is told at once, without a second try."""
    with (
        bootloader(tmp_path, chip="esp32c3") as mock,
        Chip(mock) as chip,
        pytest.raises(UserError, match="the chip is an ESP32-C3, the images are"),
    ):
        flash(tmp_path, images, board, chip.url, patience=HASTE)
    assert 1 == chip.connections


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flash": None}, "is not flashed: 'refold run' starts its firmware"),
        ({"flash": Flash(method="esptool", chip="esp32c3")}, "are for chip esp32s3, "),
    ],
    ids=["started", "another-chip"],
)
def test_a_board_that_does_not_suit_is_refused(
    change: dict[str, object],
    message: str,
    board: Board,
    images: FlashImages,
    tmp_path: Path,
) -> None:
    """Before anything is opened."""
    other = msgspec.structs.replace(board, **change)
    with pytest.raises(UserError, match=message):
        flash(tmp_path, images, other, "socket://127.0.0.1:1")


def test_a_missing_port_is_named(
    board: Board, images: FlashImages, tmp_path: Path
) -> None:
    """The message is the one of every other command."""
    port = str(tmp_path / "ttyUSB0")
    with pytest.raises(UserError, match="does not exist; serial ports on this comp"):
        flash(tmp_path, images, board, port)


@pytest.mark.parametrize(
    ("listed", "message"),
    [
        ((), "0 images at 0 offsets"),
        ((0, 0), "2 images at 1 offsets: expected one or more, each at its own"),
    ],
)
def test_no_image_is_lost_unnoticed(
    listed: tuple[int, ...],
    message: str,
    board: Board,
    images: FlashImages,
    tmp_path: Path,
) -> None:
    """None, or two for one place, are told before anything is opened."""
    two = tuple(Image(offset=offset, file="app.bin") for offset in listed)
    wrong = msgspec.structs.replace(images, images=two)
    with pytest.raises(UserError, match=message):
        flash(tmp_path, wrong, board, "socket://127.0.0.1:1")


def test_an_empty_image_is_named(
    board: Board, images: FlashImages, tmp_path: Path
) -> None:
    """A build that was cut short left it."""
    (tmp_path / "app.bin").write_bytes(b"")
    with pytest.raises(UserError, match=r"app\.bin is empty; build again"):
        flash(tmp_path, images, board, "socket://127.0.0.1:1")


def test_overlapping_images_are_refused(
    board: Board, mock: str, images: FlashImages, tmp_path: Path
) -> None:
    """esptool's word for it ends the ladder."""
    near = Image(offset=0x400, file="app.bin")
    wrong = msgspec.structs.replace(images, images=(images.images[0], near))
    with (
        firmware() as device,
        Chip(mock, device) as chip,
        pytest.raises(UserError, match=r"do not fit .*; correct their offsets"),
    ):
        flash(tmp_path, wrong, board, chip.url, patience=HASTE)
