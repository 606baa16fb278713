"""JUnit XML of a result: one test case a mode and stream, with its numbers.

A case is known by class and name, among the cases of all files that a CI job collects:
the class says model, board and mode, the name the stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import junitparser

from refold.files import write_text
from refold.result import Reset, Result, Run, Stream
from refold.schedule import stream_label

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit(result: Result) -> str:
    """Return the XML text.

    A stream with parity mismatches fails. What concerns the run as a whole, a
    missed bound or a lost board, is a case of its own: a failure or an error. It has
    the phase in which the run ended early, and the times that the board was lost.
    """
    name = f"refold {result.model.name} {result.board.id}"
    suite = junitparser.TestSuite(_legal(name))
    if result.finished is not None:
        suite.timestamp = result.finished.isoformat()
    for name, value in _facts(result):
        suite.add_property(name, _legal(value))
    for run in result.runs:
        for stream in run.streams:
            suite.add_testcase(_stream_case(_class(result, run.adapt), run, stream))
    suite.add_testcase(_verdict_case(result))
    xml = junitparser.JUnitXml("refold")
    xml.add_testsuite(suite)
    xml.update_statistics()
    text: str = xml.tostring().decode()
    return text + "\n"


def write_junit(result: Result, path: Path) -> None:
    """Write :func:`render_junit` to ``path``."""
    write_text(path, render_junit(result))


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    """What all cases have in common."""
    yield "model_sha256", result.model.sha256
    yield "board", result.board.id
    yield "chip", result.board.chip or ""
    yield "port", result.board.port or ""
    yield "build", result.board.build
    yield "data", result.data.spec
    yield "seed", str(result.data.seed)
    yield from (
        (field, str(getattr(result.memory, field)))
        for field in result.memory.__struct_fields__
    )


def _properties(stream: Stream) -> Iterator[tuple[str, str]]:
    """The numbers of one stream, named as in result.json."""
    counts = ("severity", "images", "correct", "frames_resent", "adapted_images")
    for field in (*counts, "forward_passes"):
        yield field, str(getattr(stream, field))
    yield "accuracy", f"{stream.accuracy:g}"
    for name in ("latency_us", "adapt_us"):
        span = getattr(stream, name)
        yield from (
            (f"{name}.{field}", str(getattr(span, field)))
            for field in span.__struct_fields__
        )
    for field in ("parity_mismatches", "gate", "energy_mj"):
        value = getattr(stream, field)
        if value is not None:
            yield field, f"{value:g}"


def _class(result: Result, part: str) -> str:
    """Return a class within refold.MODEL.BOARD: dots separate, and nothing else."""
    parts = ("refold", result.model.name, result.board.id, part)
    return ".".join(_legal(text).replace(".", "_") for text in parts)


def _legal(text: str) -> str:
    """Replace what XML cannot hold, such as control characters of a boot log."""
    return _ILLEGAL.sub("\ufffd", text)


def _stream_case(class_: str, run: Run, stream: Stream) -> junitparser.TestCase:
    name = stream_label(stream.corruption, stream.round, stream.repeat, stream.segment)
    case = junitparser.TestCase(name, classname=class_)
    properties = junitparser.Properties()
    for name, value in (("adapt", run.adapt), *_properties(stream)):
        properties.add_property(junitparser.Property(name, value))
    case.append(properties)
    case.system_out = (
        f"{stream.correct} of {stream.images} images right ({stream.accuracy:.2f} %), "
        f"inference p50 {stream.latency_us.p50} us, p95 {stream.latency_us.p95} us"
    )
    if stream.parity_mismatches:
        case.result = [
            junitparser.Failure(
                f"{stream.parity_mismatches} images differ from the host model",
                "parity",
            )
        ]
    return case


def _verdict_case(result: Result) -> junitparser.TestCase:
    case = junitparser.TestCase("verdict", classname=_class(result, "run"))
    if result.phase is not None:
        properties = junitparser.Properties()
        properties.add_property(junitparser.Property("phase", result.phase))
        case.append(properties)
    if result.resets:
        case.system_out = _legal("\n".join(map(_reset_line, result.resets)))
    message = _legal("; ".join(result.reasons))
    if result.verdict == "infra":
        case.result = [junitparser.Error(message, "infra")]
    elif result.verdict == "skipped":
        case.result = [junitparser.Skipped(message)]
    elif result.verdict == "fail":
        case.result = [junitparser.Failure(message, "bound")]
    return case


def _reset_line(reset: Reset) -> str:
    now = "never back"
    if reset.boot_count is not None:
        now = f"back with boot count {reset.boot_count}"
    said = f": {reset.text}" if reset.text else ""
    return (
        f"lost ({reset.reason}) in {reset.stream} under {reset.adapt} after "
        f"{reset.image} images, {now}{said}"
    )
