from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
from plain_codec import by_hand
from virtual_device import (
    BUILD,
    Fault,
    Script,
    VirtualDevice,
    expected_logits,
)

from refoldc.adapt import AdaptConfig

from refold.device import Device, Patience, Reply
from refold.errors import InfraError, UserError
from refold.facts import ABI, Method, Rule, Stats, Status
from refold.link import open_link
from refold.protocol import encode
from refold.stream import wire_bytes

PATIENCE = Patience(first_s=0.05, image_s=5.0)
HASTE = Patience(first_s=0.02, image_s=0.2)
OFF = AdaptConfig(method="off")


@contextlib.contextmanager
def device(
    virtual: VirtualDevice, patience: Patience = PATIENCE, hello_s: float = 0.5
) -> Iterator[Device]:
    """Start a virtual device and connect to it."""
    with virtual, open_link(virtual.url) as link:
        yield Device(
            link,
            build_hash=BUILD.hex(),
            remedy="run 'refold build DIR'",
            default_sites=(0, 9),
            patience=replace(patience, hello_s=hello_s),
        )


def pictures(count: int, size: int = 3000) -> list[bytes]:
    """Random images, alike in every run."""
    generator = random.Random(count)
    return [generator.randbytes(size) for _ in range(count)]


def noise(rate: float, *damage: str) -> Fault:
    """Drop, damage or repeat frames at random; the n-th alike in every run."""
    effects: dict[str, Callable[[bytes], bytes]] = {
        "drop": lambda _: b"",
        "damage": lambda wire: b"\x07" + wire[1:],
        "repeat": lambda wire: wire + wire,
    }

    def fault(number: int, wire: bytes) -> bytes:
        generator = random.Random(number)
        chosen = effects[generator.choice(damage)]
        return chosen(wire) if generator.random() < rate else wire

    return fault


def check(virtual: VirtualDevice, replies: list[Reply], images: list[bytes]) -> None:
    """Every image was run once, in order, and answered with its own logits."""
    outputs = virtual.script.outputs
    assert list(range(len(images))) == virtual.ran
    assert list(range(len(images))) == [reply.index for reply in replies]
    assert [expected_logits(image, outputs) for image in images] == [
        reply.logits.tolist() for reply in replies
    ]


# --- hello -----------------------------------------------------------------------


def test_hello_tells_who_the_device_is() -> None:
    """The identity arrives typed, boot text before it does not disturb."""
    virtual = VirtualDevice(Script(greeting=b"boot: ESP-ROM\r\n"), tcp=True)
    with device(virtual) as board:
        hello = board.hello()
    assert ("virtual", BUILD.hex(), 3000, 10, 4) == (
        hello.chip,
        hello.build_hash,
        hello.input_bytes,
        hello.outputs,
        hello.window,
    )


def test_a_stale_build_is_refused_with_the_command_that_helps() -> None:
    """Firmware of another build hash is the user's to replace."""
    script = Script(build_hash=b"\xee" * 8)
    with (
        device(VirtualDevice(script)) as board,
        pytest.raises(
            UserError,
            match=r"runs build eeeeeeeeeeeeeeee .* expected build 0001020304050607 .*"
            "'refold build DIR'",
        ),
    ):
        board.hello()


def test_another_abi_is_refused() -> None:
    """The build may be the wanted one and still be of another ABI."""
    with (
        device(VirtualDevice(Script(abi=9))) as board,
        pytest.raises(UserError, match=rf"ABI 9, .* \(ABI {ABI}\)"),
    ):
        board.hello()


def test_another_protocol_is_refused() -> None:
    """A device that answers in another protocol version is named so."""
    script = Script(instead=by_hand(b"\x07\x82\x00\x00"))
    with (
        device(VirtualDevice(script)) as board,
        pytest.raises(UserError, match="protocol version 7, this refold 1"),
    ):
        board.hello()


