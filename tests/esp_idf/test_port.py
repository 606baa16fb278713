"""What the port to ESP-IDF does, run over a stub of ESP-IDF."""

from __future__ import annotations

import re
import time
from pathlib import Path
from subprocess import CalledProcessError

import numpy as np
import pytest
from cbuild import STRICT, compile_c, compilers
from numpy.typing import NDArray
from port_harness import (
    BOARD,
    DEFINES,
    INCLUDES,
    PORT,
    PSRAM,
    WIRES,
    MakeFirmware,
    port_sources,
)

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact
from refoldc.reference import Reference

from refold import facts
from refold.board_session import connect
from refold.boards import load_board
from refold.check import claim, differing
from refold.data import load_data
from refold.device import Device, Patience
from refold.errors import InfraError
from refold.link import open_link
from refold.mlperf.dut import open_dut
from refold.mlperf.expected import expected_vectors
from refold.placement import place
from refold.process import spawn

FORGE = AdaptConfig(method="forge")
HEADER = ('-DREFOLD_BUILD_HASH="0"', "-DREFOLD_HOT_BYTES=0")
SAVE_SOON = "-DCONFIG_REFOLD_SAVE_AFTER_S=1"
SAVE_S = 10.0
"""Longest wait for a state that is saved after a second."""


def make_images(count: int) -> NDArray[np.generic]:
    """Return so many digits, as the board takes them."""
    return load_data("digits", split="test", limit=count).images


@pytest.mark.parametrize("cc", [cc for cc in compilers() if "zig" not in cc])
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("place", ["sram", "psram"])
def test_no_warnings(
    cc: str, wire: str, place: str, artefact: Artefact, tmp_path: Path
) -> None:
    """Every variant compiles strictly, as ESP-IDF's own GNU C and as C99."""
    psram = PSRAM if place == "psram" else ()
    for number, source in enumerate(port_sources(wire)):
        compile_c(
            [source],
            tmp_path / f"{number}.o",
            cc=cc,
            flags=("-c", *STRICT, *DEFINES, *HEADER, *psram),
            include=(*INCLUDES, artefact.path),
        )


@pytest.mark.parametrize("wire", WIRES)
def test_images_run_over_either_line(
    wire: str, make_firmware: MakeFirmware, artefact: Artefact, flash: Path
) -> None:
    """With adaptation, bit for bit the host model's replies and state."""
    images = make_images(12)
    with connect(BOARD, make_firmware(wire)) as device:
        device.begin(FORGE)
        replies = list(device.run(image.tobytes() for image in images))
        end = device.read_state()
    claimed = claim(FORGE, images, replies, start=None, end=end)
    assert () == differing(Reference(artefact.qgraph), claimed)
    assert all(reply.adapted for reply in replies)


def test_hello_tells_the_state_of_the_board(
    make_firmware: MakeFirmware, artefact: Artefact, flash: Path
) -> None:
    """Chip, ring, heap, stack and where the arena lies."""
    with connect(BOARD, make_firmware("wire_uart")) as device:
        hello = device.hello()
    assert ("esp32s3", 4, 16384) == (hello.chip, hello.window, hello.receive_bytes)
    assert (200000, 1234) == (hello.free_heap, hello.stack_free)
    placement = place(artefact.qgraph, load_board("esp32s3-devkitc-1"))
    assert facts.Memory.SRAM == hello.arena_memory
    assert placement.hot_bytes == hello.hot_bytes > 0


def test_layers_are_timed_in_cycles(
    make_firmware: MakeFirmware, artefact: Artefact, flash: Path
) -> None:
    """Each layer of the last image has its time, by the core's cycle counter."""
    with connect(BOARD, make_firmware("wire_uart")) as device:
        device.begin(FORGE)
        list(device.run(image.tobytes() for image in make_images(1)))
        times = device.read_times()
    assert (facts.Ticks.CYCLES, 240) == (times.kind, times.ticks_per_us)
    assert len(artefact.qgraph.layers) == len(times.layers)
    assert 0 < sum(times.layers) <= times.image


