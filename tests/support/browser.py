"""A headless Chromium that opens pages, is clicked and typed at, and says what it complained of.

Speaks the DevTools protocol over the browser's pipe: messages of JSON, each with a zero byte after it.
"""

import fcntl
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

Fields = dict[str, Any]
_FREE: Final = 10
"""Descriptors from here on are none of those that the browser takes."""


class Browser:
    """One browser with one tab. `complaints` are what its console said of errors, and exceptions."""

    def __init__(self, profile: Path) -> None:
        chromium = shutil.which("chromium")
        assert chromium is not None
        command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        command += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        to_browser, from_browser = os.pipe(), os.pipe()
        theirs = [fcntl.fcntl(fd, fcntl.F_DUPFD, _FREE) for fd in (to_browser[0], from_browser[1])]

        def take_descriptors() -> None:
            for fd, wanted in zip(theirs, (3, 4), strict=True):
                os.dup2(fd, wanted)

        self._process = subprocess.Popen(
            command,
            pass_fds=(3, 4),
            preexec_fn=take_descriptors,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for fd in (*theirs, to_browser[0], from_browser[1]):
            os.close(fd)
        self._out, self._in = os.fdopen(to_browser[1], "wb", buffering=0), os.fdopen(from_browser[0], "rb")
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.complaints: list[str] = []
        (tab,) = (each for each in self.call("Target.getTargets")["targetInfos"] if each["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=tab["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._out.close()
        self._process.terminate()
        self._process.wait()
        self._in.close()

    def call(self, method: str, **parameters: Any) -> Fields:
        """Ask for something and wait for the answer."""
        self._number += 1
        message: Fields = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            got = self._next()
            if got.get("id") == self._number:
                assert "error" not in got, got
                return dict(got["result"])

    def open(self, page: Path, *, width: int = 1200, height: int = 1000, dark: bool = False) -> None:
        """Open a page and wait until it has drawn itself."""
        self.visit(page.as_uri(), width=width, height=height, dark=dark)

    def visit(self, address: str, *, width: int = 1200, height: int = 1000, dark: bool = False) -> None:
        """As `open`, a page that is no file."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=address)
        while self.value("document.readyState") != "complete":
            pass
        self.settle()

    def value(self, expression: str) -> Any:
        """What an expression is worth in the page; of a promise, what it becomes."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def settle(self) -> None:
        """Let the page draw: two frames."""
        self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(0))))")

    def key(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def mouse(self, *places: tuple[float, float]) -> None:
        """Press at the first place, move over the others, let go at the last one."""
        for kind, (x, y) in [
            ("mouseMoved", places[0]),
            ("mousePressed", places[0]),
            *(("mouseMoved", place) for place in places[1:]),
            ("mouseReleased", places[-1]),
        ]:
            held = {"button": "left", "buttons": 1, "clickCount": 1} if kind != "mouseMoved" or places[1:] else {}
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **held)
        self.settle()

    def _next(self) -> Fields:
        while b"\0" not in self._buffer:
            data = os.read(self._in.fileno(), 1 << 20)
            assert data, "the browser ended"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: Fields = json.loads(line)
        method, told = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(str(told["entry"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(told))
        return message
