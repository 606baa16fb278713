from __future__ import annotations

import os
import random
import shutil
import sys
from pathlib import Path

import msgspec
import pytest
from virtual_device import BUILD, Script, VirtualDevice

from refoldc.adapt import AdaptConfig

from refold import board_session, process
from refold.board_session import connect
from refold.boards import Board, Flash, load_board
from refold.build import Build, build
from refold.device import Device, Patience, Reply
from refold.errors import InfraError, UserError
from refold.link import open_link
from refold.lock import hold
from refold.place import Place
from refold.process import spawn

OFF = AdaptConfig(method="off")
TINY = Path(__file__).parent / "tiny_artefact"


@pytest.fixture(scope="module")
def native() -> Board:
    """Return the native board."""
    return load_board("native")


@pytest.fixture(scope="module")
def built(native: Board, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Return the real firmware with a tiny model, built for it."""
    artefact = tmp_path_factory.mktemp("tiny") / "artefact"
    shutil.copytree(TINY, artefact)
    return build(artefact, native)


def pictures(count: int) -> list[bytes]:
    """Random images, alike in every run."""
    generator = random.Random(count)
    return [generator.randbytes(12) for _ in range(count)]


def tiny_logits(image: bytes) -> list[int]:
    """What tiny_artefact/model.c says it computes."""
    total = sum(pixel - 128 for pixel in image)
    return [(place * total) // 4 for place in (1, 2, 3)]


def fake_build(tmp_path: Path, script: str) -> Build:
    """A board whose process is a script of ours."""
    program = tmp_path / "artefact/build/native/refold-native"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!{sys.executable}\n{script}")
    program.chmod(0o755)
    return Build(program, BUILD.hex(), None, program.parent, ())


# --- the real native board ---------------------------------------------------


@pytest.mark.parametrize("way", [(), ("--tcp", "0")], ids=["pty", "tcp"])
def test_the_native_board_streams(
    native: Board, built: Build, way: tuple[str, ...]
) -> None:
    """The real firmware answers every image as the tiny model says."""
    images = pictures(200)
    with connect(native, built, arguments=way) as device:
        assert ("native", built.build_hash) == (
            device.hello().chip,
            device.hello().build_hash,
        )
        device.begin(OFF)
        replies = list(device.run(images))
    assert [tiny_logits(image) for image in images] == [
        reply.logits.tolist() for reply in replies
    ]
    assert 0 == sum(reply.resent for reply in replies)


def test_the_native_board_streams_over_a_bad_line(native: Board, built: Build) -> None:
    """With a bit turned every 701 bytes nothing is lost and nothing run twice."""
    images = pictures(150)
    patience = Patience(first_s=0.05, image_s=10)
    damage = ("--damage-every", "701")
    with connect(native, built, arguments=damage, patience=patience) as device:
        device.begin(OFF)
        replies = list(device.run(images))
    assert [tiny_logits(image) for image in images] == [
        reply.logits.tolist() for reply in replies
    ]
    assert 0 < sum(reply.resent for reply in replies)


def test_death_in_mid_stream_tells_how_it_ended(native: Board, built: Build) -> None:
    """The replies so far come first, then the process's exit and its words."""
    images = pictures(300)
    replies: list[Reply] = []

    def run() -> None:
        with connect(native, built, arguments=("--exit-after", "100")) as device:
            device.begin(OFF)
            replies.extend(device.run(images))

    with pytest.raises(InfraError, match=r"vanished.*process exited with 1, saying: "):
        run()
    # The hundredth image was only sent because a window before it was answered.
    assert 100 - device_window(native, built) <= len(replies) <= 100
    assert [tiny_logits(image) for image in images[: len(replies)]] == [
        reply.logits.tolist() for reply in replies
    ]


def device_window(board: Board, built: Build) -> int:
    """Credits that the board announces."""
    with connect(board, built) as device:
        return device.hello().window


def test_a_board_without_forge_refuses_it(native: Board, built: Build) -> None:
    """The firmware's status reaches the user as a sentence."""
    with (
        connect(native, built) as device,
        pytest.raises(UserError, match="compiled without this adaptation method"),
    ):
        device.begin(AdaptConfig())


def test_a_running_board_is_used_where_a_port_is_given(
    native: Board, built: Build
) -> None:
    """A second session attaches to a board that somebody else started."""
    with (
        spawn([str(built.executable), "--tcp", "0"]) as port,
        connect(native, built, port) as device,
    ):
        assert port == device.port
        device.begin(OFF)
        (reply,) = device.run([bytes(12)])
    assert tiny_logits(bytes(12)) == reply.logits.tolist()


def test_the_process_ends_with_the_session(native: Board, built: Build) -> None:
    """Nothing is left behind: its port is gone."""
    with connect(native, built) as device:
        port = device.port
    with pytest.raises(UserError, match=r"does not exist|no serial port"):
        open_link(port)


# --- boards that fail to start -----------------------------------------------


def test_a_board_that_names_no_port_is_infrastructure(
    native: Board, tmp_path: Path
) -> None:
    """What it said and how it ended is in the message."""
    script = 'import sys; print("hello"); sys.exit("out of luck")'
    with (
        pytest.raises(InfraError, match=r"got 'hello'.* exited with 1, .*out of luck"),
        connect(native, fake_build(tmp_path, script)),
    ):
        pass


def test_a_board_that_says_nothing_has_a_deadline(
    native: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ended, too, where it does not end by itself."""
    monkeypatch.setattr(process, "START_S", 0.3)
    monkeypatch.setattr(process, "END_S", 0.1)
    script = "import time; time.sleep(60)"
    with (
        pytest.raises(InfraError, match=r"within 0\.3 s of its start, got ''"),
        connect(native, fake_build(tmp_path, script)),
    ):
        pass


def test_a_program_that_cannot_start_is_the_users(
    native: Board, tmp_path: Path
) -> None:
    """Built on another computer, for instance."""
    build_ = fake_build(tmp_path, "")
    build_.executable.chmod(0o644)
    with (
        pytest.raises(UserError, match=r"cannot start .*'refold build'"),
        connect(native, build_),
    ):
        pass


# --- given ports -------------------------------------------------------------


def test_a_stale_board_is_refused_with_the_current_program(
    native: Board, tmp_path: Path
) -> None:
    """Building mends nothing where the old program runs on: it is to be started."""
    build_ = fake_build(tmp_path, "")
    with (
        VirtualDevice(Script(build_hash=b"12345678")) as virtual,
        pytest.raises(UserError, match=rf"end it and .*'{build_.executable} --pty'"),
        connect(native, build_, virtual.url),
    ):
        pass


def test_a_port_is_one_sessions(native: Board, tmp_path: Path) -> None:
    """While one has it another is refused and told who has it; then it is free."""
    build_ = fake_build(tmp_path, "")
    with VirtualDevice() as virtual:
        with hold(Place(virtual.url)):
            me = rf"in use by process {os.getpid()} \("
            with (
                pytest.raises(UserError, match=me),
                connect(native, build_, virtual.url),
            ):
                pass
        with connect(native, build_, virtual.url) as device:
            assert isinstance(device, Device)


def test_a_serial_board_needs_a_port(native: Board, tmp_path: Path) -> None:
    """Only native boards can be started."""
    serial = msgspec.structs.replace(
        native, link=msgspec.structs.replace(native.link, kind="serial")
    )
    with (
        pytest.raises(UserError, match="or name its port with --port"),
        connect(serial, fake_build(tmp_path, "")),
    ):
        pass


@pytest.mark.parametrize(
    ("flash", "command"),
    [
        (None, "build {} --board native"),
        (
            Flash(method="esptool", chip="esp32s3"),
            "flash {} --board native --port",
        ),
    ],
)
def test_the_remedy_for_a_serial_board_names_artefact_and_board(
    flash: Flash | None, command: str, native: Board, tmp_path: Path
) -> None:
    """Where firmware is flashed, building it is not enough."""
    link = msgspec.structs.replace(native.link, kind="serial")
    board = msgspec.structs.replace(native, link=link, flash=flash)
    remedy = board_session.remedy(board, fake_build(tmp_path, ""))
    assert f"'refold {command.format(tmp_path / 'artefact')}" in remedy