def test_a_silent_board_is_infrastructure() -> None:
    """No byte at all: the message says so and how long it waited."""
    with (
        device(VirtualDevice(Script(answers=False)), hello_s=0.2) as board,
        pytest.raises(InfraError, match=r"silent: no byte within 0\.2 s"),
    ):
        board.hello()


def test_garbage_names_bytes_phase_and_baud() -> None:
    """Bytes that are no frames make the baud rate suspect."""
    with (
        device(VirtualDevice(Script(instead=b"\xf0\x9c~~\0")), hello_s=0.2) as board,
        pytest.raises(InfraError, match=r"hello, but \d+ bytes .* last: .*~~.*115200"),
    ):
        board.hello()


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (b"login: ", "login:"),
        (b"C:\\> \x1b[31m", r"C:\\\\> \\x1b\[31m"),
        (b"\xff\xfe" * 2000, r"(\\xff|\\xfe){40}"),
        (b"a\0b\xff" * 2000, r"[ab\\xf]{1,160}"),
    ],
)
def test_what_another_program_says_is_shown(said: bytes, shown: str) -> None:
    """Without a delimiter too; escaped once, and no more than a line or two."""
    with (
        device(VirtualDevice(Script(instead=said)), hello_s=0.3) as board,
        pytest.raises(InfraError, match=rf"the last: '[^']*{shown}'; ") as caught,
    ):
        board.hello()
    assert 500 > len(str(caught.value))


def test_a_lost_hello_is_asked_for_again() -> None:
    """The first request vanishes, the second is answered."""
    virtual = VirtualDevice(Script(incoming=lambda n, wire: b"" if n == 1 else wire))
    with device(virtual, hello_s=5) as board:
        assert board.hello().chip == "virtual"


# --- streams -----------------------------------------------------------------------


@pytest.mark.parametrize("tcp", [False, True], ids=["pty", "tcp"])
@pytest.mark.parametrize("size", [1, 2048, 3000, 9000])
def test_images_are_answered_in_order(tcp: bool, size: int) -> None:
    """Images of one chunk and of several, over both kinds of port."""
    virtual = VirtualDevice(Script(input_bytes=size), tcp=tcp)
    images = pictures(20, size)
    with device(virtual) as board:
        board.begin(OFF)
        replies = list(board.run(images))
    check(virtual, replies, images)
    assert sum(reply.resent for reply in replies) == 0


def test_a_reply_has_the_devices_numbers() -> None:
    """Times, score and flags come through as they were sent."""
    with device(VirtualDevice()) as board:
        board.begin(OFF)
        (reply,) = board.run(pictures(1))
    assert (500, 20, 7, True, None, 1, 0) == (
        reply.infer_us,
        reply.adapt_us,
        reply.search_us,
        reply.adapted,
        reply.gate,
        reply.forward_passes,
        reply.resent,
    )
    assert (np.float32(0.25), np.float32) == (
        reply.shift_score,
        type(reply.shift_score),
    )
    assert reply.logits.dtype == np.int32


def test_long_logits_come_in_several_frames() -> None:
    """Results are put together from their parts, lost parts included."""
    virtual = VirtualDevice(
        Script(outputs=1001, logits_per_frame=300, outgoing=noise(0.15, "drop"))
    )
    images = pictures(12)
    with device(virtual) as board:
        board.begin(OFF)
        replies = list(board.run(images))
    check(virtual, replies, images)


@pytest.mark.parametrize("damage", ["drop", "damage", "repeat"])
@pytest.mark.parametrize("way", ["incoming", "outgoing"])
@pytest.mark.parametrize("rate", [0.05, 0.25])
def test_disturbances_are_mended(damage: str, way: str, rate: float) -> None:
    """Whatever befalls one frame in twenty or in four, each image is run once."""
    script = Script(**{way: noise(rate, damage)})
    virtual, images = VirtualDevice(script), pictures(16)
    with device(virtual, hello_s=5) as board:
        board.begin(OFF)
        replies = list(board.run(images))
    check(virtual, replies, images)
    assert (damage == "repeat") == (sum(reply.resent for reply in replies) == 0)


