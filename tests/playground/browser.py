"""A real Chromium, driven over its DevTools protocol: a websocket and JSON, nothing more."""

import base64
import contextlib
import itertools
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # which is small or not there in containers
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    # A mouse, on screens that are no phone's: without a display there is none.
    "--blink-settings=primaryHoverType=2,availableHoverTypes=2,primaryPointerType=4,availablePointerTypes=4",
)
PATIENCE_S = 80.0

CHROMIUM = os.environ.get("SEGUE_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)

# Resolves when the expression is true; looks again at every change of the page and twenty times a second.
_UNTIL = """
new Promise((resolve, reject) => {
  const end = performance.now() + %d;
  const look = () => {
    let found;
    try { found = (%s); } catch (error) { found = false; }
    if (found) return resolve(true);
    if (performance.now() > end) return reject(new Error("never came true: " + %s));
    setTimeout(look, 50);
  };
  look();
})
"""

Keys = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowLeft": 37, "Tab": 9}
MODIFIERS = {"Alt": 1, "Ctrl": 2, "Meta": 4, "Shift": 8}


class Page:
    """One tab. `errors` is all it complained of, `requests` every address it asked for."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.errors: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE_S + 10))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)

    def _note(self, message: Any) -> None:
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(params["exceptionDetails"])[:1000])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.errors.append(json.dumps(params["args"])[:1000])
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.errors.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    def open(self, url: str) -> None:
        self.send("Page.navigate", url=url)
        self.until("document.documentElement.dataset.ready === 'true'")

    def js(self, expression: str) -> Any:
        """The value of an expression, awaited."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"].get("exception", answer)))
        return answer["result"].get("value")

    def until(self, expression: str) -> None:
        self.js(_UNTIL % (PATIENCE_S * 1000, expression, json.dumps(expression)))

    def text(self, selector: str) -> str:
        return str(self.js(f"document.querySelector({json.dumps(selector)}).textContent"))

    # --- what a person does ----------------------------------------------------------------------

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    def press(self, *keys: str) -> None:
        *held, key = keys
        modifiers = sum(MODIFIERS[name] for name in held)
        code = Keys.get(key, ord(key.upper()[0]))
        common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.send("Input.dispatchKeyEvent", type="rawKeyDown", **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def _middle(self, selector: str) -> tuple[float, float]:
        found = json.dumps(selector)
        x, y = self.js(
            f"(() => {{ const each = document.querySelector({found});"
            " each.scrollIntoView({block: 'nearest'});"
            " const r = each.getClientRects()[0]; return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        return x, y

    def point(self, selector: str) -> None:
        x, y = self._middle(selector)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        x, y = self._middle(selector)
        common = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.send("Input.dispatchMouseEvent", type="mousePressed", **common)
        self.send("Input.dispatchMouseEvent", type="mouseReleased", **common)

    def tap(self, selector: str) -> None:
        x, y = self._middle(selector)
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    # --- what it is shown on ---------------------------------------------------------------------

    def screen(self, width: int, height: int, *, dark: bool = False, phone: bool = False) -> None:
        scale = 2 if phone else 1
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=phone,
        )
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        data = self.send("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


@contextlib.contextmanager
def chromium() -> Iterator["Chromium"]:
    """A browser without a past, until the end of the block."""
    if CHROMIUM is None:
        raise RuntimeError("there is no Chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        # It writes into a home folder, and one's own may be nowhere.
        environment = os.environ | {"HOME": profile}
        # No pipe: one that nobody reads is full some day, and then the browser stands still.
        complaints = Path(profile) / "complaints.txt"
        with (
            complaints.open("wb") as file,
            subprocess.Popen(command, stderr=file, env=environment) as process,
        ):
            try:
                yield Chromium(_address(process, complaints))
            finally:
                process.terminate()
                process.wait(PATIENCE_S)


def _address(process: subprocess.Popen[bytes], complaints: Path) -> str:
    """Raises RuntimeError where it ends before it listens."""
    has_ended = False
    while not has_ended:
        has_ended = process.poll() is not None  # asked first: what is read then is all it said
        said = complaints.read_bytes()
        if found := re.search(rb"DevTools listening on ws://([^/\s]+)/", said):
            return found[1].decode()
        time.sleep(0.01)
    raise RuntimeError(f"Chromium did not start: {said.decode(errors='replace')}")


class Chromium:
    def __init__(self, address: str) -> None:
        self._address = address

    @contextlib.contextmanager
    def page(self) -> Iterator[Page]:
        make = urllib.request.Request(f"http://{self._address}/json/new?about:blank", method="PUT")
        with urllib.request.urlopen(make) as answer:
            tab = json.load(answer)
        with connect(
            tab["webSocketDebuggerUrl"],
            max_size=None,
            proxy=None,
            open_timeout=PATIENCE_S,
            ping_interval=None,  # a browser that stands still is not gone
        ) as socket:
            try:
                yield Page(socket)
            finally:
                close = f"http://{self._address}/json/close/{tab['id']}"
                urllib.request.urlopen(close).close()
