"""What a chip says after it was flashed, or why it says nothing."""

from __future__ import annotations

import pytest
from chip import Chip
from usb import CHIPS_OWN, attach_in_turn, usb_port
from virtual_device import BUILD, VirtualDevice

from refold import boot
from refold.boot import Boot
from refold.errors import InfraError
from refold.place import Place

NOWHERE = "1"
"""TCP port of a bootloader that these tests do not have."""


@pytest.fixture(autouse=True)
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten what only real chips need."""
    monkeypatch.setattr(boot, "RESET_S", 0.01)
    monkeypatch.setattr(boot, "BOOT_LOG_S", 0.6)


@pytest.mark.parametrize(
    ("said", "message", "rescued"),
    [
        (
            b"boot:0x3 (DOWNLOAD)\r\nwaiting for download\r\n",
            "written and verified, but no firmware answers: the chip stays in dow",
            True,
        ),
        (b"invalid header: 0xffffffff\r\n", "its ROM finds no bootloader", False),
        (b"E (29) boot: No bootable app\r\n", "finds no program: the app", False),
        (b"Guru Meditation Error: Core 0\r\n", "ends with 'Guru Meditation Er", False),
        (b"", "the chip is silent: press RESET", False),
    ],
    ids=["download", "no-bootloader", "no-app", "panic", "silent"],
)
def test_firmware_that_does_not_answer_is_diagnosed(
    said: bytes, message: str, rescued: bool
) -> None:
    """The boot log says what to do; only download mode is worth a rescue."""
    asked: list[str] = []
    with Chip(NOWHERE, boot_log=said) as chip:
        place = Place(chip.url)
        there = Boot(place, 921600, None, wait_s=0.3, leave_download=asked.append)
        with pytest.raises(InfraError, match=message):
            there.await_hello()
    assert [chip.url] * rescued == asked


def test_a_usb_chip_may_come_back_under_another_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is found by its serial number."""
    with VirtualDevice(tcp=True) as device, Chip(NOWHERE, device) as chip:
        away = Place("/dev/ttyACM0", serial_number="30:AE:A4", usb_path="1-2")
        attach_in_turn(
            monkeypatch,
            [[], [], [usb_port(chip.url, CHIPS_OWN, "30:AE:A4", "1-2")]],
        )
        there = Boot(away, 921600, BUILD.hex(), wait_s=5)
        assert BUILD.hex() == there.await_hello().build_hash


def test_a_port_that_stays_away_is_infrastructure() -> None:
    """It was there before: the user's input is not at fault."""
    there = Boot(Place("/dev/gone-with-the-reset"), 921600, None, wait_s=0.3)
    with pytest.raises(InfraError, match="it was there before the chip was flashed"):
        there.await_hello()
