"""The firmware as Xtensa machine code: the same bits as everywhere else."""

from __future__ import annotations

import os
import shutil
import subprocess
from math import prod
from pathlib import Path
from typing import Literal

import pytest
from cbuild import INCLUDE, ROOT, RUNTIME_SOURCES, STRICT

from refoldc.adapt import AdaptConfig
from refoldc.artefact import Artefact
from refoldc.options import CompileOptions
from refoldc.pipeline import compile_model

from refold.board_session import Terms, connect, open_session
from refold.boards import Board, load_board
from refold.build import Build, build, build_twin
from refold.data import load_data
from refold.device import Reply
from refold.errors import InfraError, UserError
from refold.link_check import check_link
from refold.resources import bundled_model
from refold.result import Result
from refold.runner import RunOptions, run
from refold.toolchain import find_compiler
from refold.twin import Twin

TINY = Path(__file__).parents[1] / "host/tiny_artefact"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """Compile the bundled model."""
    images = load_data("digits", split="train", limit=64).images
    return compile_model(
        bundled_model(), images, tmp_path_factory.mktemp("digits") / "digits.refold"
    )


@pytest.fixture(scope="module")
def digits_pace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Artefact:
    """The bundled model with both methods; the parameter says which sites move."""
    return compile_model(
        bundled_model(),
        load_data("digits", split="train", limit=64).images,
        tmp_path_factory.mktemp("pace") / "digits.refold",
        options=CompileOptions(adapt="forge+pace", moved_sites=request.param),
    )


def test_no_warnings(xtensa: Board) -> None:
    """All of the firmware is strict C99 to this compiler, too."""
    compiler = find_compiler(xtensa.toolchain)
    port = ROOT / "firmware/ports" / xtensa.port
    folders = [f"-I{folder}" for folder in (INCLUDE, ROOT / "firmware/src", TINY)]
    subprocess.run(
        [
            *(*compiler.command, *compiler.cflags, *STRICT, *folders),
            *("-fsyntax-only", '-DREFOLD_BUILD_HASH="0"'),
            *(*RUNTIME_SOURCES, *port.glob("*.c"), TINY / "model.c"),
        ],
        check=True,
    )


def test_its_link_answers_every_frame(xtensa: Board, digits: Artefact) -> None:
    """Of all sizes both ways, however slow the emulator is."""
    built = build(digits.path, xtensa)
    with open_session(xtensa, built, terms=Terms()) as session:
        report = check_link(session.link, session.device.hello(), rounds=1)
    assert (0, 0) == (report.lost, report.differing)
    assert report.to_host is not None


def mismatches(result: Result) -> list[tuple[str, str, int, int]]:
    """Mode, corruption, images and parity mismatches of every stream."""
    return [
        (r.adapt, s.corruption, s.images, s.parity_mismatches)
        for r in result.runs
        for s in r.streams
    ]


def test_digits_run(xtensa: Board, digits: Artefact) -> None:
    """Clean and noisy images over the UART, adaptation off and on: parity holds."""
    options = RunOptions(
        data="digits", board=xtensa.id, corruptions="gaussian_noise", images=6
    )
    result = run(digits.path, options)
    assert ("pass", "lx106") == (result.verdict, result.board.chip)
    assert [
        ("off", "clean", 6, 0),
        ("off", "gaussian_noise", 6, 0),
        ("forge", "clean", 6, 0),
        ("forge", "gaussian_noise", 6, 0),
    ] == mismatches(result)


def test_resnet20_run(xtensa: Board, shared: Path, tmp_path: Path) -> None:
    """One image of CIFAR-10 through ResNet-20 with FORGE: parity holds."""
    data = f"npz:{shared / 'data/cifar10c_sev5_1000.npz'}"
    model = shared / "models/resnet20_cifar10_forge.onnx"
    artefact = compile_model(
        model,
        load_data(data, split="test", limit=8).images,
        tmp_path / "resnet20.refold",
        options=CompileOptions(
            mean=(0.4914, 0.4822, 0.4465), std=(0.2470, 0.2435, 0.2616)
        ),
    )
    options = RunOptions(
        data=data, board=xtensa.id, corruptions="none", adapt="forge", images=1
    )
    result = run(artefact.path, options)
    assert [("forge", "clean", 1, 0)] == mismatches(result)
    assert "pass" == result.verdict


def adapt_to(
    board: Board,
    artefact: Artefact,
    images: list[bytes],
    config: AdaptConfig | None = None,
) -> tuple[list[Reply], bytes]:
    """Stream images; return the replies and the state they leave."""
    with connect(board, build(artefact.path, board)) as device:
        device.begin(config or AdaptConfig())
        replies = list(device.run(images))
        return replies, device.read_state()