def test_a_large_model_lies_in_psram(make_firmware: MakeFirmware, flash: Path) -> None:
    """The build's plan decides, and Hello says so."""
    with connect(BOARD, make_firmware("wire_uart", *PSRAM)) as d:
        assert facts.Memory.PSRAM == d.hello().arena_memory


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (1, facts.ResetReason.POWER_ON),
        (3, facts.ResetReason.SOFTWARE),
        (4, facts.ResetReason.PANIC),
        (5, facts.ResetReason.WATCHDOG),
        (6, facts.ResetReason.WATCHDOG),
        (7, facts.ResetReason.WATCHDOG),
        (8, facts.ResetReason.DEEP_SLEEP),
        (9, facts.ResetReason.BROWNOUT),
        (11, facts.ResetReason.UNKNOWN),
        (15, facts.ResetReason.UNKNOWN),
    ],
)
def test_reset_reasons(
    number: int,
    reason: facts.ResetReason,
    make_firmware: MakeFirmware,
    flash: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """ESP-IDF's reasons are told in the protocol's words."""
    monkeypatch.setenv("STUB_RESET", str(number))
    with connect(BOARD, make_firmware("wire_uart")) as device:
        assert reason == device.hello().reset_reason


def test_starts_are_counted_over_resets(
    make_firmware: MakeFirmware, flash: Path
) -> None:
    """In memory that resets leave alone; power-on begins at one."""
    built = make_firmware("wire_uart")
    counts = []
    for power in (True, False, False, True):
        if power:
            (flash / "rtc").write_bytes(b"\xa5" * 64)  # what power-on leaves there
        with connect(BOARD, built) as device:
            counts.append(device.hello().boot_count)
    assert [1, 2, 3, 1] == counts


# --- saved state -------------------------------------------------------------


def adapt(device: Device, images: int, *, keep_state: bool = False) -> bytes:
    """Let the board adapt to some images; return its state."""
    device.begin(FORGE, keep_state=keep_state)
    list(device.run(image.tobytes() for image in make_images(images)))
    return device.read_state()


def await_slots(flash: Path, count: int) -> None:
    """Wait until so many slots were written and the last has rested a moment."""
    end = time.monotonic() + SAVE_S
    while len(list(flash.glob("state?"))) < count:
        assert time.monotonic() < end, "nothing was saved"
        time.sleep(0.05)
    time.sleep(0.2)


def restored(make_firmware: MakeFirmware) -> bytes:
    """The state that a board has right after its start."""
    with connect(BOARD, make_firmware("wire_uart", SAVE_SOON)) as device:
        return device.read_state()


def test_the_state_outlives_a_reboot(make_firmware: MakeFirmware, flash: Path) -> None:
    """Saved once the stream is quiet; a stream that keeps it goes on from it."""
    with connect(BOARD, make_firmware("wire_uart", SAVE_SOON)) as device:
        state = adapt(device, 5)
        await_slots(flash, 1)
    assert state == restored(make_firmware)
    with connect(BOARD, make_firmware("wire_uart", SAVE_SOON)) as device:
        assert state != adapt(device, 3, keep_state=True)
        await_slots(flash, 2)


def test_a_torn_write_falls_back(make_firmware: MakeFirmware, flash: Path) -> None:
    """Where the newer slot is damaged the board starts from the older."""
    states = []
    for count in (1, 2):
        with connect(BOARD, make_firmware("wire_uart", SAVE_SOON)) as device:
            states.append(adapt(device, 2 + count))
            await_slots(flash, count)
    assert states[1] == restored(make_firmware)
    newer = flash / "state1"
    newer.write_bytes(newer.read_bytes()[:-7])
    assert states[0] == restored(make_firmware)


def test_a_state_of_another_model_is_left_unused(
    make_firmware: MakeFirmware, flash: Path
) -> None:
    """What other firmware saved is no state of this one."""
    clean = restored(make_firmware)
    with connect(BOARD, make_firmware("wire_uart", SAVE_SOON)) as device:
        adapt(device, 4)
        await_slots(flash, 1)
    slot = flash / "state0"
    slot.write_bytes(slot.read_bytes()[:16] + b"\0" * (slot.stat().st_size - 16))
    assert clean == restored(make_firmware)


def test_quiet_boards_write_nothing(make_firmware: MakeFirmware, flash: Path) -> None:
    """Without adaptation flash is not worn."""
    with connect(BOARD, make_firmware("wire_uart", SAVE_SOON)) as device:
        device.begin(AdaptConfig(method="off"))
        list(device.run(image.tobytes() for image in make_images(2)))
        time.sleep(1.5)
    assert [] == list(flash.glob("state?"))


def test_a_full_partition_is_begun_anew(
    make_firmware: MakeFirmware, flash: Path
) -> None:
    """NVS of another size or format is erased once, and saving works."""
    (flash / "nvs_full").touch()
    with connect(BOARD, make_firmware("wire_uart", SAVE_SOON)) as device:
        adapt(device, 3)
        await_slots(flash, 1)
    assert not (flash / "nvs_full").exists()


# --- failures ----------------------------------------------------------------


def test_want_of_memory_is_said_in_words(
    make_firmware: MakeFirmware, flash: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host shows what the board says while it cannot start."""
    monkeypatch.setenv("STUB_HEAP", "100")
    program = str(make_firmware("wire_uart").executable)
    with (
        spawn([program]) as port,
        open_link(port, baud=921600) as link,
        pytest.raises(InfraError, match=r"'refold: no room for a block of \d+"),
    ):
        Device(link, patience=Patience(hello_s=2.5)).hello()


def test_a_ring_below_two_frames_is_refused(artefact: Artefact, tmp_path: Path) -> None:
    """The compiler says so, for the host could lose frames."""
    with pytest.raises(CalledProcessError) as failure:
        compile_c(
            [PORT / "main.c"],
            tmp_path / "main.o",
            flags=("-c", *HEADER, "-DCONFIG_REFOLD_RX_RING_BYTES=4096"),
            include=(*INCLUDES, artefact.path),
        )
    assert re.search("fewer than two frames", "".join(failure.value.__notes__))


# --- MLPerf Tiny and the pins ----------------------------------------------------


def pin_changes(flash: Path) -> list[tuple[int, int]]:
    """Pin and level of each change, in order."""
    lines = (flash / "pins").read_text().splitlines()
    return [(int(pin), int(level)) for _, pin, level in map(str.split, lines)]


@pytest.mark.parametrize("wire", WIRES)
def test_the_firmware_option_speaks_mlperf_tiny(
    wire: str, make_firmware: MakeFirmware, artefact: Artefact, flash: Path
) -> None:
    """The public runner's protocol over either line, with the host model's answers."""
    built = make_firmware(wire, "-DCONFIG_REFOLD_PROTOCOL_MLPERF_TINY=1")
    images = make_images(2)
    with spawn((str(built.executable), "--pty")) as port, open_dut(port) as dut:
        assert "refold-esp32s3" == dut.ask("name", r"m-name-dut-\[(.+)\]")
        for image, expected in zip(
            images, expected_vectors(artefact, images), strict=True
        ):
            dut.load(image.tobytes())
            assert tuple(expected) == dut.infer(3, 1).results


def test_energy_mode_marks_time_on_a_pin(
    make_firmware: MakeFirmware, flash: Path
) -> None:
    """Timestamps are pulses of the pin, and no lines."""
    settings = (
        "-DCONFIG_REFOLD_PROTOCOL_MLPERF_TINY=1",
        "-DCONFIG_REFOLD_PIN_TIMESTAMP=7",
    )
    built = make_firmware("wire_uart", *settings)
    with spawn((str(built.executable), "--pty")) as port, open_dut(port) as dut:
        before = len(pin_changes(flash))
        assert [] == dut.command("timestamp")
        assert [(7, 0), (7, 1)] == pin_changes(flash)[before:]
        dut.load(make_images(1)[0].tobytes())
        lines = dut.command("infer 2 0")
        assert not any(line.startswith("m-lap-us") for line in lines)
        assert 3 * [(7, 0), (7, 1)] == pin_changes(flash)[before:]


def test_pins_are_high_while_the_board_works(
    make_firmware: MakeFirmware, artefact: Artefact, flash: Path
) -> None:
    """One during an inference, one during adaptation within it, once a site."""
    settings = ("-DCONFIG_REFOLD_PIN_INFER=4", "-DCONFIG_REFOLD_PIN_ADAPT=5")
    with connect(BOARD, make_firmware("wire_uart", *settings)) as device:
        device.begin(FORGE)
        list(device.run(image.tobytes() for image in make_images(2)))
    sites = len(artefact.manifest.sites)
    image = [(4, 1), *sites * [(5, 1), (5, 0)], (4, 0)]
    assert [(4, 0), (5, 0), *image, *image] == pin_changes(flash)
