"""Placement on a board, and the files that ESP-IDF gets from it."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from port_harness import PORT

from refoldc.artefact import Artefact
from refoldc.errors import DoesNotFit
from refoldc.ir import QGraph

from refold.boards import Board, Memory, load_board
from refold.esp_project import (
    APP_ALIGNMENT,
    NVS_OFFSET,
    SECTOR,
    SLOT_HEADER_BYTES,
    SLOTS,
    nvs_bytes,
    render_header,
    render_partitions,
    render_sdkconfig,
)
from refold.placement import Placement, board_limits, place

BOARD = load_board("esp32s3-devkitc-1")
N8R8 = load_board("esp32s3-devkitc-1-n8r8")
USB = load_board("esp32s3-devkitc-1-usb")


@pytest.fixture(scope="module")
def graph(artefact: Artefact) -> QGraph:
    """The bundled network."""
    return artefact.qgraph


def board_with(**sizes: int | None) -> Board:
    """A board of that chip with other memory."""
    return msgspec.structs.replace(BOARD, memory=Memory(**sizes))


def needs(placement: Placement, window: int) -> int:
    """Bytes of the arena and the link."""
    memory = placement.memory
    return memory.arena_bytes + memory.link_bytes(window)


# --- placement ---------------------------------------------------------------


def test_a_small_model_lies_in_internal_memory(graph: QGraph) -> None:
    """All of it, weights included, although the board has PSRAM."""
    for board in (BOARD, N8R8):
        placement = place(graph, board)
        assert ("sram", "sram", 4) == (
            placement.arena,
            placement.link,
            placement.window,
        )
        assert () == placement.cold
        assert placement.memory.packed_bytes == placement.hot_bytes


def test_the_window_shrinks_before_psram_is_used(graph: QGraph) -> None:
    """Where four images do not fit, two may."""
    placement = place(graph, BOARD)
    for window in (3, 2):
        sram = needs(placement, window)
        board = board_with(sram_bytes=sram, psram_bytes=10**6)
        found = place(graph, board)
        assert ("sram", "sram", window) == (found.arena, found.link, found.window)
        assert () == found.hot


def test_the_arena_is_the_last_to_leave_internal_memory(graph: QGraph) -> None:
    """First what the link holds goes to PSRAM, then the arena, too."""
    placement = place(graph, BOARD)
    sizes = {"sram_bytes": needs(placement, 2) - 1, "psram_bytes": 10**6}
    found = place(graph, board_with(**sizes))
    assert ("sram", "psram", 4) == (found.arena, found.link, found.window)
    sizes["sram_bytes"] = placement.memory.arena_bytes - 1
    found = place(graph, board_with(**sizes))
    assert ("psram", "psram", 4) == (found.arena, found.link, found.window)


def test_what_is_read_most_often_is_hot(graph: QGraph) -> None:
    """The classifier, whose weights are read once an image, is the first to go."""
    whole = place(graph, BOARD)
    classifier = f"layer_{len(graph.layers) - 1}_packed"
    assert classifier == whole.hot[-1]
    room = whole.memory.packed_bytes - 1
    record = whole.memory.record_bytes
    board = board_with(sram_bytes=needs(whole, 4) + record + room)
    part = place(graph, board)
    assert (classifier,) == part.cold
    assert whole.hot[:-1] == part.hot
    assert part.hot_bytes <= room


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"sram_bytes": 10000}, r"needs \d+ bytes of RAM on board .* has 10000"),
        ({"sram_bytes": 50000, "system_sram_bytes": 40000}, "which has 10000"),
        (
            {"flash_bytes": 9000, "system_flash_bytes": 1000},
            r"tables are \d+ bytes, board esp32s3-devkitc-1 has 8000 bytes of flash",
        ),
    ],
)
def test_what_does_not_fit_is_told_with_numbers(
    sizes: dict[str, int], message: str, graph: QGraph
) -> None:
    """What the system takes is taken off first."""
    with pytest.raises(DoesNotFit, match=message):
        place(graph, board_with(**sizes))


def test_another_board_is_named(graph: QGraph) -> None:
    """The smallest of the chip's boards that holds the model, not the largest."""
    small = msgspec.structs.replace(board_with(sram_bytes=10000), id="small")
    with pytest.raises(DoesNotFit, match="or board esp32s3-devkitc-1, which holds it"):
        place(graph, small)


def test_the_other_boards_of_the_chip_are_ordered_by_memory() -> None:
    """Without itself, and without those whose memory is not known."""
    others = [other.board for other in board_limits(BOARD).others]
    assert [USB.id, N8R8.id] == others


def test_the_packed_weights_count(graph: QGraph) -> None:
    """A flash that holds the weights once is too small for this chip."""
    memory = place(graph, BOARD).memory
    flash = memory.weights_bytes + memory.packed_bytes - 1
    once = board_with(sram_bytes=10**6, flash_bytes=flash)
    with pytest.raises(DoesNotFit, match="flash"):
        place(graph, once)
    place(graph, msgspec.structs.replace(once, chip="other"))


@pytest.mark.parametrize("board", [BOARD, N8R8, USB], ids=lambda board: board.id)
def test_board_files_state_their_memory(board: Board) -> None:
    """Without sizes nothing could be planned."""
    memory = board.memory
    assert (memory.sram_bytes or 0) > memory.system_sram_bytes > 0
    assert (memory.flash_bytes or 0) > memory.system_flash_bytes > 0
    assert (memory.psram_bytes is not None) == (board is N8R8)


# --- files -------------------------------------------------------------------