def test_adaptation_state_is_the_native_boards(xtensa: Board, digits: Artefact) -> None:
    """After each of 50 images logits and score are the same bits, then the state."""
    images = [
        255 - image for image in load_data("digits", split="test", limit=50).images
    ]
    data = [image.tobytes() for image in images]
    native, native_state = adapt_to(load_board("native"), digits, data)
    found, state = adapt_to(xtensa, digits, data)
    assert [reply.logits.tolist() for reply in native] == [
        reply.logits.tolist() for reply in found
    ]
    assert [reply.shift_score for reply in native] == [
        reply.shift_score for reply in found
    ]
    assert all(reply.adapted for reply in found)
    assert found[-1].shift_score > 0
    assert native_state == state


@pytest.mark.parametrize(
    ("method", "digits_pace", "whole"),
    [("pace", "first", True), ("forge+pace", "last", False)],
    indirect=["digits_pace"],
    ids=["pace", "forge+pace late"],
)
def test_searches_are_the_native_boards(
    xtensa: Board,
    digits_pace: Artefact,
    method: Literal["pace", "forge+pace"],
    whole: bool,
) -> None:
    """Candidates, losses and decisions end in the same bits on both boards and here."""
    search = digits_pace.manifest.search
    assert search is not None
    assert whole == (search.cut.first == 0)
    config = AdaptConfig(
        method=method,
        gate=False,
        window=8,
        population=4,
        sigma=0.3,
        weight=0.5,
        accept=0.5,
        source=True,
    )
    images = 255 - load_data("digits", split="test", limit=27).images
    data = [image.tobytes() for image in images]
    native, native_state = adapt_to(load_board("native"), digits_pace, data, config)
    found, state = adapt_to(xtensa, digits_pace, data, config)
    library = build_twin(digits_pace.path, load_board("native"))
    twin = Twin(library, digits_pace.qgraph)
    twin.configure(config)
    here = [twin.infer(image) for image in images]
    assert {1, 1 + (4 + 2) * 8} == {reply.forward_passes for reply in found}
    for expected, *others in zip(native, found, here, strict=True):
        for other in others:
            assert expected.logits.tolist() == other.logits.tolist()
            assert expected.forward_passes == other.forward_passes
    assert native_state == state
    assert native_state == twin.save_state()


def test_times_count_instructions(xtensa: Board, digits: Artefact) -> None:
    """They are the emulator's: two runs differ by a microsecond's rounding at most."""
    images = [bytes(prod(digits.manifest.input.shape))] * 3
    first, second = (adapt_to(xtensa, digits, images)[0] for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert one.infer_us > one.adapt_us > 0
        assert abs(one.infer_us - other.infer_us) <= 1
        assert abs(one.adapt_us - other.adapt_us) <= len(digits.manifest.sites)


def test_layers_count_cycles(xtensa: Board, digits: Artefact) -> None:
    """A profile's layers make up nearly all of the inference, in CCOUNT's cycles."""
    options = RunOptions(
        data="digits",
        board=xtensa.id,
        corruptions="none",
        adapt="forge",
        images=2,
        profile=True,
    )
    [profile] = run(digits.path, options).profile
    assert ("cycles", 40, 2) == (profile.unit, profile.ticks_per_us, profile.images)
    spent = sum(layer.ticks for layer in profile.layers)
    assert 0.99 * profile.total < spent <= profile.total
    assert all(layer.ticks > 0 for layer in profile.layers)


# --- firmware that fails -----------------------------------------------------


def faulty(tmp_path: Path, old: str, new: str) -> Path:
    """Copy the tiny artefact with a fault in its model."""
    artefact = tmp_path / "artefact"
    shutil.copytree(TINY, artefact)
    source = artefact / "model.c"
    text = source.read_text()
    assert old in text
    source.write_text(text.replace(old, new))
    return artefact


def test_a_refused_model_is_told(xtensa: Board, tmp_path: Path) -> None:
    """The firmware says what is wrong and ends the emulator."""
    artefact = faulty(tmp_path, ".abi = REFOLD_ABI", ".abi = 99")
    with (
        pytest.raises(
            InfraError, match=r"exited with 1, saying: panic: refold_init returns"
        ),
        connect(xtensa, build(artefact, xtensa)),
    ):
        pass


def test_an_exception_is_told(xtensa: Board, tmp_path: Path) -> None:
    """A wild pointer in mid-stream ends the session with cause and address."""
    artefact = faulty(tmp_path, ".layers = layers", ".layers = (const void *)64")
    with pytest.raises(
        InfraError, match=r"saying: panic: exception cause 0x\S+ at 0x6000"
    ):
        stream_one(xtensa, build(artefact, xtensa))


def stream_one(board: Board, built: Build) -> None:
    """Send one image of the tiny model."""
    with connect(board, built) as device:
        device.begin(AdaptConfig(method="off"))
        list(device.run([bytes(12)]))


def test_a_missing_emulator_is_the_users(
    xtensa: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the program and how to get it."""
    built = build(faulty(tmp_path, "tiny", "tiny"), xtensa)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with (
        pytest.raises(UserError, match=r"no qemu-system-xtensa .*apt install"),
        connect(xtensa, built),
    ):
        pass
