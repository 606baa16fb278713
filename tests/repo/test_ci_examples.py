"""The examples of docs/ci are what the programs that read them accept."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import accept

from refold.boards import list_boards

RUNNERS = {"ubuntu-24.04", "self-hosted"}
STEP_KEYS = {"name", "uses", "run", "with", "if", "env", "id", "shell"}
JOB_KEYS = {"runs-on", "steps", "strategy", "timeout-minutes", "concurrency", "env"}


@pytest.fixture(scope="module")
def examples(repo_root: Path) -> Path:
    """Return the folder of examples."""
    return repo_root / "docs" / "ci"


@pytest.fixture(scope="module")
def workflow(examples: Path) -> dict[Any, Any]:
    """Return the parsed workflow."""
    parsed: dict[Any, Any] = yaml.safe_load((examples / "refold.yml").read_text())
    return parsed


def test_the_workflow_is_one(workflow: dict[Any, Any]) -> None:
    """It has events and jobs; a job has a runner and steps, of known keys."""
    # YAML 1.1 reads the key "on" as true.
    assert {"name", True, "permissions", "jobs"} == set(workflow)
    assert {"push", "pull_request", "schedule"} == set(workflow[True])
    for name, job in workflow["jobs"].items():
        assert re.fullmatch(r"[a-z_][\w-]*", name)
        assert set(job) <= JOB_KEYS | {"if"}
        runner = job["runs-on"]
        assert RUNNERS & {runner if isinstance(runner, str) else runner[0]}
        for step in job["steps"]:
            assert set(step) <= STEP_KEYS
            assert 1 == len({"uses", "run"} & set(step)), step


def test_actions_are_pinned_to_a_version(workflow: dict[Any, Any]) -> None:
    """Each is owner/name@version, and only those that use one take ``with``."""
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            uses = step.get("uses")
            assert uses is None or re.fullmatch(r"[\w-]+/[\w-]+@v\d+", uses)
            assert uses is not None or "with" not in step


def test_matrix_values_are_defined_and_known(workflow: dict[Any, Any]) -> None:
    """Expressions name what the matrix has, whose boards exist."""
    job = workflow["jobs"]["virtual-boards"]
    text = str(job["steps"])
    assert {"board"} == set(re.findall(r"matrix\.(\w+)", text))
    known = {board.id for board in list_boards()}
    assert set(job["strategy"]["matrix"]["board"]) <= known


def refold_commands(examples: Path, workflow: dict[Any, Any]) -> list[list[str]]:
    """Return the words of every refold command of workflow and service."""
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    shell = [step.get("run", "").replace("${{ matrix.board }}", "x") for step in steps]
    texts = [text for text in shell if text.startswith("refold ")]
    service = (examples / "refold-nightly.service").read_text()
    service = service.replace("$$(date +%%F)", "today")
    texts += re.findall(r"^Exec\w+=/bin/sh -c 'exec \S+/(.*)'$", service, re.MULTILINE)
    return [shlex.split(text)[1:] for text in texts]


def test_commands_are_accepted(examples: Path, workflow: dict[Any, Any]) -> None:
    """Every refold command has known options and values."""
    commands = refold_commands(examples, workflow)
    assert 8 == len(commands)
    for words in commands:
        accept(words)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd")
def test_the_units_are_accepted_by_systemd(examples: Path) -> None:
    """``systemd-analyze verify`` has no complaint about service and timer."""
    units = sorted(str(path) for path in examples.glob("refold-nightly.*"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *units],
        capture_output=True,
        text=True,
        check=False,
    )
    own = [line for line in done.stderr.splitlines() if "refold-nightly" in line]
    assert (0, []) == (done.returncode, own), done.stderr


def test_the_exporter_offers_serial_ports(examples: Path) -> None:
    """A group a board, each matched by a number of its own, at its link's rate."""
    groups = yaml.safe_load((examples / "labgrid-exporter.yaml").read_text())
    ports = [resources.pop("USBSerialPort") for resources in groups.values()]
    assert [{}] * len(groups) == list(groups.values())
    assert [{"match", "speed"}] * len(ports) == [set(port) for port in ports]
    numbers = {port["match"]["ID_SERIAL_SHORT"] for port in ports}
    assert len(ports) == len(numbers)
    rates = {board.link.baud for board in list_boards() if board.link.kind == "serial"}
    assert rates == {port["speed"] for port in ports}


def test_labgrid_commands_name_groups_of_the_exporter(
    repo_root: Path, examples: Path
) -> None:
    """A place is that group's, and is acquired before it is used and released after."""
    groups = set(yaml.safe_load((examples / "labgrid-exporter.yaml").read_text()))
    text = (repo_root / "docs/ci.md").read_text()
    commands = re.findall(
        r"^labgrid-client -p (\w+) (\S+)(?: '\*/(\w+)/\*')?", text, re.MULTILINE
    )
    assert {place for place, _, _ in commands} <= groups
    assert {match for _, _, match in commands if match} <= groups
    verbs = ["create", "add-match", "acquire", "show", "release"]
    assert verbs == [verb for _, verb, _ in commands]


RULE = re.compile(
    r'(?:(?:ACTION|SUBSYSTEM|DRIVERS|ATTRS\{\w+\}|ENV\{\w+\})(?:==|!=)"[^"]+"'
    r'|(?:GROUP|MODE|GOTO|LABEL|ATTR\{\w+\}|ENV\{\w+\})="[^"]+"|SYMLINK\+="[^"]+")'
)


def rules(examples: Path) -> list[list[str]]:
    """Return the parts of every rule."""
    lines = (examples / "70-refold.rules").read_text().splitlines()
    return [line.split(", ") for line in lines if line and not line.startswith("#")]


def test_udev_rules_are_well_formed(examples: Path) -> None:
    """Each part is a key, an operator that fits it and a quoted value; jumps land."""
    parts = [part for rule in rules(examples) for part in rule]
    assert [] == [part for part in parts if not RULE.fullmatch(part)]
    jumps = {part[5:] for part in parts if part.startswith("GOTO=")}
    assert jumps == {part[6:] for part in parts if part.startswith("LABEL=")}


def test_udev_rules_know_every_board(examples: Path) -> None:
    """The interfaces of all board files are covered."""
    text = (examples / "70-refold.rules").read_text()
    pair = r'ATTRS\{idVendor\}=="(\w+)", ATTRS\{idProduct\}=="(\w+)"'
    covered = set(re.findall(pair, text))
    needed = {
        (f"{usb.vid:04x}", f"{usb.pid:04x}")
        for board in list_boards()
        for usb in board.usb
    }
    assert needed
    assert needed <= covered


def test_udev_accepts_the_rules(examples: Path) -> None:
    """``udevadm verify``, which systemd has since version 254."""
    file = str(examples / "70-refold.rules")
    try:
        known = subprocess.run(
            ["udevadm", "verify", "--help"], capture_output=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("no udevadm")
    if known.returncode:
        pytest.skip("an udevadm without verify")
    done = subprocess.run(
        ["udevadm", "verify", "--resolve-names=never", file],
        capture_output=True,
        text=True,
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
