"""What is attached, and that a board is there before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest
from serial.tools.list_ports_common import ListPortInfo
from small_model import make_images, write_model
from usb import BRIDGE, CHIPS_OWN, OTHER, attach, usb_port

from refoldc import compile_model

from refold.attached import Attached, list_attached
from refold.boards import load_board
from refold.cli import status
from refold.errors import UserError
from refold.job import RunOptions, prepare
from refold.watch import Watch

UART = load_board("esp32s3-devkitc-1")


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a compiled network without firmware."""
    folder = tmp_path_factory.mktemp("compiled")
    model = write_model(folder / "small.onnx")
    compile_model(model, make_images(16), folder / "small.refold")
    return folder / "small.refold"


def test_the_chips_own_port_tells_its_mac() -> None:
    """Its serial number is the MAC; a bridge's is none, whatever it looks like."""
    own = Attached("/dev/ttyACM0", *CHIPS_OWN, serial_number="F4:12:FA:C1:72:E8")
    bridge = Attached("/dev/ttyUSB0", *BRIDGE, serial_number="F4:12:FA:C1:72:E8")
    assert ("f4:12:fa:c1:72:e8", None) == (own.mac, bridge.mac)


def test_ports_without_usb_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A computer's own serial ports have no numbers to be known by."""
    attach(monkeypatch, ListPortInfo("/dev/ttyS0"), usb_port("/dev/ttyUSB0", OTHER))
    assert ["/dev/ttyUSB0"] == [usb.device for usb in list_attached()]


def test_a_run_needs_a_board_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, artefact: Path
) -> None:
    """The first build for the chip takes minutes."""
    attach(monkeypatch)
    with pytest.raises(UserError, match="no esp32s3-devkitc-1 is attached over USB"):
        prepare(artefact, RunOptions(data="digits", board=UART.id), Watch())


def test_flashing_needs_a_port_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch,
    artefact: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The port that is found is opened first; a wrong one is told as such."""
    port = str(tmp_path / "ttyUSB0")
    attach(monkeypatch, usb_port(port, BRIDGE))
    assert 2 == status(["flash", str(artefact), "--board", UART.id])
    assert f"port {port} does not exist" in capsys.readouterr().err
    assert not (artefact / "build" / UART.id).exists()
