"""Profiles: what each layer takes, measured, shown and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_model import make_images, write_data, write_model
from test_device import device
from virtual_device import Script, VirtualDevice

from refoldc.artefact import Artefact
from refoldc.cost import layer_macs
from refoldc.pipeline import compile_model

from refold.cli import main
from refold.device import Device
from refold.errors import InfraError, UserError
from refold.modes import parse_modes
from refold.profile import measure, profile_lines, require_times
from refold.protocol import Times, encode
from refold.result import LayerTime, Profile, load_result


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> Artefact:
    """Compile the small network."""
    folder = tmp_path_factory.mktemp("profiled")
    model = write_model(folder / "small.onnx")
    return compile_model(model, make_images(32), folder / "small.refold")


@pytest.mark.parametrize("layers", [1, 511, 512, 513, 1500])
def test_times_come_in_frames(layers: int) -> None:
    """Times beyond one frame follow in more."""
    times = tuple(range(100, 100 + layers))
    with device(VirtualDevice(Script(times=times))) as board:
        assert Times(0, 2, sum(times), times) == board.read_times()


def test_times_that_do_not_come_are_told() -> None:
    """A board that announces layers and sends none is no endless question."""

    class Mute(VirtualDevice):
        def _on_profile_request(self, frame: Any) -> None:
            self._send(encode("profile", frame.sequence, 0, 1, 5, 7, 0))

    with (
        device(Mute()) as board,
        pytest.raises(InfraError, match=r"from layer 0, got 0 from 0 of 7"),
    ):
        board.read_times()


def test_firmware_without_times_is_the_users() -> None:
    """The message says what it lacks and what to do."""
    with (
        device(VirtualDevice()) as board,
        pytest.raises(UserError, match=r"keeps no layer times .* without --profile"),
    ):
        require_times(board)


class Clockwork(Device):
    """Three layers, whose times grow with every image."""

    def __init__(self) -> None:
        self.begun: list[object] = []
        self.ran = 0

    def begin(self, config: object, *, keep_state: bool = False) -> None:
        self.begun.append((config, keep_state))

    def run(self, images: Any) -> Any:
        for _ in images:
            self.ran += 1
            yield None

    def read_times(self) -> Times:
        n = self.ran
        return Times(1, 240, 100 * n + 7, (n, 10 * n, 80 * n))


def test_the_median_counts(artefact: Artefact) -> None:
    """At most nine images run, one by one; names and work are the graph's."""
    clockwork = Clockwork()
    [mode] = parse_modes("forge", sites=1)
    profile = measure(clockwork, mode, [b""] * 20, artefact.qgraph)
    assert 9 == clockwork.ran == profile.images
    assert [(mode.config, False)] == clockwork.begun
    assert ("forge", "cycles", 240, 507) == (
        profile.adapt,
        profile.unit,
        profile.ticks_per_us,
        profile.total,
    )
    graph = artefact.qgraph
    assert [layer.name for layer in graph.layers] == [x.name for x in profile.layers]
    assert [layer_macs(x, graph) for x in graph.layers] == [
        x.macs for x in profile.layers
    ]
    assert [5, 50, 400] == [layer.ticks for layer in profile.layers]


def test_the_table() -> None:
    """Time, share and pace of each layer, and what comes after the last."""
    layers = (
        LayerTime(name="a", op="conv2d", macs=1200, ticks=480),
        LayerTime(name="b", op="add", macs=0, ticks=240),
    )
    profile = Profile(
        adapt="off", images=3, unit="cycles", ticks_per_us=240, total=960, layers=layers
    )
    assert [
        ["layer", "op", "MACs", "us", "share", "cycles", "MACs/cycle"],
        ["a", "conv2d", "1,200", "2.0", "50.0%", "480", "2.50"],
        ["b", "add", "1.0", "25.0%", "240"],
        ["(after", "the", "last)", "1.0", "25.0%", "240"],
        ["all", "1,200", "4.0", "100.0%", "960", "1.25"],
    ] == [line.split() for line in profile_lines(profile)]


def test_run_with_a_profile(
    artefact: Artefact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The native board is profiled under each mode; streams are as without."""
    kept = tmp_path / "result.json"
    options = ["--data", write_data(tmp_path / "data.npz"), "--corruptions", "none"]
    with pytest.raises(SystemExit) as left:
        main(
            ["run", str(artefact.path), *options, "--profile", "--json", str(kept)],
        )
    shown = capsys.readouterr().out
    assert 0 == left.value.code
    result = load_result(kept)
    assert ["off", "forge"] == [profile.adapt for profile in result.profile]
    for profile in result.profile:
        assert ("ns", 1000, 9) == (profile.unit, profile.ticks_per_us, profile.images)
        assert len(artefact.qgraph.layers) == len(profile.layers)
        assert all(0 < layer.ticks < profile.total for layer in profile.layers)
        assert f"layers under {profile.adapt}, median of 9 images" in shown
    assert [24, 24] == [run.streams[0].images for run in result.runs]
