"""The user board file: what it may say, and that writing loses nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from refold.errors import UserError
from refold.user_boards import Entry, add_entries, read_entries, user_board_file

WRITTEN = """# The rack in the basement.
[left]
board = "esp32s3-devkitc-1"   # with the long cable
serial_number = "0001"
usb_path = "1-2.3"
power_cycle = "uhubctl -l 1-2 -p 3 -a cycle"

[far]
board = "esp32s3-devkitc-1-n8r8"
url = "rfc2217://lab:4001?ign_set_control"
mac = "F4:12:FA:C1:72:E8"
baud = 460800
"""


@pytest.fixture
def file(user_boards: Path) -> Path:
    """Return the user board file, in a folder of this test."""
    user_boards.parent.mkdir(parents=True)
    return user_boards


def test_it_lies_where_configuration_does(user_boards: Path, tmp_path: Path) -> None:
    """``$XDG_CONFIG_HOME/refold/boards.toml``."""
    assert tmp_path / "config/refold/boards.toml" == user_boards == user_board_file()


@pytest.mark.usefixtures("user_boards")
def test_without_a_file_there_are_none() -> None:
    """Nobody has to have one."""
    assert {} == read_entries()


def test_entries_are_read(file: Path) -> None:
    """By name, in the file's order, with what is given."""
    file.write_text(WRITTEN)
    left = Entry(
        board="esp32s3-devkitc-1",
        serial_number="0001",
        usb_path="1-2.3",
        power_cycle="uhubctl -l 1-2 -p 3 -a cycle",
    )
    far = Entry(
        board="esp32s3-devkitc-1-n8r8",
        url="rfc2217://lab:4001?ign_set_control",
        mac="F4:12:FA:C1:72:E8",
        baud=460800,
    )
    assert [("left", left), ("far", far)] == list(read_entries().items())


def test_adding_keeps_what_is_there(file: Path) -> None:
    """Comments, order and spelling included; what is added is read back."""
    file.write_text(WRITTEN)
    odd = Entry(board="esp32s3-devkitc-1", serial_number='a "b" \\ ü')
    assert file == add_entries({"odd_1": odd})
    assert file.read_text().startswith(WRITTEN)
    assert odd == read_entries()["odd_1"]
    assert ["boards.toml"] == [path.name for path in file.parent.iterdir()]


def test_a_file_is_made_where_there_is_none(user_boards: Path) -> None:
    """With its folder; it is as a person would write it."""
    add_entries({"a": Entry(board="native", url="socket://lab:4000", baud=9600)})
    expected = '[a]\nboard = "native"\nurl = "socket://lab:4000"\nbaud = 9600\n'
    assert expected == user_boards.read_text()


def test_a_link_to_the_file_stays_one(file: Path, tmp_path: Path) -> None:
    """Configuration is often kept elsewhere."""
    (tmp_path / "kept.toml").write_text(WRITTEN)
    file.symlink_to(tmp_path / "kept.toml")
    add_entries({"a": Entry(board="native", url="socket://lab:4000")})
    assert file.is_symlink()
    assert {"left", "far", "a"} == read_entries().keys()


def test_a_name_that_is_taken_changes_nothing(file: Path) -> None:
    """An entry is never written over."""
    file.write_text(WRITTEN)
    with pytest.raises(UserError, match="has an entry 'left' already"):
        add_entries({"left": Entry(board="native", url="socket://lab:4000")})
    assert WRITTEN == file.read_text()


def test_the_documented_file_is_one(file: Path, repo_root: Path) -> None:
    """Its entries are read, and the table beside it has every key."""
    text = (repo_root / "docs/attached.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    file.write_text(block)
    assert {"left", "far"} == read_entries().keys()
    table = text.partition("| key | is |")[2].partition("\n\n")[0]
    first_cells = [line.split("|")[1] for line in table.splitlines() if "`" in line]
    keys = re.findall(r"`(\w+)`", "".join(first_cells))
    assert sorted(Entry.__struct_fields__) == sorted(keys)


FAULTS = {
    "not TOML": ("[left]", "[left", "boards.toml: .*expected one table a board"),
    "an unknown key": ("usb_path", "usb", r"\[left\]: .* unknown field `usb`"),
    "a wrong type": ('"0001"', "1", r"got `int` - at `\$.serial_number`; mend"),
    "no table": ("[left]", "left = 1", "expected one table a board"),
    "no board": ('board = "esp32s3-devkitc-1"  ', "", "missing required field `board`"),
    "an unknown board": ("-1-n8r8", "-2", r"\[far\]: no board 'esp32s3-devkitc-2'"),
    "a name of a board file": ("[left]", "[native]", r"\[native\]: a board file has"),
    "a name of a port": ("[left]", "[COM3]", r"\[COM3\]: expected a name of letters"),
    "a name with a slash": ("[left]", '["a/b"]', r"\[a/b\]: expected a name of letter"),
    "no MAC": ("F4:12:", "F412", "matching regex"),
    "no URL": ("rfc2217://", "telnet://", "matching regex"),
    "a senseless baud": ("460800", "0", r"\[far\]: Expected `int` >= 1 - at `\$.baud`"),
    "two places": ("mac =", "usb_path =", r"\[far\]: has a url and a place at"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named(fault: str, file: Path) -> None:
    """The file, the entry, and what is wrong with it."""
    old, new, message = FAULTS[fault]
    assert old in WRITTEN
    file.write_text(WRITTEN.replace(old, new, 1))
    with pytest.raises(UserError, match=message) as error:
        read_entries()
    assert str(file) in str(error.value)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (Entry(board="esp32s3-devkitc-1"), "expected serial_number, mac, usb_path or"),
        (Entry(board="native", serial_number="1"), "each run starts native itself"),
    ],
)
def test_what_could_not_be_read_is_not_written(
    entry: Entry, message: str, file: Path
) -> None:
    """The file stays as it was."""
    file.write_text(WRITTEN)
    with pytest.raises(UserError, match=message):
        add_entries({"new": entry})
    assert WRITTEN == file.read_text()
