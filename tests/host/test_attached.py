"""Which port a board is at where none is named."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_model import make_images, write_model

from refoldc import compile_model

from refold.attached import attached_ports, find_port
from refold.boards import load_board
from refold.cli import status
from refold.errors import UserError
from refold.job import RunOptions, prepare
from refold.watch import Watch

UART = load_board("esp32s3-devkitc-1")
BRIDGE, OTHER = (0x10C4, 0xEA60), (0x0403, 0x6001)


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a compiled network without firmware."""
    folder = tmp_path_factory.mktemp("compiled")
    model = write_model(folder / "small.onnx")
    compile_model(model, make_images(16), folder / "small.refold")
    return folder / "small.refold"


def attach(
    monkeypatch: pytest.MonkeyPatch, ports: Sequence[tuple[str, tuple[int, int]]]
) -> None:
    """Let the computer have these serial ports."""
    listed = [SimpleNamespace(device=d, vid=vid, pid=pid) for d, (vid, pid) in ports]
    monkeypatch.setattr("refold.attached.list_ports.comports", lambda: listed)


def test_the_only_board_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports of other interfaces do not count."""
    attach(monkeypatch, [("/dev/ttyUSB0", OTHER), ("/dev/ttyUSB1", BRIDGE)])
    assert "/dev/ttyUSB1" == find_port(UART)


def test_none_of_several_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message lists them, in order."""
    attach(monkeypatch, [("/dev/ttyUSB1", BRIDGE), ("/dev/ttyUSB0", BRIDGE)])
    assert ("/dev/ttyUSB0", "/dev/ttyUSB1") == attached_ports(UART)
    expected = "2 boards may be esp32s3-devkitc-1: /dev/ttyUSB0, /dev/ttyUSB1; name one"
    with pytest.raises(UserError, match=expected):
        find_port(UART)


def test_a_run_needs_a_board_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, artefact: Path
) -> None:
    """The first build for the chip takes minutes."""
    attach(monkeypatch, [])
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
    attach(monkeypatch, [(port, BRIDGE)])
    assert 2 == status(["flash", str(artefact), "--board", UART.id])
    assert f"port {port} does not exist" in capsys.readouterr().err
    assert not (artefact / "build" / UART.id).exists()
