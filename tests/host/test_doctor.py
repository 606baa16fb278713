"""``refold doctor``: what is told of this computer, and of a board."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from usb import BRIDGE, attach, usb_port
from virtual_device import BUILD, Script, VirtualDevice

from refold import link_check
from refold.board_check import link_findings
from refold.board_session import Terms, remedy
from refold.boards import load_board
from refold.build import build
from refold.cli import doctor as doctor_command
from refold.cli import status
from refold.device import Patience
from refold.link_check import LinkReport
from refold.lock import hold
from refold.place import Place
from refold.process import spawn

TINY = Path(__file__).parent / "tiny_artefact"
Call = Callable[..., tuple[int, str]]


@pytest.fixture
def doctor(
    user_boards: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Call:
    """Return what runs the command and tells exit code and output."""
    monkeypatch.setattr(doctor_command.OUT, "width", 400)
    monkeypatch.setattr(link_check, "ANSWER_S", 0.2)
    assert not user_boards.exists()

    def call(*words: object) -> tuple[int, str]:
        code = status(["doctor", *map(str, words)])
        return code, capsys.readouterr().out

    return call


def row(table: str, name: str) -> tuple[str, str]:
    """Return the state and the text of one finding."""
    cells = (line.strip("│").split("│") for line in table.splitlines())
    state, _, text = next(c for c in cells if len(c) == 3 and c[1].strip() == name)
    return state.strip(), text.strip()


def names(table: str) -> list[str]:
    """Return the names of the findings, in order."""
    lines = [line for line in table.splitlines() if line.startswith("│")]
    return [line.split("│")[2].strip() for line in lines]


@pytest.fixture
def artefact(tmp_path: Path) -> Path:
    """Return a compiled model, for the native board."""
    return Path(shutil.copytree(TINY, tmp_path / "tiny"))


# --- this computer -----------------------------------------------------------


def test_attached_ports_are_told(
    doctor: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With what each may be."""
    device = tmp_path / "ttyUSB0"
    device.touch()
    attach(monkeypatch, usb_port(str(device), BRIDGE, "A1", "1-2"))
    code, out = doctor()
    either = "esp32s3-devkitc-1 or esp32s3-devkitc-1-n8r8"
    expected = ("ok", f"10C4:EA60, may be {either}")
    assert (0, expected) == (code, row(out, f"port {device}"))


def test_your_boards_are_told(
    doctor: Call, monkeypatch: pytest.MonkeyPatch, user_boards: Path
) -> None:
    """By name; a faulty file exits 2, for nothing that names a board works then."""
    attach(monkeypatch)
    user_boards.parent.mkdir(parents=True)
    user_boards.write_text('[far]\nboard = "native"\nurl = "socket://lab:4000"\n')
    code, out = doctor()
    assert (0, ("ok", f"far in {user_boards}")) == (code, row(out, "your boards"))
    user_boards.write_text("[far]\n")
    code, out = doctor()
    assert (2, "--") == (code, row(out, "your boards")[0])
    assert "[far]: Object missing required field `board`" in out


# --- a board -----------------------------------------------------------------


def test_a_board_is_reached_greeted_and_tried(doctor: Call) -> None:
    """Each step is a line; all is well."""
    with VirtualDevice() as device:
        code, out = doctor("--board", "native", "--port", device.url)
    assert (0, ["port", "hello", "frames", "throughput"]) == (code, names(out))
    assert ("ok", device.url) == row(out, "port")
    assert row(out, "hello")[1].startswith(f"virtual, build {BUILD.hex()}; starts")
    assert ("ok", True) == (row(out, "frames")[0], "all answered" in out)


def test_an_artefact_is_started(doctor: Call, artefact: Path) -> None:
    """The native board's firmware, built where it is missing."""
    code, out = doctor("--board", "native", "--artefact", artefact)
    expected = build(artefact, load_board("native")).build_hash
    assert (0, True) == (code, f"build {expected}, the artefact's" in out)


def test_other_firmware_than_the_artefacts_is_told(
    doctor: Call, artefact: Path
) -> None:
    """With what to do; exit 2."""
    built = build(artefact, load_board("native"))
    with VirtualDevice() as device:
        words = ("--port", device.url, "--artefact", artefact)
        code, out = doctor(*words)
    assert (2, "--") == (code, row(out, "board native")[0])
    assert remedy(load_board("native"), built) in out


def test_a_name_is_enough(doctor: Call, user_boards: Path) -> None:
    """Of one of the user's boards, as --board or as --port."""
    user_boards.parent.mkdir(parents=True)
    for option in ("--board", "--port"):
        with VirtualDevice(tcp=True) as device:
            user_boards.write_text(f'[near]\nboard = "native"\nurl = "{device.url}"\n')
            code, out = doctor(option, "near")
        assert (0, ("ok", device.url)) == (code, row(out, "port"))


def test_a_silent_board_is_infrastructure(
    doctor: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was found till then is shown with it."""
    hasty = functools.partial(Terms, patience=Patience(hello_s=0.5))
    monkeypatch.setattr(doctor_command, "Terms", hasty)
    with VirtualDevice(Script(answers=False)) as device:
        code, out = doctor("--port", device.url)
    assert (3, ["board native"]) == (code, names(out))
    assert "the board is silent" in out


def test_lost_frames_are_infrastructure(doctor: Call) -> None:
    """The command says so in its exit code, too."""

    def lose(number: int, wire: bytes) -> bytes:
        return b"" if number == 40 else wire

    with VirtualDevice(Script(incoming=lose)) as device:
        code, out = doctor("--port", device.url)
    assert (3, "--") == (code, row(out, "frames")[0])
    assert " 1 lost, 0 with other content" in out


def test_a_board_in_use_is_told(doctor: Call) -> None:
    """Whose it is, as every command does."""
    with VirtualDevice() as device, hold(Place(device.url)):
        code, out = doctor("--port", device.url)
    assert (2, True) == (code, "in use by process" in row(out, "board native")[1])


def test_a_board_that_runs_only_in_commands_needs_a_model(doctor: Call) -> None:
    """There is no firmware to start without one."""
    code, out = doctor("--board", "native")
    assert (2, True) == (code, "compiled model with --artefact DIR" in out)


def test_an_artefact_without_a_board_is_refused(doctor: Call, artefact: Path) -> None:
    """Nothing would be done with it."""
    assert 2 == doctor("--artefact", artefact)[0]


def test_the_figures_are_words() -> None:
    """Counts, rates and times with their units."""
    report = LinkReport(1000, 3, 1, 91_234.5, 45_678.9, 0.00123)
    frames, throughput = link_findings(report)
    assert not frames.well
    assert "1000 frames" in frames.text
    assert "3 lost, 1 with other content (0.4 %)" in frames.text
    assert throughput.text == (
        "91,234 bytes/s to the board, 45,679 bytes/s from it, a piece at a time; a "
        "turn takes 1.2 ms"
    )


def test_the_native_board_is_tried_over_tcp(doctor: Call, artefact: Path) -> None:
    """The real firmware answers every frame."""
    built = build(artefact, load_board("native"))
    with spawn([str(built.executable), "--tcp", "0"]) as port:
        code, out = doctor("--port", port, "--artefact", artefact)
    assert (0, "ok") == (code, row(out, "frames")[0])
