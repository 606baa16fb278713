"""JUnit XML of a result: one test case a mode and stream."""

from __future__ import annotations

from pathlib import Path

import junitparser

from refold.result import Result, Run, Stream, write_text


def render_junit(result: Result) -> str:
    """Return the XML text.

    A stream with parity mismatches fails. What concerns the run as a whole, a
    missed bound or a lost board, is a case of its own: a failure or an error.
    """
    suite = junitparser.TestSuite(f"refold {result.model.name} {result.board.id}")
    for run in result.runs:
        for stream in run.streams:
            suite.add_testcase(_stream_case(run, stream))
    suite.add_testcase(_verdict_case(result))
    xml = junitparser.JUnitXml("refold")
    xml.add_testsuite(suite)
    xml.update_statistics()
    text: str = xml.tostring().decode()
    return text + "\n"


def write_junit(result: Result, path: Path) -> None:
    """Write :func:`render_junit` to ``path``."""
    write_text(path, render_junit(result))


def _stream_case(run: Run, stream: Stream) -> junitparser.TestCase:
    where = (stream.round, stream.repeat, stream.segment)
    suffix = (
        "" if where == (0, 0, 0) else "[round={} repeat={} segment={}]".format(*where)
    )
    case = junitparser.TestCase(stream.corruption + suffix, classname=run.adapt)
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
    case = junitparser.TestCase("verdict", classname="refold")
    message = "; ".join(result.reasons)
    if result.verdict == "infra":
        case.result = [junitparser.Error(message, "infra")]
    elif result.verdict == "fail":
        case.result = [junitparser.Failure(message, "bound")]
    return case
