"""A page in headless Chromium, told what to do by its DevTools protocol over pipes."""

import base64
import json
import os
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_SECONDS = 60  # for one answer


def needs_chromium() -> str:
    """Chromium; skips the test where it is missing."""
    found = shutil.which("chromium")
    if found is None:
        pytest.skip("there is no chromium (apt install chromium)")
    return found


class Page:
    """An open page. The protocol's messages are JSON, each followed by a byte of 0."""

    def __init__(self, to: int, came: int) -> None:
        self._to, self._came, self._number, self._rest = to, came, 0, b""
        self._session: str | None = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def ask(self, method: str, **parameters: object) -> dict[str, Any]:
        """The result of a method of the protocol."""
        self._number += 1
        request: dict[str, object] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            request["sessionId"] = self._session
        os.write(self._to, json.dumps(request).encode() + b"\0")
        until = time.monotonic() + _SECONDS
        while True:
            while b"\0" not in self._rest:
                assert select.select([self._came], [], [], max(until - time.monotonic(), 0))[0], f"{method}: no answer"
                part = os.read(self._came, 1 << 16)
                assert part, f"{method}: the browser has ended"
                self._rest += part
            message, _, self._rest = self._rest.partition(b"\0")
            answer = json.loads(message)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return dict(answer["result"])

    def value(self, expression: str) -> Any:
        """The value of JavaScript in the page."""
        got = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in got, got["exceptionDetails"]
        return got["result"].get("value")

    def wait_for(self, condition: str) -> None:
        """Wait until JavaScript in the page is true."""
        until = time.monotonic() + _SECONDS
        while not self.value(condition):
            assert time.monotonic() < until, f"{condition} stays false"
            time.sleep(0.02)

    def drag(self, points: Sequence[tuple[float, float]], kind: str = "mouse") -> None:
        """Draw with the mouse or, as `kind` "pen", with a pen: press at the first point, move to the others, release."""
        for number, (x, y) in enumerate(points):
            self._point("mouseMoved" if number else "mousePressed", x, y, kind)
        self._point("mouseReleased", *points[-1], kind)

    def touch(self, points: Sequence[tuple[float, float]]) -> None:
        """Draw with a finger."""
        for number, (x, y) in enumerate(points):
            self.ask("Input.dispatchTouchEvent", type="touchMove" if number else "touchStart", touchPoints=[{"x": x, "y": y}])
        self.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def _point(self, what: str, x: float, y: float, kind: str) -> None:
        self.ask("Input.dispatchMouseEvent", type=what, x=x, y=y, button="left", buttons=1, clickCount=1, pointerType=kind)

    def picture(self, file: Path) -> None:
        """Write a picture of the page as PNG."""
        file.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def open_page(url: str, folder: Path, width: int = 800, height: int = 600) -> Iterator[Page]:
    """A page at a URL; `folder` holds the browser's profile."""
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-pipe"]
    command = [needs_chromium(), *options, f"--user-data-dir={folder / 'profile'}", f"--window-size={width},{height}", "about:blank"]
    (given, to), (came, answer) = os.pipe(), os.pipe()
    shell = f"exec {shlex.join(command)} 3<&{given} 4>&{answer}"  # the protocol's file descriptors are 3 and 4
    process = subprocess.Popen(["bash", "-c", shell], pass_fds=(given, answer), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(given)
    os.close(answer)
    try:
        page = Page(to, came)
        page.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        page.ask("Page.navigate", url=url)
        yield page
    finally:
        process.terminate()
        process.wait(_SECONDS)
        os.close(to)
        os.close(came)
