"""Boards that are lost and found: what happened to them, and what is tried."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from usb import CHIPS_OWN, attach, attach_in_turn, usb_port
from virtual_device import BUILD, Fault, Script, VirtualDevice

from refoldc.adapt import AdaptConfig

from refold import baud, power_cycle, wire
from refold.board_session import Terms, open_session
from refold.boards import load_board
from refold.build import Build
from refold.deadline import Deadline
from refold.device import Patience
from refold.errors import InfraError, LostError, RestartError, SilentError, UserError
from refold.facts import ResetReason, Status
from refold.fault_proxy import FaultProxy
from refold.faults import Fault as LineFault
from refold.phase import Phase
from refold.protocol import decode, encode
from refold.session import Session

OFF = AdaptConfig(method="off")
TERMS = Terms(
    patience=Patience(first_s=0.05, image_s=0.6, hello_s=0.4, return_s=0.5),
)
PANIC = b"Guru Meditation Error: Core  0 panic'ed (LoadProhibited).\r\n"
BUILT = Build(Path("none"), BUILD.hex(), None, Path("none/build/native"), ())


def images(count: int) -> list[bytes]:
    """Random images, alike in every run."""
    generator = random.Random(count)
    return [generator.randbytes(3000) for _ in range(count)]


@contextlib.contextmanager
def session(url: str, terms: Terms = TERMS) -> Iterator[Session]:
    """A session with whatever is behind a port."""
    with open_session(load_board("native"), BUILT, url, terms=terms) as opened:
        yield opened


def fail(opened: Session, count: int = 20) -> InfraError:
    """Stream until the board is lost; return how that shows."""

    def stream() -> None:
        list(opened.device.run(images(count)))
        opened.device.confirm()

    opened.device.begin(OFF)
    with pytest.raises(InfraError) as caught:
        stream()
    return caught.value


# --- restarts --------------------------------------------------------------------


def test_a_panic_is_told_by_hello_and_text() -> None:
    """Reason and boot count come from Hello, words from what is outside frames."""
    script = Script(restarts=(5,), last_words=PANIC)
    with VirtualDevice(script) as virtual, session(virtual.url) as opened:
        back = opened.recover(fail(opened))
    assert ("panic", 8) == (back.reason, back.boot_count)
    assert PANIC.decode().strip() == back.text


def test_a_restart_that_no_boot_count_shows() -> None:
    """After a power-on the count is the same; the board does not know the stream."""
    script = Script(restarts=(5,), counts_starts=False, reason=ResetReason.POWER_ON)
    with VirtualDevice(script) as virtual, session(virtual.url) as opened:
        error = fail(opened)
        back = opened.recover(error)
    assert isinstance(error, RestartError)
    assert ("power_on", 7) == (back.reason, back.boot_count)


def test_a_restart_after_the_last_reply() -> None:
    """Nothing is lacking, but the state that would be read is not the stream's."""
    script = Script(restarts=(20,), counts_starts=False)
    with VirtualDevice(script) as virtual, session(virtual.url) as opened:
        assert isinstance(fail(opened), RestartError)


def test_words_of_an_earlier_start_are_not_blamed() -> None:
    """What was said before the session is no news of a reset in it."""
    script = Script(restarts=(5,), greeting=b"rst:0x8 (TG1WDT_SYS_RST)\r\n\0")
    with VirtualDevice(script) as virtual, session(virtual.url) as opened:
        back = opened.recover(fail(opened))
    assert "" == back.text


def test_what_is_no_loss_is_raised_again() -> None:
    """A board that refuses and answers has not been away."""

    def refuse(number: int, frame: bytes) -> bytes:
        return frame if number < 3 else b""

    script = Script(outgoing=refuse)
    with VirtualDevice(script) as virtual, session(virtual.url) as opened:
        error = fail(opened)
        script.outgoing = lambda _, frame: frame
        with pytest.raises(InfraError) as caught:
            opened.recover(error)
    assert error is caught.value
    assert "no reply to image" in error.found


# --- lines that are cut ------------------------------------------------------------


def test_a_cut_line_is_no_restart() -> None:
    """The board ran on: it says so by its boot count, and streams again."""
    cut = [[LineFault("disconnect", 6000)]]
    with (
        VirtualDevice(tcp=True, hosts=2) as virtual,
        FaultProxy(virtual.url, to_board=cut) as proxy,
        session(proxy.url) as opened,
    ):
        error = fail(opened)
        back = opened.recover(error)
        assert virtual.boot_count == back.boot_count
        opened.device.begin(OFF)
        assert 3 == len(list(opened.device.run(images(3))))
    assert isinstance(error, LostError)
    assert "disconnect" == back.reason


def test_a_port_that_stays_away_is_given_up() -> None:
    """The loss has what showed it, what was found, the phase and the last words."""

    def panic(number: int, frame: bytes) -> bytes:
        return PANIC + b"\0" + frame if number == 3 else frame

    with VirtualDevice(Script(die_after=4, outgoing=panic), tcp=True) as virtual:
        with session(virtual.url) as opened:
            error = fail(opened)
            began = time.monotonic()
            loss = opened.recover(error)
        assert time.monotonic() - began < 5
    assert re.search(r"phase connect: .*vanished.*did not come back: ", str(loss.error))
    assert ("panic", None, PANIC.decode().strip()) == (
        loss.reason,
        loss.boot_count,
        loss.text,
    )


