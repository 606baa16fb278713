"""The command line on a native board: outputs, exit codes, one message a fault."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import numpy as np
import pytest
from sample_results import two_modes
from small_model import write_data, write_model
from virtual_device import Script, VirtualDevice

from refoldc import pipeline
from refoldc.accuracy import Accuracy

from refold import runner
from refold.board_session import Terms
from refold.boards import Memory, list_boards
from refold.cli import compile as compile_command
from refold.cli import status
from refold.console import ProgressWatch
from refold.device import Patience
from refold.esp_tool import Tool
from refold.files import check_place
from refold.lock import hold
from refold.place import Place
from refold.process import spawn
from refold.resources import bundled_model
from refold.result import load_result, write_result

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def refold(capsys: pytest.CaptureFixture[str]) -> Call:
    """Return a function that runs the command line: code, stdout, stderr."""

    def call(*words: object) -> tuple[int, str, str]:
        code = status([str(word) for word in words])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return code, captured.out, captured.err

    return call


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Compile the small network through the command line, once."""
    folder = tmp_path_factory.mktemp("cli")
    model = write_model(folder / "small.onnx")
    data = write_data(folder / "small.npz")
    artefact = folder / "small.refold"
    assert 0 == status(["compile", str(model), "--calib", data, "-o", str(artefact)])
    return SimpleNamespace(folder=folder, model=model, data=data, artefact=artefact)


# --- what works --------------------------------------------------------------------


def test_help_lists_the_commands(refold: Call) -> None:
    """Every command is listed with what it does."""
    code, out, _ = refold("--help")
    assert 0 == code
    summaries = out.split("Commands:")[1]
    assert "..." not in summaries  # click cuts one that is too long for 80 columns
    for name in ("demo", "inspect", "compile", "build", "run", "report", "doctor"):
        assert name in out


def test_compile_summarises(refold: Call, place: Any, tmp_path: Path) -> None:
    """Layers, sites, memory and agreement with the float model are printed."""
    code, out, _ = refold(
        "compile", place.model, "--calib", place.data, "-o", tmp_path / "a"
    )
    assert 0 == code
    for expected in ("3 layers", "sites: 1 with 6 channels", "bytes of RAM", "note: "):
        assert expected in out
    assert (tmp_path / "a" / "model.c").is_file()


def test_sites_are_chosen_by_measurement(
    refold: Call, place: Any, tmp_path: Path
) -> None:
    """``--sites auto:1`` says what adapts; too large a K is refused, nothing lost."""
    words = ("compile", place.model, "--calib", place.data, "-o", tmp_path / "a")
    code, out, _ = refold(*words, "--sites", "auto:1")
    assert 0 == code
    assert "adapting: sites 0 (auto:1), a = " in out
    ranking = json.loads((tmp_path / "a/refold.json").read_text())["ranking"]
    assert ["gaussian_noise", "motion_blur", "snow", "contrast"] == (
        ranking["corruptions"]
    )
    code, _, err = refold(*words, "--sites", "auto:2")
    assert 2 == code
    assert "ranked are 1; give a smaller K" in " ".join(err.split())
    assert (tmp_path / "a/model.c").is_file()


def test_a_run_needs_the_ranking(refold: Call, place: Any) -> None:
    """``sites=auto:K`` on an artefact without a ranking: the compile command."""
    code, _, err = refold(
        "run", place.artefact, "--data", place.data, "--adapt", "forge:sites=auto:1"
    )
    assert 2 == code
    assert "--sites auto:1" in err


def test_compile_reports_accuracy(refold: Call, place: Any, tmp_path: Path) -> None:
    """Agreement, the noisiest layers and the culprit; the manifest has every layer."""
    code, out, _ = refold(
        "compile", place.model, "--calib", place.data, "-o", tmp_path / "a"
    )
    assert 0 == code
    manifest = json.loads((tmp_path / "a/refold.json").read_text())
    accuracy = manifest["accuracy"]
    assert ["conv", "pool", "fc"] == [found["layer"] for found in accuracy["layers"]]
    assert f"{accuracy['agreement']:.1f} % of 24 images" in out
    assert f"most noise of its own: {accuracy['culprit']}" in out
    assert f"peak: {manifest['peak']['bytes']:,} bytes of tensors at layer conv" in out


