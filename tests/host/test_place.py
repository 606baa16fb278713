"""Where a board is, and where it is again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from usb import BRIDGE, CHIPS_OWN, OTHER, attach, attach_in_turn, usb_port

from refold.boards import load_board
from refold.errors import InfraError, UserError
from refold.place import Place, address, find_again, find_place

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


# --- an identity is named ----------------------------------------------------

LEFT = usb_port("/dev/ttyUSB0", BRIDGE, "A1", "1-2.3")
RIGHT = usb_port("/dev/ttyUSB1", BRIDGE, "B2", "1-2.4")
OWN = usb_port("/dev/ttyACM0", CHIPS_OWN, "F4:12:FA:C1:72:E8", "1-3:1.0")


@pytest.mark.parametrize(
    ("named", "device"),
    [
        ("A1", "/dev/ttyUSB0"),
        ("usb:1-2.4", "/dev/ttyUSB1"),
        ("usb:1-3", "/dev/ttyACM0"),
        ("usb:1-3:1.0", "/dev/ttyACM0"),
        ("f4:12:fa:c1:72:e8", "/dev/ttyACM0"),
        ("F4:12:FA:C1:72:E8", "/dev/ttyACM0"),
    ],
)
@pytest.mark.usefixtures("user_boards")
def test_an_identity_is_resolved(
    named: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Serial number, connector or MAC to the device of the moment."""
    attach(monkeypatch, LEFT, RIGHT, OWN)
    assert device == find_place(UART, named).url


@pytest.mark.usefixtures("user_boards")
def test_an_ambiguous_identity_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bridges with one number: the candidates and their connectors are listed."""
    twin = usb_port("/dev/ttyUSB1", BRIDGE, "A1", "1-2.4")
    attach(monkeypatch, LEFT, twin)
    expected = r"A1 may be any of .*usb:1-2\.3\), .*usb:1-2\.4\); name one by"
    with pytest.raises(UserError, match=expected):
        find_place(UART, "A1")


def test_an_unknown_name_is_refused(
    monkeypatch: pytest.MonkeyPatch, user_boards: Path
) -> None:
    """The message has the names there are, and what is attached."""
    enter(user_boards, '[left]\nserial_number = "A1"')
    attach(monkeypatch, LEFT)
    expected = r"--port lift: .*boards\.toml has .* \(left\), .*ttyUSB0 \(serial number"
    with pytest.raises(UserError, match=expected):
        find_place(UART, "lift")


# --- a board of the user's is named ------------------------------------------


def enter(file: Path, *entries: str) -> None:
    """Write a user board file; all its boards are DevKits."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(f'{e}\nboard = "{UART.id}"' for e in entries))


def test_a_name_is_resolved(monkeypatch: pytest.MonkeyPatch, user_boards: Path) -> None:
    """To the device of the moment, with what belongs to the board."""
    enter(user_boards, '[left]\nserial_number = "A1"\npower_cycle = "off; on"')
    attach(monkeypatch, LEFT, RIGHT)
    expected = Place("/dev/ttyUSB0", "A1", power_cycle="off; on", usb_path="1-2.3")
    assert expected == find_place(UART, "left")


def test_all_of_an_identity_must_hold(
    monkeypatch: pytest.MonkeyPatch, user_boards: Path
) -> None:
    """The serial number at another connector is not the board that was entered."""
    enter(user_boards, '[left]\nserial_number = "A1"\nusb_path = "1-2.4"')
    attach(monkeypatch, LEFT, RIGHT)
    with pytest.raises(InfraError, match=r"left \(serial .*, usb:1-2\.4\) is not"):
        find_place(UART, "left")


def test_a_mac_decides_where_usb_tells_it(
    monkeypatch: pytest.MonkeyPatch, user_boards: Path
) -> None:
    """Elsewhere it is left to be compared with the chip's."""
    mac = 'mac = "f4:12:fa:c1:72:e8"'
    enter(user_boards, f"[own]\n{mac}", f'[left]\n{mac}\nserial_number = "A1"')
    attach(monkeypatch, LEFT, RIGHT, OWN)
    own, left = find_place(UART, "own"), find_place(UART, "left")
    assert ("/dev/ttyACM0", None) == (own.url, own.mac)
    assert ("/dev/ttyUSB0", "f4:12:fa:c1:72:e8") == (left.url, left.mac)


def test_an_entry_that_fits_two_is_refused(
    monkeypatch: pytest.MonkeyPatch, user_boards: Path
) -> None:
    """The message says what to add, and where."""
    enter(user_boards, '[left]\nserial_number = "0001"')
    one, two = (usb_port(f"/dev/tty{n}", BRIDGE, "0001", f"1-{n}") for n in (1, 2))
    attach(monkeypatch, one, two)
    with pytest.raises(UserError, match=r"left may be any of .*; add the usb_path of"):
        find_place(UART, "left")


def test_a_remote_board_has_a_name(user_boards: Path) -> None:
    """Its URL, whatever is attached here."""
    enter(user_boards, '[far]\nurl = "rfc2217://lab:4001"\npower_cycle = "x"')
    assert Place("rfc2217://lab:4001", power_cycle="x") == find_place(UART, "far")


def test_a_name_of_another_board_is_refused(user_boards: Path) -> None:
    """Firmware for one is not put on the other."""
    enter(user_boards, '[far]\nurl = "rfc2217://lab:4001"')
    with pytest.raises(UserError, match=f"far is a {UART.id} in .*, not a native"):
        find_place(load_board("native"), "far")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("left", None), (UART.id, "left", 460800)),
        (("left", "/dev/ttyUSB9"), (UART.id, "/dev/ttyUSB9", 460800)),
        (("native", "left"), (UART.id, "left", 460800)),
        ((UART.id, "left"), (UART.id, "left", 460800)),
        ((UART.id, "A1"), (UART.id, "A1", 921600)),
        (("native", "socket://left:1"), ("native", "socket://left:1", 921600)),
        (("native", None), ("native", None, 921600)),
        ((f"{UART.id}-n8r8", "left"), (f"{UART.id}-n8r8", "left", 921600)),
    ],
)
def test_board_and_port_are_read_together(
    given: tuple[str, str | None],
    expected: tuple[str, str | None, int],
    user_boards: Path,
) -> None:
    """A name stands for both; what is given otherwise is kept, and refused later."""
    enter(user_boards, '[left]\nserial_number = "A1"\nbaud = 460800')
    board, port = address(*given)
    assert expected == (board.id, port, board.link.baud)


def test_names_of_fitting_boards_are_offered(
    monkeypatch: pytest.MonkeyPatch, user_boards: Path
) -> None:
    """Where none is attached."""
    enter(user_boards, '[far]\nurl = "rfc2217://lab:4001"')
    attach(monkeypatch)
    with pytest.raises(UserError, match="or name one of yours with --port: far"):
        find_place(UART, None)


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
    """Cheap bridges all have the same serial number: while one is away the other
    is not taken for it."""
    one = usb_port("/dev/ttyUSB0", BRIDGE, "0001", "1-2")
    two = usb_port("/dev/ttyUSB1", BRIDGE, "0001", "1-3")
    back = usb_port("/dev/ttyUSB2", BRIDGE, "0001", "1-2")
    attach(monkeypatch, one, two)
    place = find_place(UART, "/dev/ttyUSB0")
    attach_in_turn(monkeypatch, [[two], [two, back]])
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
