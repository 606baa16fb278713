"""``refold boards scan``: what is attached, and what is entered of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from chip import bootloader
from usb import BRIDGE, CHIPS_OWN, OTHER, attach, usb_port

from refold.cli import boards as boards_command
from refold.cli import status
from refold.user_boards import read_entries

MAC = "F4:12:FA:C1:72:E8"
OWN = usb_port("/dev/ttyACM0", CHIPS_OWN, MAC, "1-3:1.0")
UART = usb_port("/dev/ttyUSB0", BRIDGE, "A1B2", "1-2")
GPS = usb_port("/dev/ttyUSB5", OTHER, "GPS1", "1-5")

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def scan(
    user_boards: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Call:
    """Return what runs the command and tells exit code, output and errors."""
    monkeypatch.setattr(boards_command.OUT, "width", 200)
    assert not user_boards.exists()

    def call(*words: str, group: str = "scan") -> tuple[int, str, str]:
        code = status(["boards", *filter(None, (group, *words))])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def row(table: str, first: str) -> list[str]:
    """Return the cells of the row that begins with ``first``."""
    lines = (line for line in table.splitlines() if line.startswith("│ " + first))
    return [cell.strip() for cell in next(lines).strip("│").split("│")]


def facts(table: str, device: str) -> dict[str, str]:
    """Return what is told of a port."""
    lines = [line for line in table.splitlines() if line.startswith("│")]
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]
    sections: list[dict[str, str]] = []
    for what, value in rows:
        if what == "port":
            sections.append({})
        sections[-1][what] = value
    return next(section for section in sections if section["port"] == device)


def test_ports_are_listed_with_their_identity(
    scan: Call, monkeypatch: pytest.MonkeyPatch, user_boards: Path
) -> None:
    """Nothing is written unless asked; which entries could be is said."""
    attach(monkeypatch, OWN, UART, GPS)
    code, out, _ = scan()
    assert 0 == code
    assert facts(out, "/dev/ttyACM0") == {
        "port": "/dev/ttyACM0",
        "USB": "303A:1001",
        "serial number": MAC,
        "connector": "usb:1-3:1.0",
        "MAC": MAC.lower(),
        "may be": "esp32s3-devkitc-1-usb",
    }
    assert facts(out, "/dev/ttyUSB0") == {
        "port": "/dev/ttyUSB0",
        "USB": "10C4:EA60",
        "serial number": "A1B2",
        "connector": "usb:1-2",
        "may be": "esp32s3-devkitc-1, esp32s3-devkitc-1-n8r8",
    }
    assert "may be" not in facts(out, "/dev/ttyUSB5")
    assert "scan --write' enters esp32s3-72e8 in" in out
    assert "say with --board whether it is esp32s3-devkitc-1 or " in out
    assert not user_boards.exists()


def test_certain_boards_are_entered(
    scan: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that may be two boards is not, nor one that is none."""
    attach(monkeypatch, OWN, UART, GPS)
    code, out, _ = scan("--write")
    (entry,) = read_entries().items()
    assert (0, "esp32s3-72e8", "esp32s3-devkitc-1-usb", MAC) == (
        *(code, entry[0], entry[1].board, entry[1].serial_number),
    )
    assert "boards.toml: esp32s3-72e8" in out
    assert "esp32s3-72e8" == facts(out, "/dev/ttyACM0")["yours"]


def test_a_second_scan_adds_nothing(
    scan: Call, monkeypatch: pytest.MonkeyPatch, user_boards: Path
) -> None:
    """The board is known again by its number, under whatever name."""
    attach(monkeypatch, OWN)
    scan("--write")
    before = user_boards.read_text()
    attach(monkeypatch, usb_port("/dev/ttyACM7", CHIPS_OWN, MAC, "2-1:1.0"))
    code, out, _ = scan("--write")
    assert (0, before) == (code, user_boards.read_text())
    assert "boards.toml: nothing new" in out
    assert "esp32s3-72e8" == facts(out, "/dev/ttyACM7")["yours"]


