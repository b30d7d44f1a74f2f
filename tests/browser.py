"""A real browser for tests: headless Chromium, driven through chromedriver by the W3C WebDriver protocol."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key under which the protocol names elements."""
_STARTED = re.compile(rb"started successfully on port (\d+)")
_SECONDS = 60
"""That any one answer may take."""

TAB, ENTER = "\ue004", "\ue007"


def missing() -> str:
    """Why there is no browser; empty where there is one."""
    absent = [program for program in ("chromium", "chromedriver") if shutil.which(program) is None]
    return f"needs {' and '.join(absent)}, which is not installed" if absent else ""


class BrowserError(Exception):
    """What the browser could not do, in its own words."""


class Browser:
    """One window. Elements are named by CSS selectors, and scripts are the body of a function."""

    def __init__(self, port: int, session: str) -> None:
        self._port = port
        self._session = session

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """The value of an answer to a request about this session."""
        return _ask(self._port, method, f"/session/{self._session}{path}", body)

    def open(self, url: str) -> None:
        """Load a page and wait until it is there; one that differs in its fragment only is not loaded again."""
        self.ask("POST", "/url", {"url": url})

    def reload(self) -> None:
        """Load the page anew and wait until it is there."""
        self.ask("POST", "/refresh", {})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns, which runs with `arguments`."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def click(self, selector: str) -> None:
        """Click the first element as people do: where it is in view and nothing covers it."""
        self.ask("POST", f"/element/{self._find(selector)}/click", {})

    def type(self, selector: str, keys: str) -> None:
        """Focus an element and press keys."""
        self.ask("POST", f"/element/{self._find(selector)}/value", {"text": keys})

    def press(self, key: str) -> None:
        """Press and release one key where the focus is."""
        strokes = [{"type": stroke, "value": key} for stroke in ("keyDown", "keyUp")]
        self.ask("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def text(self, selector: str) -> str:
        """The text of the first element as it can be seen."""
        return str(self.ask("GET", f"/element/{self._find(selector)}/text"))

    def resize(self, width: int, height: int) -> None:
        """Make the view so many CSS pixels large."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Say that people prefer `light` or `dark`."""
        self.command("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.ask("POST", "/print", {}))

    def screenshot(self) -> bytes:
        """The view, as PNG."""
        return base64.b64decode(self.ask("GET", "/screenshot"))

    def command(self, name: str, parameters: dict[str, Any]) -> Any:
        """What only Chromium knows, from its own protocol."""
        return self.ask("POST", "/goog/cdp/execute", {"cmd": name, "params": parameters})

    def console(self) -> list[str]:
        """What the console said since it was last asked: errors, warnings, and what broke the content policy."""
        return [entry["message"] for entry in self.ask("POST", "/se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """The addresses that were asked for since this was last asked."""
        entries = self.ask("POST", "/se/log", {"type": "performance"})
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]

    def _find(self, selector: str) -> str:
        found = self.ask("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[_ELEMENT])


@contextmanager
def browser(directory: Path) -> Iterator[Browser]:
    """A browser that keeps what it writes in `directory`, and has ended when this has."""
    driver = subprocess.Popen(
        ["chromedriver", "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(directory), "HOME": str(directory)},
        start_new_session=True,  # so that the browsers it starts can be ended with it
    )
    try:
        port = _port(driver)
        session = _ask(port, "POST", "/session", {"capabilities": {"alwaysMatch": _capabilities(directory)}})
        found = Browser(port, session["sessionId"])
        try:
            yield found
        finally:
            found.ask("DELETE", "")
    finally:
        _end(driver)


def _capabilities(directory: Path) -> dict[str, Any]:
    arguments = [
        "--headless=new",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
        f"--user-data-dir={directory / 'profile'}",
    ]
    if os.geteuid() == 0:
        arguments.append("--no-sandbox")
    return {
        "browserName": "chrome",
        "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": arguments},
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        "timeouts": {"script": 1000 * _SECONDS, "pageLoad": 1000 * _SECONDS},
    }


def _port(driver: "subprocess.Popen[bytes]") -> int:
    """Where the driver listens, which is the first thing that it says."""
    assert driver.stdout is not None
    watch = threading.Timer(_SECONDS, driver.kill)
    watch.start()
    try:
        for line in driver.stdout:
            if found := _STARTED.search(line):
                return int(found[1])
    finally:
        watch.cancel()
    raise BrowserError("chromedriver ended before it listened")


def _ask(port: int, method: str, path: str, body: dict[str, Any] | None) -> Any:
    connection = HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        content = None if body is None else json.dumps(body).encode()
        connection.request(method, path, content, {"Content-Type": "application/json"})
        value = json.loads(connection.getresponse().read())["value"]
    finally:
        connection.close()
    if isinstance(value, dict) and "error" in value:
        raise BrowserError(f"{value['error']}: {value.get('message', '')}")
    return value


def _end(driver: "subprocess.Popen[bytes]") -> None:
    """End the driver, and with it whatever it started and left behind."""
    driver.terminate()
    try:
        driver.wait(5)
    except subprocess.TimeoutExpired:
        driver.kill()
        driver.wait(5)
    with suppress(ProcessLookupError):  # nothing is left
        os.killpg(driver.pid, signal.SIGKILL)
    assert driver.stdout is not None
    driver.stdout.close()