def test_usb_comes_back_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The board is followed by its serial number."""
    with VirtualDevice() as second, VirtualDevice(Script(die_after=4)) as first:
        here = usb_port(first.url, CHIPS_OWN, "f4:12:fa:00:00:01", "1-1")
        there = usb_port(second.url, CHIPS_OWN, "f4:12:fa:00:00:01", "1-1")
        attach(monkeypatch, here)
        with session(first.url) as opened:
            error = fail(opened)
            attach_in_turn(monkeypatch, [[], [], [there]])
            opened.recover(error)
            assert second.url == opened.device.port


# --- boards that are silent ----------------------------------------------------------


def deaf_until(file: Path, after: int = 0) -> Fault:
    """From a frame on nothing reaches the board, until a file is there."""
    return lambda number, frame: frame if number <= after or file.exists() else b""


def with_power(command: str) -> Terms:
    """The terms of a board whose power can be cut."""
    return replace(TERMS, power_cycle=command)


@pytest.mark.parametrize("after", [0, 6], ids=["at-once", "in-mid-stream"])
def test_a_silent_board_gets_its_power_cut(tmp_path: Path, after: int) -> None:
    """Then it is greeted again."""
    flag = tmp_path / "cut"
    script = Script(incoming=deaf_until(flag, after))
    terms = with_power(f"touch '{flag}'")
    with VirtualDevice(script) as virtual, session(virtual.url, terms) as opened:
        if after:
            loss = opened.recover(fail(opened))
            assert ("silent", 7) == (loss.reason, loss.boot_count)
        opened.device.begin(OFF)
        assert 3 == len(list(opened.device.run(images(3))))
    assert flag.exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("echo no hub; exit 7", r"'echo no hub; exit 7' ended with 7, saying: no hub"),
        ("sleep 30", r"'sleep 30' took longer than 0\.3 s"),
        ("sleep 30 & wait", r"took longer than 0\.3 s"),
        ("true", r"silent.*even after a power cycle by 'true'"),
    ],
)
def test_a_power_cycle_in_vain(
    command: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command, its end and its words are in the message, with the phase."""
    monkeypatch.setattr(power_cycle, "POWER_CYCLE_S", 0.3)
    began = time.monotonic()
    with (
        VirtualDevice(Script(answers=False)) as virtual,
        pytest.raises(InfraError, match=message) as caught,
        session(virtual.url, with_power(command)),
    ):
        pass
    assert Phase.HELLO == caught.value.phase
    assert time.monotonic() - began < 10


def test_without_a_power_cycle_silence_is_the_end() -> None:
    """The phase is named."""
    with (
        VirtualDevice(Script(answers=False)) as virtual,
        pytest.raises(SilentError, match=r"phase hello: port .* is silent"),
        session(virtual.url),
    ):
        pass


# --- deadlines -----------------------------------------------------------------------


def limited(seconds: float) -> Terms:
    """Terms with long waits and a deadline."""
    return Terms(deadline=Deadline(seconds))


def test_a_deadline_ends_the_wait_for_hello() -> None:
    """Before that wait's own end, and in its name."""
    began = time.monotonic()
    with (
        VirtualDevice(Script(answers=False)) as virtual,
        pytest.raises(InfraError, match=r"phase hello: the deadline of 0\.5 s has"),
        session(virtual.url, limited(0.5)),
    ):
        pass
    assert time.monotonic() - began < 5


def test_a_deadline_ends_a_stream() -> None:
    """Replies till then are out; the board is not sought any more."""
    script = Script(incoming=lambda n, frame: frame if n < 9 else b"")
    with VirtualDevice(script) as virtual, session(virtual.url, limited(1)) as opened:
        error = fail(opened)
        with pytest.raises(InfraError) as caught:
            opened.recover(error)
    assert error is caught.value
    assert "the deadline of 1 s has passed" == error.found


def test_a_deadline_that_has_passed_opens_nothing() -> None:
    """The phase is the first."""
    with (
        pytest.raises(InfraError, match="phase connect: the deadline"),
        session("socket://127.0.0.1:1", limited(1e-9)),
    ):
        pass


# --- baud rates ----------------------------------------------------------------------


def test_another_baud_rate_is_found_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has both rates, and the line to change."""
    monkeypatch.setattr(baud, "has_baud", lambda _: True)

    def at_115200(_: int, frame: bytes) -> bytes:
        return frame if virtual.baud == 115200 else b"\xf0\x9c~~"

    virtual = VirtualDevice(Script(outgoing=at_115200))
    found = (
        r"answers at 115200 baud, not at 921600; set baud = 115200 in .*native\.toml"
    )
    with virtual, pytest.raises(UserError, match=found), session(virtual.url):
        pass


def test_garbage_at_every_rate_stays_garbage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program is no rate's fault."""
    monkeypatch.setattr(baud, "has_baud", lambda _: True)
    monkeypatch.setattr(baud, "PROBE_S", 0.1)
    with (
        VirtualDevice(Script(instead=b"login: ")) as virtual,
        pytest.raises(InfraError, match="that are no frames"),
        session(virtual.url),
    ):
        pass


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("socket://host:4000", False),
        ("rfc2217://host:4000", True),
        ("/dev/ttyUSB0", True),
        ("/dev/pts/3", False),
        ("COM7", True),
    ],
)
def test_which_ports_have_a_rate(url: str, expected: bool) -> None:
    """Sockets and pseudo-terminals are not probed."""
    assert expected == wire.has_baud(url)


def test_a_restart_while_its_state_is_read() -> None:
    """Only a board that started anew has forgotten what it was sending."""

    def forget(number: int, frame: bytes) -> bytes:
        if number < 3:
            return frame
        answered = decode(frame[:-1]).sequence
        return encode("ack", answered, Status.ERROR_STATE)

    with (
        VirtualDevice(Script(outgoing=forget)) as virtual,
        session(virtual.url) as opened,
        pytest.raises(RestartError, match="lost what it was sending"),
    ):
        opened.device.read_state()
