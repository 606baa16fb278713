"""Headless Chromium for tests, driven by its DevTools protocol through two pipes.

The browser starts with --remote-debugging-pipe: it reads commands from descriptor 3
and writes replies and events to 4, JSON texts that end with a zero byte.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-extensions", "--disable-background-networking"),
    "--remote-debugging-pipe",
)


def chromium() -> str:
    """Return the browser's program, or skip; where everything counts, fail."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("chromium is missing; .ci/run installs it")
        pytest.skip("no chromium")
    return found


class Page:
    """One tab of a browser.

    Attributes:
        complaints: What the console and the log said, and uncaught errors.
        requests: Addresses that were loaded.
    """

    def __init__(self, commands: int, replies: int) -> None:
        self._commands, self._replies = commands, replies
        self._rest = b""
        self._last = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, /, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (reply := self._receive()).get("id") != self._last:
            self._note(reply)
        assert "error" not in reply, reply["error"]
        result: dict[str, Any] = reply["result"]
        return result

    def open(self, path: Path, width: int) -> None:
        """Load a file in a window of so many CSS pixels."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self._note(self._receive())

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        reply = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def click(self, expression: str) -> None:
        """Press and release the mouse in the middle of an element."""
        box = self.evaluate(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); "
            f"return e.getBoundingClientRect().toJSON(); }})({expression})"
        )
        where = {
            "x": box["x"] + box["width"] / 2,
            "y": box["y"] + box["height"] / 2,
            "button": "left",
            "clickCount": 1,
        }
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, **where)

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            part = os.read(self._replies, 1 << 16)
            assert part, "the browser has ended"
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        if "method" not in event:
            return
        self.events.append(event)
        what = event["params"]
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(what["request"]["url"])
        elif event["method"] in (
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Log.entryAdded",
        ):
            self.complaints.append(json.dumps(what))


@contextmanager
def browsing() -> Iterator[Page]:
    """Yield a page of a browser that ends with the context."""
    command_read, command_write = os.pipe()
    reply_read, reply_write = os.pipe()
    # The shell puts the pipes where the browser looks for them, and becomes it.
    script = f'exec "$0" "$@" 3<&{command_read} 4>&{reply_write}'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = subprocess.Popen(
            ["bash", "-c", script, chromium(), *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(command_read, reply_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_read)
        os.close(reply_write)
        try:
            yield Page(command_write, reply_read)
        finally:
            os.close(command_write)
            os.close(reply_read)
            browser.kill()
            browser.wait()
