"""A link put to the test: what is lost is counted, and nothing changes on the board."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import cast

import pytest
from virtual_device import Fault, Script, VirtualDevice

from refold import link_check
from refold.device import Device
from refold.facts import CHUNK_BYTES
from refold.link import Link, open_link
from refold.link_check import (
    GREETINGS,
    SIZES,
    LinkReport,
    check_link,
    contents,
)
from refold.protocol import DELIMITER, Frame, decode, encode


@pytest.fixture(autouse=True)
def haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up on an answer early."""
    monkeypatch.setattr(link_check, "ANSWER_S", 0.2)


def check(script: Script, *, rounds: int = 2, tcp: bool = False) -> LinkReport:
    """Test the link to a device of ours."""
    with VirtualDevice(script, tcp=tcp) as device, open_link(device.url) as link:
        report = check_link(link, Device(link).hello(), rounds=rounds)
        assert {"hello_request", "input", "state_read"} >= set(device.heard)
        assert [] == device.ran
        assert [] == device.configured
        assert script.state == device.state
    return report


def expected_frames(rounds: int, *, state: bool) -> int:
    """Greetings, every size once to the board, and a look for a state; of a state
    every size twice."""
    return GREETINGS + rounds * len(SIZES) * (3 if state else 1) + 1


@pytest.mark.parametrize("tcp", [False, True], ids=["pty", "tcp"])
def test_a_sound_link_loses_nothing(tcp: bool) -> None:
    """All frames are answered alike, and both directions have a rate."""
    report = check(Script(state=bytes(range(250)) * 20), tcp=tcp)
    frames = expected_frames(2, state=True)
    assert (frames, 0, 0) == (report.frames, report.lost, report.differing)
    assert report.to_board > 0
    assert (report.to_host or 0) > 0
    assert 0 < report.turn_s < 0.2


def test_a_board_without_state_is_only_sent_frames() -> None:
    """There is nothing to fetch from it."""
    report = check(Script(state=b""))
    assert (expected_frames(2, state=False), 0) == (report.frames, report.lost)
    assert report.to_host is None


def lose(*numbers: int) -> Fault:
    """Lose these frames."""
    return lambda number, wire: b"" if number in numbers else wire


HELLOS = 1 + GREETINGS


@pytest.mark.parametrize("side", ["incoming", "outgoing"])
@pytest.mark.parametrize(
    "numbers",
    [(HELLOS + 3,), (HELLOS + 3, HELLOS + 4, HELLOS + 20), (4, HELLOS + 2 * 18 + 5)],
    ids=["one", "some", "a turn and a piece"],
)
def test_lost_frames_are_counted(side: str, numbers: tuple[int, ...]) -> None:
    """Whichever way they were going."""
    report = check(Script(**{side: lose(*numbers)}))  # type: ignore[arg-type]
    assert (len(numbers), 0) == (report.lost, report.differing)


def test_late_answers_are_not_lost() -> None:
    """Neither one that others overtake, nor one after its wait has ended."""
    held: list[bytes] = []

    def overtake(number: int, wire: bytes) -> bytes:
        if number == HELLOS + 3:
            held.append(wire)
            return b""
        if number == HELLOS + 5:
            return wire + held.pop()
        if number == HELLOS + 2 * len(SIZES):
            time.sleep(1.5 * link_check.ANSWER_S)
        return wire

    assert 0 == check(Script(outgoing=overtake, state=b"")).lost


def test_damaged_frames_are_lost_frames() -> None:
    """A CRC that does not fit is no answer."""

    def damage(number: int, wire: bytes) -> bytes:
        return bytes([wire[0] ^ 64]) + wire[1:] if number % 10 == 0 else wire

    report = check(Script(outgoing=damage))
    assert 10 <= report.lost <= 20


def test_other_content_is_noticed() -> None:
    """A piece of the state that is another one the second time, with a sound CRC."""
    once = iter([False] * 20 + [True])

    def change(_number: int, wire: bytes) -> bytes:
        frame = decode(wire.removesuffix(DELIMITER))
        if frame.name != "state" or not frame.rest or not next(once, False):
            return wire
        rest = bytes([frame.rest[0] ^ 1]) + frame.rest[1:]
        return encode("state", frame.sequence, *frame.values, rest=rest)

    report = check(Script(outgoing=change))
    assert (0, 1) == (report.lost, report.differing)


def test_a_deaf_board_ends_the_test() -> None:
    """After one wait for all that is under way, not one for each frame."""
    silent = [False]

    def hear(number: int, wire: bytes) -> bytes:
        silent[0] = silent[0] or number > HELLOS
        return b"" if silent[0] else wire

    with VirtualDevice(Script(incoming=hear)) as device, open_link(device.url) as link:
        report = check_link(link, Device(link).hello(), rounds=1)
    assert len(SIZES) + 1 == report.lost
    assert report.to_host is None


class Queue:
    """A link whose board answers only when it is listened to."""

    received_bytes = 0

    def __init__(self) -> None:
        self.waiting: list[tuple[int, int]] = []
        self.most = 0

    def send(self, data: bytes, *, timeout_s: float, phase: str) -> None:
        frame = decode(data.strip(DELIMITER))
        if frame.name == "input":
            self.waiting.append((frame.sequence, len(data)))
            self.most = max(self.most, sum(size for _, size in self.waiting))
        else:
            self.waiting.append((frame.sequence, 0))

    def receive(self, timeout_s: float) -> Frame:
        return Frame("ack", self.waiting.pop(0)[0], (0,), b"")


@pytest.mark.parametrize("room", [5000, 8192, 2**32 - 1])
def test_no_more_is_under_way_than_the_board_can_hold(room: int) -> None:
    """Its Hello says how much; a board without a bound is not flooded either."""
    with VirtualDevice() as device, open_link(device.url) as link:
        hello = replace(Device(link).hello(), receive_bytes=room)
    queue = Queue()
    report = check_link(cast("Link", queue), hello, rounds=4)
    assert 0 == report.lost
    bound = min(room, link_check._UNDER_WAY)
    assert bound / 2 < queue.most <= bound


def test_contents_are_hard_on_cobs_and_on_memory() -> None:
    """Of every size: all zeros, none, a period that is prime, and noise."""
    found = list(contents(4))
    assert list(SIZES) * 4 == [len(data) for data in found]
    assert max(SIZES) == CHUNK_BYTES
    zeros, ones, prime, noise = (found[i * len(SIZES) - 1] for i in range(1, 5))
    assert (bytes(CHUNK_BYTES), b"\xff" * CHUNK_BYTES) == (zeros, ones)
    assert prime[:251] == prime[251:502] != prime[1:252]
    assert len(set(noise)) > 200