def entries(slot_bytes: int) -> int:
    """NVS entries of a blob that is cut into as many chunks as NVS may make."""
    data = -(-slot_bytes // 32)
    chunks = -(-data // 125) + 1
    return 1 + chunks + data


@pytest.mark.parametrize("record", [0, 52, 1000, 4000, 10660, 16384, 100_000])
def test_nvs_holds_two_states_and_the_one_that_is_written(record: int) -> None:
    """With the page that NVS keeps free, in whole sectors."""
    size = nvs_bytes(record)
    assert 0 == size % SECTOR
    assert size >= 6 * SECTOR
    assert 3 * entries(16 + record) <= (size // SECTOR - 1) * 126


def test_the_slot_header_is_the_firmware_s() -> None:
    """state_slots.h has the same size."""
    text = (PORT / "state_slots.h").read_text()
    for name, value in (
        ("SLOT_HEADER_BYTES", SLOT_HEADER_BYTES),
        ("SLOTS", SLOTS),
    ):
        match = re.search(rf"#define REFOLD_{name} (\d+)", text)
        assert match is not None
        assert value == int(match[1])


@pytest.mark.parametrize("record", [52, 30_000])
def test_partitions_fill_the_flash(record: int, graph: QGraph) -> None:
    """NVS behind the table, the application aligned behind it, up to the end."""
    placement = place(graph, BOARD)
    sized = replace(placement, memory=replace(placement.memory, record_bytes=record))
    text = render_partitions(sized, 8 * 2**20)
    nvs, app = csv.reader(text.splitlines()[1:], skipinitialspace=True)
    assert ["nvs", "data", "nvs"] == nvs[:3]
    assert ["factory", "app", "factory"] == app[:3]
    start, size = int(nvs[3], 0), int(nvs[4], 0)
    app_start, app_size = int(app[3], 0), int(app[4], 0)
    assert NVS_OFFSET == start
    assert nvs_bytes(record) == size
    assert start + size <= app_start < start + size + APP_ALIGNMENT
    assert 0 == app_start % APP_ALIGNMENT
    assert 8 * 2**20 == app_start + app_size


def settings(board: Board, placement: Placement) -> dict[str, str]:
    """sdkconfig.refold as names and values."""
    text = render_sdkconfig(board, placement, Path("/b/partitions.csv"))
    return dict(line.split("=", 1) for line in text.splitlines())


def test_settings_follow_board_and_placement(graph: QGraph) -> None:
    """Flash, partitions, line, window; what lies in PSRAM."""
    placement = replace(place(graph, N8R8), arena="psram", link="psram", window=3)
    found = settings(N8R8, placement)
    assert {
        "CONFIG_ESPTOOLPY_FLASHSIZE_8MB": "y",
        "CONFIG_PARTITION_TABLE_CUSTOM_FILENAME": '"/b/partitions.csv"',
        "CONFIG_REFOLD_WINDOW": "3",
        "CONFIG_REFOLD_LINK_UART": "y",
        "CONFIG_REFOLD_BAUD": "921600",
        "CONFIG_ESP_CONSOLE_USB_SERIAL_JTAG": "y",
        "CONFIG_REFOLD_ARENA_IN_PSRAM": "y",
        "CONFIG_REFOLD_LINK_IN_PSRAM": "y",
    } == found


def test_the_console_is_on_the_other_line(graph: QGraph) -> None:
    """A link over USB leaves UART0 to the console."""
    found = settings(USB, place(graph, USB))
    assert "CONFIG_REFOLD_LINK_USB_SERIAL_JTAG" in found
    assert "CONFIG_ESP_CONSOLE_UART_DEFAULT" in found
    assert "CONFIG_REFOLD_BAUD" not in found


def test_a_board_may_have_more_settings(graph: QGraph) -> None:
    """They come last, where they win."""
    own = ("CONFIG_REFOLD_WINDOW=2", "CONFIG_REFOLD_CORE=0")
    toolchain = msgspec.structs.replace(BOARD.toolchain, sdkconfig=own)
    board = msgspec.structs.replace(BOARD, toolchain=toolchain)
    lines = render_sdkconfig(board, place(graph, board), Path("/p")).splitlines()
    assert list(own) == lines[-2:]


def test_every_setting_is_declared(graph: QGraph) -> None:
    """Names of refold's own options, in settings, sources and CMake files."""
    declared = set(re.findall(r"config (REFOLD_\w+)", kconfig()))
    texts = [path.read_text() for path in PORT.rglob("*.[ch]*")]
    texts += [(PORT / "CMakeLists.txt").read_text()]
    placement = replace(place(graph, N8R8), arena="psram", link="psram")
    texts += ["\n".join(settings(board, placement)) for board in (N8R8, USB)]
    used = set(re.findall(r"CONFIG_(REFOLD_\w+)", "\n".join(texts)))
    assert set() == used - declared
    assert set() == declared - used


def kconfig() -> str:
    """The port's options."""
    return (PORT / "Kconfig.projbuild").read_text()


def test_hot_arrays_are_named_in_the_header(graph: QGraph) -> None:
    """Each has its memory, and the build its name."""
    placement = replace(place(graph, BOARD), hot=("a",), cold=("b",), hot_bytes=7)
    lines = render_header(placement, "00ff").splitlines()
    assert {
        "#define REFOLD_PLACE_a DRAM_ATTR",
        "#define REFOLD_PLACE_b",
        "#define REFOLD_HOT_BYTES 7",
        '#define REFOLD_BUILD_HASH "00ff"',
    } <= set(lines)