def test_inspect_of_an_artefact_shows_accuracy(refold: Call, place: Any) -> None:
    """One row a layer, and the summary of compile."""
    code, out, _ = refold("inspect", place.artefact)
    assert 0 == code
    rows = [line.split() for line in out.splitlines()]
    assert ["layer", "dB", "of", "its", "own", "%", "saturated"] == rows[1][:7]
    assert ["conv", "pool", "fc"] == [row[0] for row in rows[2:5]]
    assert "most noise of its own: " in out


def test_what_candidates_run_is_shown(refold: Call, tmp_path: Path) -> None:
    """By compile and by inspect, in the numbers of the manifest."""
    words = ("compile", bundled_model(), "--calib", "digits", "--calib-images", "16")
    late = tmp_path / "late"
    options = ("--adapt", "pace", "--moved-sites", "last")
    code, out, _ = refold(*words, "-o", late, *options)
    assert 0 == code
    manifest = json.loads((late / "refold.json").read_text())
    search, cut = manifest["search"], manifest["search"]["cut"]
    assert 0 < cut["macs"] < manifest["model"]["macs"]
    expected = (
        f"search: moves sites {'+'.join(map(str, search['sites']))} with "
        f"{search['channels']} channels; candidates run from layer "
        f"{manifest['layers'][cut['first']]['name']} on: "
        f"{100 * cut['macs'] / manifest['model']['macs']:.1f} % of the network's MACs; "
        f"{cut['kept_bytes']:,} bytes of an image are kept"
    )
    assert expected in out.splitlines()
    assert expected in refold("inspect", late)[1].splitlines()
    assert 0 == refold(*words, "-o", tmp_path / "early", "--adapt", "pace")[0]
    shown = refold("inspect", tmp_path / "early")[1]
    assert "; candidates run the whole network\n" in shown


def test_moved_sites_need_pace(refold: Call, place: Any, tmp_path: Path) -> None:
    """Else they are refused before anything is read, and nothing is written."""
    code, _, err = refold(
        *("compile", place.model, "--calib", place.data, "-o", tmp_path / "a"),
        *("--moved-sites", "last"),
    )
    assert 2 == code
    assert "compile with adapt 'pace' or 'forge+pace'" in err
    assert not (tmp_path / "a").exists()


def test_layers_are_dumped_on_demand(refold: Call, place: Any, tmp_path: Path) -> None:
    """layers.npz is part of the artefact, and only where it was asked for."""
    words = ("compile", place.model, "--calib", place.data, "-o", tmp_path / "a")
    assert 0 == refold(*words, "--dump-layers")[0]
    with np.load(tmp_path / "a/layers.npz") as dump:
        assert {
            f"{n}:{k}" for n in ("conv", "pool", "fc") for k in ("int8", "float")
        } == (set(dump))
    assert 0 == refold(*words)[0]
    assert not (tmp_path / "a/layers.npz").exists()


def test_run_compares_layers(refold: Call, place: Any) -> None:
    """The dump's place is printed beside the result."""
    code, out, _ = refold(
        *("run", place.artefact, "--data", place.data, "--corruptions", "none"),
        *("--adapt", "off", "--images", "4", "--dump-layers", "2"),
    )
    assert 0 == code
    assert "equal to the host model's" in out


def test_inspect_shows_sites(refold: Call, place: Any) -> None:
    """The folded convolution is a site with exact targets."""
    code, out, _ = refold("inspect", place.model)
    assert 0 == code
    assert "1 recalibration sites with 6 channels" in out
    row = next(line for line in out.splitlines() if line.startswith("conv"))
    assert ["conv", "Conv", "8x8x6", "3,456", "60", "0", "BN", "folded,", "exact"] == (
        row.split()
    )


def test_inspect_of_a_refused_model_shows_why(refold: Call, tmp_path: Path) -> None:
    """No table of what is left of it."""
    code, out, err = refold("inspect", write_model(tmp_path / "m.onnx", op="Sin"))
    assert (2, "") == (code, out)
    assert "will not compile: " in err


