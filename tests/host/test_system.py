"""What of a computer stands between refold and a port, on computers made of files."""

from __future__ import annotations

from pathlib import Path

import pytest
from usb import BRIDGE, CHIPS_OWN, OTHER

from refold.attached import Attached
from refold.finding import Finding
from refold.system import latency_timers, membership, modem_manager, ports
from refold.user_boards import Entry


def write(root: Path, name: str, text: str) -> Path:
    """Let a file of the computer have this content."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# --- ports -------------------------------------------------------------------


def test_a_port_is_told_with_what_it_may_be() -> None:
    """The user's name for it comes before the board files'."""
    own = Attached("/dev/ttyACM0", *CHIPS_OWN, "24:0A:C4:00:00:01", product="JTAG")
    other = Attached("/dev/ttyUSB0", *OTHER, "GPS1")
    bridge = Attached("/dev/ttyUSB1", *BRIDGE, "A1")
    entries = {"left": Entry(board="esp32s3-devkitc-1", serial_number="A1")}
    found = ports([own, other, bridge], entries, may=lambda _: True)
    assert [
        Finding(
            "port /dev/ttyACM0", True, "303A:1001, JTAG, may be esp32s3-devkitc-1-usb"
        ),
        Finding("port /dev/ttyUSB0", True, "0403:6001"),
        Finding("port /dev/ttyUSB1", True, "10C4:EA60, your board left"),
    ] == list(found)


@pytest.mark.parametrize(
    ("group", "advice"),
    [
        ("dialout", "run 'sudo usermod -aG dialout $USER', log out and in"),
        ("root", "only root may use it; install the udev rules (docs/ci/70-refold"),
    ],
)
def test_a_forbidden_port_names_its_group(
    group: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the exact command; in root's group there is none to join."""
    monkeypatch.setattr(Path, "group", lambda _: group)
    device = str(write(tmp_path, "ttyUSB0", ""))
    (found,) = ports([Attached(device, *BRIDGE)], {}, may=lambda _: False)
    assert (f"port {device}", False) == (found.name, found.well)
    assert advice in found.text


@pytest.mark.parametrize(
    ("groups", "mine", "expected"),
    [
        ({"dialout": 20}, [1000, 20], [True]),
        ({"dialout": 20}, [1000], [False]),
        ({"uucp": 14}, [1000], [False]),
        ({"dialout": 20}, [0], []),
        ({"wheel": 10}, [1000], []),
    ],
    ids=["member", "stranger", "stranger to uucp", "root", "no such group"],
)
def test_membership_of_the_ports_group(
    groups: dict[str, int], mine: list[int], expected: list[bool]
) -> None:
    """Told before a board is plugged in; the command names this system's group."""
    found = list(membership(groups, mine))
    assert expected == [finding.well for finding in found]
    for finding in found:
        command = f"usermod -aG {next(iter(groups))} $USER"
        assert finding.well != (command in finding.text)


# --- ModemManager ------------------------------------------------------------


def test_modem_manager_is_told_with_its_cure(tmp_path: Path) -> None:
    """It runs, and no rule keeps it off."""
    write(tmp_path, "proc/1/comm", "systemd\n")
    write(tmp_path, "proc/612/comm", "ModemManager\n")
    (found,) = modem_manager(tmp_path)
    assert not found.well
    assert "sudo cp docs/ci/70-refold.rules /etc/udev/rules.d/" in found.text
    assert "sudo systemctl disable --now ModemManager" in found.text


def test_the_udev_rules_are_cure_enough(tmp_path: Path, repo_root: Path) -> None:
    """Those that the documentation ships, by their name."""
    (rules,) = (repo_root / "docs/ci").glob("*.rules")
    write(tmp_path, "proc/612/comm", "ModemManager\n")
    write(tmp_path, f"etc/udev/rules.d/{rules.name}", rules.read_text())
    assert [True] == [finding.well for finding in modem_manager(tmp_path)]


def test_without_modem_manager_there_is_nothing_to_tell(tmp_path: Path) -> None:
    """A program whose name only begins so is another one."""
    write(tmp_path, "proc/7/comm", "ModemManager2\n")
    (tmp_path / "proc/8").mkdir()
    assert [] == list(modem_manager(tmp_path))


# --- FTDI --------------------------------------------------------------------


def test_a_slow_latency_timer_is_told_with_the_command(tmp_path: Path) -> None:
    """Whose path is the system's, whatever the test's root is."""
    folder = "sys/bus/usb-serial/devices"
    write(tmp_path, f"{folder}/ttyUSB0/latency_timer", "16\n")
    write(tmp_path, f"{folder}/ttyUSB1/latency_timer", "1\n")
    write(tmp_path, f"{folder}/ttyUSB2/latency_timer", "")
    write(tmp_path, f"{folder}/ttyUSB3/port_number", "0\n")
    slow, fast = latency_timers(tmp_path)
    assert ("latency of ttyUSB0", False) == slow[:2]
    assert f"'echo 1 | sudo tee /{folder}/ttyUSB0/latency_timer'" in slow.text
    assert Finding("latency of ttyUSB1", True, "1 ms a turn") == fast


def test_this_computer_is_looked_at() -> None:
    """The real roots are read without complaint, whatever is there."""
    found = [*modem_manager(), *latency_timers(), *membership()]
    assert all(finding.text for finding in found)