def test_the_window_is_never_exceeded() -> None:
    """No more images are under way than the device has credits."""
    virtual, images = VirtualDevice(Script(window=3)), pictures(10)
    drawn: list[int] = []

    def source() -> Iterator[bytes]:
        for number, image in enumerate(images):
            drawn.append(number)
            yield image

    with device(virtual) as board:
        board.begin(OFF)
        for reply in board.run(source()):
            assert len(drawn) <= reply.index + 1 + 3
    assert drawn == list(range(10))


def test_a_small_receive_buffer_is_not_overrun() -> None:
    """Beside the image that runs only what the port can hold is sent ahead."""
    size = 8192 * 3
    drawn: list[int] = []

    def source() -> Iterator[bytes]:
        for image in pictures(6, size):
            drawn.append(len(image))
            yield image

    assert wire_bytes(size) > 8192
    with device(VirtualDevice(Script(input_bytes=size))) as board:
        board.begin(OFF)
        ahead = [len(drawn) - 1 - reply.index for reply in board.run(source())]
    assert max(ahead) == 1  # the next, sent once this one was answered


def test_two_runs_continue_one_stream() -> None:
    """Images are numbered on until the next begin."""
    virtual, images = VirtualDevice(), pictures(7)
    with device(virtual) as board:
        board.begin(OFF)
        replies = [*board.run(images[:3]), *board.run(images[3:])]
    check(virtual, replies, images)


def test_a_new_stream_forgets_an_abandoned_one() -> None:
    """After a run that was left early, begin starts at image 0 again."""
    virtual, images = VirtualDevice(), pictures(6)
    with device(virtual) as board:
        board.begin(OFF)
        next(board.run(images))
        with pytest.raises(ValueError, match="abandoned"):
            next(board.run(images))
        board.begin(OFF)
        virtual.ran.clear()
        replies = list(board.run(images))
    assert [expected_logits(image, 10) for image in images] == [
        reply.logits.tolist() for reply in replies
    ]
    assert len(virtual.configured) == 2


def test_run_without_begin_is_a_bug() -> None:
    """The order of calls is the caller's to keep."""
    with device(VirtualDevice()) as board, pytest.raises(ValueError, match="begin"):
        board.run([])


def test_images_of_another_size_are_refused() -> None:
    """The message has both sizes."""
    with device(VirtualDevice()) as board:
        board.begin(OFF)
        with pytest.raises(UserError, match=r"image 0 has 5 bytes, .* takes 3000"):
            next(board.run([bytes(5)]))


@pytest.mark.parametrize("tcp", [False, True], ids=["pty", "tcp"])
def test_death_in_mid_stream_keeps_the_replies(tcp: bool) -> None:
    """What was answered before is yielded before the error."""
    virtual, images = VirtualDevice(Script(die_after=7), tcp=tcp), pictures(30)
    replies: list[Reply] = []
    with device(virtual) as board:
        board.begin(OFF)
        with pytest.raises(InfraError, match="vanished"):
            replies.extend(board.run(images))
    # A system may drop what a dead peer sent last, but the seventh image was
    # only sent because the third had been answered.
    assert len(replies) >= 3
    virtual.ran = virtual.ran[: len(replies)]
    check(virtual, replies, images[: len(replies)])


def test_a_device_that_hangs_is_given_up() -> None:
    """A deadline per image ends the wait, and the message names the image."""
    virtual = VirtualDevice(Script(incoming=lambda n, wire: wire if n < 6 else b""))
    with device(virtual, patience=HASTE) as board:
        board.begin(OFF)
        start = time.monotonic()
        with pytest.raises(InfraError, match=r"no reply to image 1 within 0\.2 s"):
            list(board.run(pictures(9)))
    assert time.monotonic() - start < 3