def test_run_writes_all_it_is_asked_for(
    refold: Call, place: Any, tmp_path: Path
) -> None:
    """One run on the native board leaves JSON, HTML and JUnit XML, all in accord."""
    code, out, _ = refold(
        *("run", place.artefact, "--data", place.data, "--corruptions", "fog"),
        *("--json", tmp_path / "r.json", "--html", tmp_path / "r.html"),
        *("--junit", tmp_path / "r.xml", "--fail-under", "parity==0"),
    )
    assert 0 == code
    assert "mean of corrupted" in out
    result = load_result(tmp_path / "r.json")
    assert ("pass", True) == (result.verdict, result.complete)
    assert ["off", "forge"] == [run.adapt for run in result.runs]
    streams = [s for run in result.runs for s in run.streams]
    assert [(24, 0)] * 4 == [(s.images, s.parity_mismatches) for s in streams]
    assert all(s.latency_us.p50 <= s.latency_us.p95 for s in streams)
    assert "<svg" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "5" == ET.parse(tmp_path / "r.xml").getroot().attrib["tests"]  # noqa: S314


def test_firmware_without_adaptation_runs_off(
    refold: Call, place: Any, tmp_path: Path
) -> None:
    """``--adapt none`` leaves no state, and parity holds without one."""
    plain = tmp_path / "plain"
    words = ["compile", place.model, "--calib", place.data, "-o", plain]
    assert 0 == refold(*words, "--adapt", "none")[0]
    run = ["run", plain, "--data", place.data, "--corruptions", "fog"]
    assert 0 == refold(*run, "--adapt", "off")[0]
    code, _, err = refold(*run)
    assert 0 == code
    assert "warning: " in err
    assert "cannot adapt (compiled with --adapt none)" in err
    code, _, err = refold(*run, "--adapt", "forge")
    assert 2 == code
    one_message(err, "--adapt forge")


def test_continual_streams_keep_their_state_on_the_device(
    refold: Call, place: Any
) -> None:
    """Rounds, segments and every rule stay bit-exact on the native board."""
    code, _, err = refold(
        *("run", place.artefact, "--data", place.data, "--corruptions", "fog"),
        *("--stream", "continual", "--switch-every", "10", "--rounds", "2"),
        *("--adapt", "forge:interval=4;a=0.7,forge:rule=published,forge:stats=exact"),
    )
    assert (0, "") == (code, err)


def test_build_names_the_firmware(refold: Call, place: Any) -> None:
    """The executable and its hash are printed."""
    code, out, _ = refold("build", place.artefact)
    assert 0 == code
    assert "build/native/refold-native: build " in out


def test_report_sets_results_side_by_side(refold: Call, tmp_path: Path) -> None:
    """Two results give one page and two tables."""
    for name in ("one", "two"):
        write_result(two_modes(), tmp_path / f"{name}.json")
    page = tmp_path / "page.html"
    code, out, _ = refold(
        "report", tmp_path / "one.json", tmp_path / "two.json", "-o", page
    )
    assert 0 == code
    assert 2 == out.count("mean of corrupted")
    assert "two forge" in page.read_text(encoding="utf-8")


