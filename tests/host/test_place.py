"""Where a board is, and where it is again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from usb import BRIDGE, OTHER, attach, attach_in_turn, usb_port

from refold.boards import load_board
from refold.errors import InfraError, UserError
from refold.place import Place, find_again, find_place

UART = load_board("esp32s3-devkitc-1")


def soon() -> float:
    """A deadline that a look or two take."""
    return time.monotonic() + 5


# --- no port is named --------------------------------------------------------


def test_the_only_board_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports of other interfaces do not count; its identity comes along."""
    attach(
        monkeypatch,
        usb_port("/dev/ttyUSB0", OTHER, "A1", "1-1"),
        usb_port("/dev/ttyUSB1", BRIDGE, "B2", "1-2"),
    )
    expected = Place("/dev/ttyUSB1", serial_number="B2", usb_path="1-2")
    assert expected == find_place(UART, None)


def test_none_of_several_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message lists them, in order, with what tells them apart."""
    attach(
        monkeypatch,
        usb_port("/dev/ttyUSB1", BRIDGE, "0001", "1-2.3"),
        usb_port("/dev/ttyUSB0", BRIDGE, usb_path="1-2.4"),
    )
    expected = (
        r"2 boards may be esp32s3-devkitc-1: /dev/ttyUSB0 \(usb:1-2\.4\), "
        r"/dev/ttyUSB1 \(serial number 0001, usb:1-2\.3\); name one"
    )
    with pytest.raises(UserError, match=expected):
        find_place(UART, None)


# --- a port is named ---------------------------------------------------------


def test_a_link_to_a_device_has_its_identity(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is opened by the name given and known by what is behind it."""
    device, link = tmp_path / "ttyUSB0", tmp_path / "refold-board"
    device.touch()
    link.symlink_to(device)
    attach(monkeypatch, usb_port(str(device), BRIDGE, "B2", "1-2"))
    place = find_place(UART, str(link))
    assert Place(str(link), serial_number="B2", usb_path="1-2") == place
    assert find_place(UART, str(device)).key == place.key


def test_a_remote_port_is_known_by_its_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this computer's USB belongs to it."""
    attach(monkeypatch, usb_port("/dev/ttyUSB0", BRIDGE, "B2", "1-2"))
    place = find_place(UART, "socket://lab:4000")
    assert (Place("socket://lab:4000"), place.url) == (place, place.key)


# --- it comes back -----------------------------------------------------------


def test_a_board_is_found_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is away the list is read again; another board is not taken for it."""
    other = usb_port("/dev/ttyUSB0", BRIDGE, "C3", "1-3")
    back = usb_port("/dev/ttyUSB2", BRIDGE, "B2", "1-2")
    attach_in_turn(monkeypatch, [[other], [other], [other, back]])
    place = Place("/dev/ttyUSB1", serial_number="B2", usb_path="1-2")
    assert "/dev/ttyUSB2" == find_again(place, soon())


def test_a_serial_number_is_followed_to_another_connector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Somebody moved the cable."""
    attach(monkeypatch, usb_port("/dev/ttyUSB2", BRIDGE, "B2", "1-7"))
    place = Place("/dev/ttyUSB1", serial_number="B2", usb_path="1-2")
    assert "/dev/ttyUSB2" == find_again(place, soon())


def test_doubles_are_told_apart_by_their_connector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Cheap bridges all have the same serial number."""
    attach(
        monkeypatch,
        usb_port("/dev/ttyUSB1", BRIDGE, "0001", "1-3"),
        usb_port("/dev/ttyUSB2", BRIDGE, "0001", "1-2"),
    )
    place = Place("/dev/ttyUSB1", serial_number="0001", usb_path="1-2")
    assert "/dev/ttyUSB2" == find_again(place, soon())


def test_without_a_serial_number_the_connector_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The CH340 has none."""
    attach(monkeypatch, usb_port("/dev/ttyUSB4", BRIDGE, None, "1-2"))
    place = Place("/dev/ttyUSB1", usb_path="1-2")
    assert "/dev/ttyUSB4" == find_again(place, soon())


def test_what_is_no_usb_is_where_it_was() -> None:
    """There is nothing to look for, so nothing is waited for."""
    assert "socket://lab:4000" == find_again(Place("socket://lab:4000"), 0)


def test_a_board_that_stays_away_is_infrastructure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """At the deadline; the message says what was looked for."""
    attach(monkeypatch)
    place = Place("/dev/ttyUSB1", serial_number="B2", usb_path="1-2")
    with pytest.raises(InfraError, match=r"did not come back \(serial number B2\)"):
        find_again(place, time.monotonic() + 0.01)
