"""A headless Chromium driven through its DevTools protocol, over a pair of pipes."""

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attrs import define, field

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "chrome-headless-shell")
PATIENCE = 60.0
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
    "--window-size=1400,1000",
)
# The protocol is spoken over descriptors 3 (in) and 4 (out) of the browser.
LAUNCH = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    """Return the program, or None where no Chromium is installed."""
    return next((found for found in map(shutil.which, NAMES) if found), None)


@define
class Tab:
    """A page of the browser; `errors` are complaints about its scripts, `requests` what it asked for."""

    commands: int
    replies: int
    session: str | None = None
    errors: list[str] = field(factory=list)
    requests: list[str] = field(factory=list)
    _number: int = 0
    _rest: bytes = b""
    _events: list[str] = field(factory=list)

    def call(self, method: str, **params: Any) -> Any:
        """Send a command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            reply = self._next()
            if reply.get("id") == self._number:
                assert "error" not in reply, reply["error"]
                return reply["result"]

    def _next(self) -> Any:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self.replies], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            part = os.read(self.replies, 1 << 20)
            assert part, "the browser has gone"
            self._rest += part
        first, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(first)
        self._notice(message.get("method"), message.get("params", {}))
        return message

    def _notice(self, event: str | None, params: Any) -> None:
        if event is not None:
            self._events.append(event)
        if event == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(params["exceptionDetails"]))
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Log.entryAdded":
            self.errors.append(params["entry"]["text"])

    def open(self, page: Path, fragment: str = "") -> None:
        """Open a file and wait until it is loaded."""
        self._load("about:blank")  # a new fragment alone would not load a page again
        self.requests.clear()
        self._load(f"{page.as_uri()}{fragment}")

    def _load(self, address: str) -> None:
        self._events.clear()
        self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self._events:
            self._next()

    def evaluate(self, script: str) -> Any:
        """Return the value of an expression of JavaScript in the page."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key, named as in KeyboardEvent.key."""
        text: dict[str, Any] = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        if key == "Tab":  # which moves the focus by its code alone
            text = {"windowsVirtualKeyCode": 9}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def write(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click with the mouse in the middle of the first element that matches."""
        element = f"document.querySelector({json.dumps(selector)})"
        box = self.evaluate(
            f"(() => {{ {element}.scrollIntoView({{block: 'center'}}); "
            f"const {{x, y, width, height}} = {element}.getBoundingClientRect(); "
            "return [x + width / 2, y + height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + PATIENCE
        while not self.evaluate(condition):
            assert time.monotonic() < deadline, f"never came true: {condition}"
            time.sleep(0.02)


@contextmanager
def start_browser(program: str, profile: Path) -> Iterator[Tab]:
    """Start Chromium with a fresh profile and give an empty page of it."""
    to_browser, commands = _pipe()
    replies, from_browser = _pipe()
    arguments = [program, *FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        [sys.executable, "-c", LAUNCH, str(to_browser), str(from_browser), *arguments],
        pass_fds=(to_browser, from_browser),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        tab = Tab(commands, replies)
        target = tab.call("Target.createTarget", url="about:blank")["targetId"]
        tab.session = tab.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            tab.call(f"{domain}.enable")
        yield tab
        tab.session = None
        tab.call("Browser.close")
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        os.close(commands)
        os.close(replies)


def _pipe() -> tuple[int, int]:
    """Return the two ends of a pipe, out of the way of descriptors 3 and 4."""
    ends = os.pipe()
    moved = tuple(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return moved[0], moved[1]