def test_results_of_one_name_are_told_apart(refold: Call, tmp_path: Path) -> None:
    """By the parts of their paths that differ."""
    files = [tmp_path / "runs" / day / "deep" / "result.json" for day in ("mon", "tue")]
    for file in files:
        write_result(two_modes(), file)
    page = tmp_path / "page.html"
    assert 0 == refold("report", *files, "-o", page)[0]
    assert "<title>refold: mon, tue</title>" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report", "a.json", "-o", "a.json"], "-o a.json would replace what is read"),
        (
            ["report", "a.json", "--baseline", "b.json", "-o", "b.json"],
            "-o b.json would replace what is read",
        ),
        (
            ["run", "x", "--data", "digits", "--json", "n", "--html", "./n"],
            "--html n would replace --json",
        ),
        (
            [
                "run",
                "x",
                "--data",
                "digits",
                "--baseline",
                "b.json",
                "--json",
                "b.json",
            ],
            "--json b.json would replace what is read",
        ),
    ],
)
def test_no_file_is_replaced_that_counts(
    words: list[str],
    message: str,
    refold: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither a result by its page nor one output by another; before the work."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "b.json"):
        write_result(two_modes(), Path(name))
    code, _, err = refold(*words)
    assert 2 == code
    assert message in err
    assert two_modes() == load_result(Path("a.json")) == load_result(Path("b.json"))


def test_a_result_given_twice_is_refused(refold: Call, tmp_path: Path) -> None:
    """Under another spelling, too; the page would show it beside itself."""
    write_result(two_modes(), tmp_path / "a.json")
    again = tmp_path / "x" / ".." / "a.json"
    (tmp_path / "x").mkdir()
    code, _, err = refold("report", tmp_path / "a.json", again, "-o", tmp_path / "p")
    assert (2, False) == (code, (tmp_path / "p").exists())
    assert "a.json is given twice; name each result once" in err


def test_boards_and_doctor(refold: Call) -> None:
    """The native board is always there, and the compiler is found."""
    assert "native" in refold("boards")[1]
    code, out, _ = refold("doctor")
    assert 0 == code
    assert "C compiler" in out


def test_names_of_boards_are_whole_in_a_narrow_terminal(
    refold: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are there to be copied."""
    monkeypatch.setattr("refold.console.OUT._width", 60)
    assert all(board.id in refold("boards")[1] for board in list_boards())


def test_doctor_names_extras(refold: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The brackets of a pip extra are no markup."""
    extra = {"no-such-package": ("zig", "compiles")}
    monkeypatch.setattr("refold.cli.doctor.OPTIONAL", extra)
    assert "pip install 'refold[zig]'" in refold("doctor")[1]


def test_doctor_says_what_builds_for_the_esp32s3(
    refold: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ESP-IDF by itself or within PlatformIO, or what to install."""
    tool = Tool("idf.py", ("/opt/idf.py",))
    monkeypatch.setattr("refold.cli.doctor.find_tool", lambda: tool)
    assert "/opt/idf.py" in refold("doctor")[1]


def test_a_log_file_gets_everything(refold: Call, tmp_path: Path, place: Any) -> None:
    """``--log-file`` says it all while nothing is printed: what, how, by whom."""
    log = tmp_path / "refold.log"
    code, _, err = refold("--log-file", log, *run_words(place))
    assert (0, "") == (code, err)
    text = log.read_text(encoding="utf-8")
    for words in ("compiler: ", "build ", "Hello(", "clean under off: 24 of 24 images"):
        assert words in text


def test_verbose_goes_to_stderr_in_plain_lines(
    refold: Call, place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-v tells each stage once, -vv every object that is compiled."""
    words = ("compile", place.model, "--calib", place.data, "-o", tmp_path / "a")
    _, _, err = refold("-v", *words)
    assert err.count("info: calibrate\n") == 1
    assert "debug: " not in err
    monkeypatch.setattr("refold.build.user_cache_path", lambda _: tmp_path / "cache")
    _, _, err = refold("-vv", "build", tmp_path / "a")
    assert "info: building " in err
    (line,) = (line for line in err.splitlines() if "/model.c" in line)
    assert line.startswith("debug: ")


def test_a_model_that_cannot_compile_is_refused_before_its_data(
    refold: Call, tmp_path: Path
) -> None:
    """No warning about data that will not be used."""
    model = write_model(tmp_path / "m.onnx", op="Sin")
    _, _, err = refold("compile", model, "--calib", "random:9", "-o", tmp_path / "a")
    assert "noise" not in err
    assert "Sin" in err


def test_a_low_agreement_says_what_to_do(
    refold: Call, place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiled model that answers otherwise is no success to be silent about."""
    real = pipeline.compare

    def poor(*words: Any) -> Accuracy:
        return msgspec.structs.replace(real(*words), agreement=89.9)

    monkeypatch.setattr(pipeline, "compare", poor)
    words = ("compile", place.model, "--calib", place.data, "-o", tmp_path / "a")
    code, out, err = refold(*words)
    assert 0 == code
    assert "warning: the int8 network" in err
    assert "try: --calibration percentile:99.99" in out
    assert "try: real images" in out


# --- refold.toml -------------------------------------------------------------------


def test_defaults_come_from_the_file(
    refold: Call, place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options of refold.toml hold where the command line does not say otherwise."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "refold.toml").write_text(
        f'[run]\ndata = "{place.data}"\ncorruptions = "none"\nadapt = "off"\n'
        'images = 4\njson = "r.json"\nfail-under = ["parity==0", "accuracy>=0"]\n'
    )
    code, _, err = refold("run", place.artefact, "--images", 6)
    assert (0, "") == (code, err)
    (run,) = load_result(tmp_path / "r.json").runs
    assert ("off", [6]) == (run.adapt, [s.images for s in run.streams])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[run\n", "refold.toml"),
        ("[rum]\n", "no table named after a command"),
        ("run = 1\n", "no table named after a command"),
        ("[run]\ndate = 1\n", "did you mean 'data'"),
    ],
)
def test_a_faulty_file_is_refused(
    text: str,
    words: str,
    refold: Call,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A mistake in refold.toml is the user's, with the nearest name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "refold.toml").write_text(text)
    code, _, err = refold("boards")
    assert 2 == code
    assert words in err
    assert "refold.toml" in err
    assert 0 == refold("run", "--help")[0]
    code, out, _ = refold("doctor")
    assert 2 == code
    assert "refold.toml" in out


def test_a_faulty_value_names_the_file(
    refold: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """click's message about an option that nobody typed says where it stands."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "refold.toml").write_text('[run]\ndata = "digits"\nimages = "x"\n')
    code, _, err = refold("run", "somewhere")
    assert 2 == code
    assert "(refold.toml)" in err
    assert "(refold.toml)" not in refold("run", "somewhere", "--images", "y")[2]


# --- faults: one message, the right code, nothing half written -----------------------


def one_message(err: str, words: str) -> None:
    """Check that stderr is one message holding ``words``."""
    assert words in err
    assert 1 == err.count("error: ")
    assert err.startswith(("refold: error: ", "Usage: "))


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["frun"],
        ["run", "x", "--data", "digits", "--images", "0"],
        ["compile", "m.onnx", "-o", "out", "--calib", "digits", "--mean", "a"],
        ["run", "x", "--data", "digits", "--stream", "other"],
        ["run", "x", "--data", "digits", "--rounds", "999999999999"],
        ["run", "x", "--data", "digits", "--repeats", "999999999999"],
    ],
)
def test_usage_errors_exit_2(words: list[str], refold: Call) -> None:
    """What click refuses exits 2."""
    code, _, err = refold(*words)
    assert 2 == code
    assert "Error: " in err


def truncated(folder: Path) -> Path:
    """Return half a model."""
    whole = write_model(folder / "whole.onnx").read_bytes()
    (folder / "half.onnx").write_bytes(whole[: len(whole) // 2])
    return folder / "half.onnx"


def text_file(folder: Path) -> Path:
    """Return a file that is no model."""
    (folder / "notes.onnx").write_text("this is no model\n")
    return folder / "notes.onnx"


MODELS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "missing": (lambda folder: folder / "gone.onnx", "gone.onnx"),
    "truncated": (truncated, "half.onnx"),
    "no model": (text_file, "notes.onnx"),
    "unsupported op": (lambda f: write_model(f / "m.onnx", op="Sin"), "Sin"),
    "dynamic height": (lambda f: write_model(f / "m.onnx", height="H"), "H"),
}


@pytest.mark.parametrize("fault", MODELS)
def test_faulty_models(fault: str, refold: Call, place: Any, tmp_path: Path) -> None:
    """A model that cannot be compiled leaves nothing behind."""
    make, words = MODELS[fault]
    model, out = make(tmp_path), tmp_path / "out"
    code, _, err = refold("compile", model, "--calib", place.data, "-o", out)
    assert 2 == code
    one_message(err, words)
    assert not out.exists()
    assert [] == list(tmp_path.glob(".out*"))


@pytest.mark.parametrize("fault", ["another shape", "empty", "missing", "no spec"])
def test_faulty_calibration(
    fault: str, refold: Call, place: Any, tmp_path: Path
) -> None:
    """Calibration data that do not serve leave nothing behind."""
    spec = {
        "another shape": lambda: write_data(tmp_path / "wide.npz", side=12),
        "empty": lambda: write_data(tmp_path / "empty.npz", count=0),
        "missing": lambda: f"npz:{tmp_path / 'gone.npz'}",
        "no spec": lambda: "nonsense",
    }[fault]()
    out = tmp_path / "out"
    code, _, err = refold("compile", place.model, "--calib", spec, "-o", out)
    assert 2 == code
    one_message(err, "")
    assert not out.exists()


def test_a_model_too_large_for_its_board(
    refold: Call, place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A board without the memory refuses with both numbers."""
    tiny = SimpleNamespace(
        id="tiny", chip="tiny", memory=Memory(sram_bytes=256, flash_bytes=4096)
    )
    monkeypatch.setattr(compile_command, "load_board", lambda _: tiny)
    out = tmp_path / "out"
    code, _, err = refold(
        *("compile", place.model, "--calib", place.data, "-o", out, "--board", "tiny")
    )
    assert 2 == code
    one_message(err, "256")
    assert not out.exists()


def test_compile_does_not_overwrite_other_folders(
    refold: Call, place: Any, tmp_path: Path
) -> None:
    """A folder with other files is left as it is."""
    (tmp_path / "precious.txt").write_text("keep")
    code, _, err = refold("compile", place.model, "--calib", place.data, "-o", tmp_path)
    assert 2 == code
    one_message(err, "not empty")
    assert "keep" == (tmp_path / "precious.txt").read_text()


def test_agreement_below_its_bound_exits_1(
    refold: Call, place: Any, tmp_path: Path
) -> None:
    """A missed compile bound exits 1 with the number found."""
    code, _, err = refold(
        *("compile", place.model, "--calib", place.data, "-o", tmp_path / "out"),
        *("--fail-under", "agreement>=101"),
    )
    assert 1 == code
    one_message(err, "bound agreement>=101 is missed")


def run_words(place: Any, *more: object) -> list[object]:
    """Return a short run of off on clean images."""
    words = ["run", place.artefact, "--data", place.data]
    return [*words, "--corruptions", "none", "--adapt", "off", *more]


def test_a_folder_that_is_no_artefact(refold: Call, place: Any, tmp_path: Path) -> None:
    """``run`` on another folder says how to make an artefact."""
    code, _, err = refold("run", tmp_path, "--data", place.data)
    assert 2 == code
    one_message(err, "refold compile")
    assert "refold.json" in err
    assert "Errno" not in err


def test_a_port_that_does_not_exist(refold: Call, place: Any, tmp_path: Path) -> None:
    """A wrong port is the user's fault; no result is written."""
    result = tmp_path / "r.json"
    code, _, err = refold(
        *run_words(place, "--port", tmp_path / "ttyNONE", "--json", result)
    )
    assert 2 == code
    one_message(err, "ttyNONE")
    assert not result.exists()


def test_a_port_in_use(refold: Call, place: Any) -> None:
    """A port that another process holds is named, with its holder."""
    with VirtualDevice(Script()) as device, hold(Place(device.url)):
        code, _, err = refold(*run_words(place, "--port", device.url))
    assert 2 == code
    one_message(err, "in use by process")


def test_a_port_that_stays_in_use(refold: Call, place: Any, tmp_path: Path) -> None:
    """Whoever waits in vain has a board that is busy, not a wrong command."""
    words = ("--wait", "0.05", "--json", tmp_path / "r.json")
    with VirtualDevice(Script()) as device, hold(Place(device.url)):
        code, _, err = refold(*run_words(place, "--port", device.url, *words))
    assert 3 == code
    assert f"in use by process {os.getpid()} " in err
    assert "for 0.05 s; end that, or wait longer" in err
    assert ("infra", False) == _verdict(tmp_path / "r.json")


def test_a_port_that_answers_garbage(
    refold: Call, place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something else at the port is infrastructure; the result says so."""
    hasty = functools.partial(Terms, patience=Patience(hello_s=1.0))
    monkeypatch.setattr(runner, "Terms", hasty)
    result = tmp_path / "r.json"
    with VirtualDevice(Script(instead=b"login: ")) as device:
        code, _, err = refold(*run_words(place, "--port", device.url, "--json", result))
    assert 3 == code
    assert "no frames" in err
    assert ("infra", False) == _verdict(result)


@pytest.fixture
def killed(refold: Call, place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill the board's process after ten images, once."""
    children: list[subprocess.Popen[bytes]] = []
    start = subprocess.Popen

    def record(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        children.append(start(*arguments, **options))
        return children[-1]

    def kill_after_ten(self: ProgressWatch) -> None:
        seen.append(1)
        if len(seen) == 10:
            os.kill(children[-1].pid, signal.SIGKILL)

    seen: list[int] = []
    refold("build", place.artefact)
    monkeypatch.setattr(subprocess, "Popen", record)
    monkeypatch.setattr(ProgressWatch, "image", kill_after_ten)


@pytest.mark.usefixtures("killed")
def test_a_board_killed_in_mid_stream(refold: Call, place: Any, tmp_path: Path) -> None:
    """The run ends with 3, and what was answered till then is in all files."""
    data = write_data(tmp_path / "long.npz", count=2000)
    code, _, err = refold(
        *("run", place.artefact, "--data", data, "--corruptions", "none"),
        *("--json", tmp_path / "r.json", "--html", tmp_path / "r.html"),
    )
    assert 3 == code
    assert "killed by signal 9" in err
    assert "cable" not in err
    assert ("infra", False) == _verdict(tmp_path / "r.json")
    result = load_result(tmp_path / "r.json")
    stream = result.runs[0].streams[0]
    assert 10 <= stream.images < 2000
    assert 0 == stream.parity_mismatches
    assert "stream" == result.phase
    assert "incomplete" in (tmp_path / "r.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("killed")
def test_a_board_killed_in_mid_stream_and_resumed(
    refold: Call, place: Any, tmp_path: Path
) -> None:
    """The run passes with every image once, and tells what happened."""
    data = write_data(tmp_path / "long.npz", count=2000)
    code, _, err = refold(
        *("run", place.artefact, "--data", data, "--corruptions", "none"),
        *("--json", tmp_path / "r.json", "--on-reset", "resume"),
    )
    assert 0 == code
    assert "warning: the board was lost (disconnect) after " in err
    assert ("pass", True) == _verdict(tmp_path / "r.json")
    result = load_result(tmp_path / "r.json")
    found = [(s.images, s.parity_mismatches) for r in result.runs for s in r.streams]
    assert [(2000, 0), (2000, 0)] == found
    (reset,) = result.resets
    assert ("off", "clean", "disconnect") == (reset.adapt, reset.stream, reset.reason)


def test_a_deadline_ends_a_run(refold: Call, place: Any, tmp_path: Path) -> None:
    """With 3, in its phase, and with what was answered till then."""
    refold("build", place.artefact)
    program = place.artefact / "build" / "native" / "refold-native"
    with spawn([str(program), "--tcp", "0", "--pace-us", "700000"]) as port:
        code, _, err = refold(
            *run_words(place, "--port", port, "--deadline", 6),
            *("--json", tmp_path / "r.json", "--junit", tmp_path / "r.xml"),
        )
    assert 3 == code
    assert "infra: phase stream: the deadline of 6 s has passed; raise" in err
    result = load_result(tmp_path / "r.json")
    assert ("infra", False, "stream") == (
        result.verdict,
        result.complete,
        result.phase,
    )
    assert 0 < result.runs[0].streams[0].images < 24
    assert 'name="phase" value="stream"' in (tmp_path / "r.xml").read_text()


def _verdict(path: Path) -> tuple[str, bool]:
    content = json.loads(path.read_text())
    return content["verdict"], content["complete"]


def test_a_missed_bound_exits_1_and_writes_the_result(
    refold: Call, place: Any, tmp_path: Path
) -> None:
    """Below its bound, the run still leaves its result."""
    result = tmp_path / "r.json"
    code, _, err = refold(
        *run_words(place, "--fail-under", "accuracy>=101", "--json", result)
    )
    assert 1 == code
    assert "bound accuracy>=101 is missed" in err
    assert ("fail", True) == _verdict(result)


@pytest.mark.parametrize("option", ["--json", "--html", "--junit"])
@pytest.mark.parametrize("name", ["file/r.out", "x" * 300])
def test_an_unwritable_place(
    option: str,
    name: str,
    refold: Call,
    place: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A result that could not be written is refused before the board is touched."""
    (tmp_path / "file").write_text("")
    runs: list[object] = []
    monkeypatch.setattr("refold.cli.run.run", lambda *words, **_: runs.append(words))
    code, _, err = refold(*run_words(place, option, tmp_path / name))
    assert 2 == code
    one_message(err, "cannot write")
    assert [] == runs
    assert ["file"] == [path.name for path in tmp_path.iterdir()]


def test_a_place_is_tried_without_a_trace(tmp_path: Path) -> None:
    """What is there stays as it is until there is something to write."""
    (tmp_path / "old.json").write_text("old")
    for name in ("old.json", "new.json"):
        check_place(tmp_path / name)
    assert ["old.json"] == [path.name for path in tmp_path.iterdir()]
    assert "old" == (tmp_path / "old.json").read_text()


def test_a_bug_keeps_its_traceback(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no user's fault is not dressed up as one."""
    monkeypatch.setattr("refold.cli.run.run", lambda *_, **__: np.zeros(1).reshape(2))
    with pytest.raises(ValueError, match="reshape"):
        status([str(word) for word in run_words(place)])