def test_a_restart_in_mid_stream_is_told() -> None:
    """A Hello of another boot during a stream ends the run."""
    numbers = (1, 8, 3000, 10, 3, 2, 4, 8192, 1000, 0, 0, 0, 0, 0, 0)
    hello = encode("hello", 0, 1, BUILD, bytes(32), b"virtual", *numbers)

    def reboot(number: int, wire: bytes) -> bytes:
        return hello if number == 5 else wire

    with device(VirtualDevice(Script(outgoing=reboot))) as board:
        board.begin(OFF)
        with pytest.raises(InfraError, match="restarted in mid-stream"):
            list(board.run(pictures(9)))


def test_the_engine_costs_little() -> None:
    """An image of 3 KB costs the host under 0.15 ms of processor time."""
    with device(VirtualDevice(Script(window=32))) as board:
        board.begin(OFF)
        images = pictures(300)
        start = time.thread_time()
        assert 300 == sum(1 for _ in board.run(images))
        assert (time.thread_time() - start) / 300 < 150e-6


# --- settings and state --------------------------------------------------------------


def test_begin_sends_the_settings() -> None:
    """Every field of the configuration arrives, sites as a mask."""
    virtual = VirtualDevice()
    config = AdaptConfig(
        stats="exact",
        gate=False,
        interval=4,
        warm=16,
        shrinkage=0.25,
        momentum=0.5,
        grade=0.125,
        sites=(1, 8),
        accept=1.5,
        source=True,
    )
    with device(virtual) as board:
        board.begin(config, keep_state=True)
    (fields,) = virtual.configured
    mask = b"\x02\x01" + bytes(30)
    expected = (1, Method.FORGE, Stats.EXACT, Rule.REFOLD)
    search = (config.seed, 0, 12, 0, 20)
    assert (*expected, 0, 4, 16, 0.25, 0.5, 0.125, mask, *search) == fields[1:-6]
    assert (1.5, True) == fields[-2:]


def test_sites_default_to_the_models() -> None:
    """A configuration without sites takes those of the artefact."""
    virtual = VirtualDevice()
    with device(virtual) as board:
        board.begin(AdaptConfig())
    assert b"\x01\x02" + bytes(30) in virtual.configured[0]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (Status.ERROR_UNSUPPORTED, UserError),
        (Status.ERROR_CONFIG, UserError),
        (Status.ERROR_SIZE, InfraError),
    ],
)
def test_refused_settings_are_explained(status: Status, kind: type[Exception]) -> None:
    """The device's status becomes its text."""
    with (
        device(VirtualDevice(Script(refuse=status))) as board,
        pytest.raises(kind, match=r"the board refused configure: .* then run again"),
    ):
        board.begin(OFF)


def test_state_is_read_and_written_over_a_bad_line() -> None:
    """A state of several chunks survives lost frames in both directions."""
    virtual = VirtualDevice(
        Script(incoming=noise(0.3, "drop"), outgoing=noise(0.3, "damage", "repeat"))
    )
    state = random.Random(1).randbytes(5000)
    with device(virtual, hello_s=5) as board:
        board.write_state(state)
        assert virtual.state == state
        assert board.read_state() == state


def test_a_device_without_state_has_an_empty_one() -> None:
    """Nothing is asked where there is nothing."""
    virtual = VirtualDevice(Script(state=b""))
    with device(virtual) as board:
        assert board.read_state() == b""
    assert virtual.heard == ["hello_request"]


def test_a_request_without_answer_is_given_up() -> None:
    """The deadline and the request are named."""
    virtual = VirtualDevice(Script(incoming=lambda n, wire: wire if n == 1 else b""))
    with (
        device(virtual, patience=HASTE) as board,
        pytest.raises(InfraError, match=r"no answer to state_read within 0\.2 s"),
    ):
        board.read_state()
