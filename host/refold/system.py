"""What of a computer stands between refold and a port, and the command that helps.

Nothing is changed here. Roots of the file system are parameters, for tests.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from refold.attached import Attached, boards_as
from refold.finding import Finding
from refold.identity import entry_of
from refold.user_boards import Entry
from refold.wire import forbidden, joining

ROOT = Path("/")
RULES = "70-refold.rules"
SERIAL_GROUPS = ("dialout", "uucp")
"""Debian's and Arch's."""
ROOTS = 0
"""Group of who may use everything."""
LATENCY_MS = 1
"""An FTDI adapter's least wait, which is one frame at usual rates."""


def may_use(device: str) -> bool:
    """Return whether this process may read and write a device."""
    return os.access(device, os.R_OK | os.W_OK)


def ports(
    attached: Iterable[Attached],
    entries: Mapping[str, Entry],
    *,
    may: Callable[[str], bool] = may_use,
) -> Iterator[Finding]:
    """Yield each attached port, what it may be, and whether it may be used."""
    for usb in attached:
        if may(usb.device):
            yield Finding(f"port {usb.device}", True, _what(usb, entries))
        else:
            yield Finding(f"port {usb.device}", False, forbidden(usb.device))


def _what(usb: Attached, entries: Mapping[str, Entry]) -> str:
    name, boards = entry_of(usb, entries), boards_as(usb)
    words = [usb.numbers, usb.product]
    if name is not None:
        words.append(f"your board {name}")
    elif boards:
        words.append(f"may be {' or '.join(board.id for board in boards)}")
    return ", ".join(filter(None, words))


def membership(
    groups: Mapping[str, int] | None = None, mine: Container[int] | None = None
) -> Iterator[Finding]:
    """Yield whether the user is in the group to which serial ports usually belong.

    Args:
        groups: Numbers by name; None asks the system.
        mine: Numbers of this process's; None asks the system.
    """
    groups = _system_groups() if groups is None else groups
    mine = _own_groups() if mine is None else mine
    group = next((name for name in SERIAL_GROUPS if name in groups), None)
    if group is not None and ROOTS not in mine:
        well = groups[group] in mine
        advice = f"you are not in group {group}, which serial ports have: "
        text = f"you are in group {group}" if well else advice + joining(group)
        yield Finding("serial ports", well, text)


def _system_groups() -> dict[str, int]:
    try:
        from grp import getgrall  # noqa: PLC0415 - Windows has none
    except ImportError:
        return {}
    return {entry.gr_name: entry.gr_gid for entry in getgrall()}


def _own_groups() -> list[int]:
    return [*os.getgroups(), os.getegid()] if os.name == "posix" else []


def modem_manager(root: Path = ROOT) -> Iterator[Finding]:
    """Yield a finding where ModemManager runs, which writes into new serial ports."""
    if "ModemManager" not in _running(root):
        return
    rules = root / "etc/udev/rules.d" / RULES
    if rules.exists():
        yield Finding("ModemManager", True, f"runs, and {RULES} keeps it off boards")
        return
    yield Finding(
        "ModemManager",
        False,
        "runs, and writes into every new serial port: install the udev rules "
        f"('sudo cp docs/ci/{RULES} /etc/udev/rules.d/ && sudo udevadm control "
        "--reload'), or stop it ('sudo systemctl disable --now ModemManager')",
    )


def _running(root: Path) -> set[str]:
    names = set()
    for comm in root.glob("proc/[0-9]*/comm"):
        with suppress(OSError):  # ended meanwhile
            names.add(comm.read_text().strip())
    return names


def latency_timers(root: Path = ROOT) -> Iterator[Finding]:
    """Yield FTDI adapters that hold back what they received, with the command."""
    for timer in sorted(root.glob("sys/bus/usb-serial/devices/*/latency_timer")):
        try:
            wait_ms = int(timer.read_text())
        except (OSError, ValueError):  # unplugged meanwhile
            continue
        device = timer.parent.name
        if wait_ms > LATENCY_MS:
            path = Path("/") / timer.relative_to(root)
            yield Finding(
                f"latency of {device}",
                False,
                f"{wait_ms} ms a turn: run 'echo {LATENCY_MS} | sudo tee {path}' "
                "(until it is unplugged; the udev rules do it each time)",
            )
        else:
            yield Finding(f"latency of {device}", True, f"{wait_ms} ms a turn")