def test_a_board_is_said_and_named(scan: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a port of any interface, where the user says what it is."""
    attach(monkeypatch, OWN, UART, GPS)
    board = ("--board", "esp32s3-devkitc-1-n8r8")
    assert 0 == scan("--write", *board, "--port", "usb:1-2", "--name", "left")[0]
    assert 0 == scan("--write", *board, "--port", "/dev/ttyUSB5")[0]
    found = {name: (e.board, e.serial_number) for name, e in read_entries().items()}
    assert {
        "left": ("esp32s3-devkitc-1-n8r8", "A1B2"),
        "esp32s3-gps1": ("esp32s3-devkitc-1-n8r8", "GPS1"),
    } == found


def test_doubles_are_entered_by_their_connector(
    scan: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A serial number that two have tells neither."""
    one, two = (usb_port(f"/dev/tty{n}", BRIDGE, "0001", f"1-{n}") for n in (1, 2))
    attach(monkeypatch, one, two)
    assert 0 == scan("--write", "--board", "esp32s3-devkitc-1")[0]
    found = {name: (e.serial_number, e.usb_path) for name, e in read_entries().items()}
    assert {"esp32s3-11": (None, "1-1"), "esp32s3-12": (None, "1-2")} == found


def test_equal_ends_make_different_names(
    scan: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later one is numbered."""
    one, two = (usb_port(f"/dev/tty{n}", BRIDGE, f"{n}0001") for n in (1, 2))
    attach(monkeypatch, one, two)
    scan("--write", "--board", "esp32s3-devkitc-1")
    assert ["esp32s3-0001", "esp32s3-0001-2"] == list(read_entries())


def test_one_name_is_for_one_board(
    scan: Call, monkeypatch: pytest.MonkeyPatch, user_boards: Path
) -> None:
    """For several it is refused, and nothing is written."""
    attach(monkeypatch, UART, usb_port("/dev/ttyUSB1", BRIDGE, "C3", "1-4"))
    words = ("--write", "--board", "esp32s3-devkitc-1", "--name", "left")
    code, _, err = scan(*words)
    assert (2, False) == (code, user_boards.exists())
    assert "--name left is for one new board, and there are 2" in err


def test_a_faulty_file_is_told_and_kept(
    scan: Call, monkeypatch: pytest.MonkeyPatch, user_boards: Path
) -> None:
    """It is mended by its author, not written over."""
    user_boards.parent.mkdir(parents=True)
    user_boards.write_text("[left]\nbord = 1\n")
    attach(monkeypatch, OWN)
    code, _, err = scan("--write")
    assert (2, "[left]\nbord = 1\n") == (code, user_boards.read_text())
    assert "boards.toml: " in err


def test_nothing_attached_is_no_error(
    scan: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said."""
    attach(monkeypatch)
    code, out, _ = scan()
    assert (0, "no serial port over USB is attached\n") == (code, out)


def test_the_list_has_the_users_boards(
    scan: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each is now; without a file there is no such table."""
    attach(monkeypatch, OWN)
    assert "yours" not in scan(group="")[1]
    scan("--write")
    code, out, _ = scan(group="")
    usb = "esp32s3-devkitc-1-usb"
    assert (0, [usb, f"serial number {MAC}", "/dev/ttyACM0"]) == (
        code,
        row(out, "esp32s3-72e8")[1:],
    )
    attach(monkeypatch)
    assert "no" == row(scan(group="")[1], "esp32s3-72e8")[-1]


# --- a chip is asked ---------------------------------------------------------


def test_a_chip_behind_a_bridge_tells_its_mac(
    scan: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """esptool asks it; the MAC is entered beside the number."""
    with bootloader(tmp_path, pty=True) as path:
        attach(monkeypatch, usb_port(path, BRIDGE, "A1B2", "1-2"))
        words = ("--mac", "--write", "--board", "esp32s3-devkitc-1")
        code, out, err = scan(*words)
    (entry,) = read_entries().values()
    assert (0, "") == (code, err)
    assert ("A1B2", facts(out, path)["MAC"]) == (entry.serial_number, entry.mac)
    assert str(entry.mac).startswith("24:0a:c4:"), "Espressif's, as the mock has it"


def test_a_chip_that_does_not_answer_is_no_obstacle(
    scan: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is wrong with it is a warning; other ports are still listed."""
    attach(monkeypatch, usb_port("/dev/none", BRIDGE, "A1B2", "1-2"), OWN)
    code, out, err = scan("--mac")
    assert (0, False) == (code, "MAC" in facts(out, "/dev/none"))
    assert "/dev/none tells no MAC: " in err
    assert MAC.lower() == facts(out, "/dev/ttyACM0")["MAC"]
