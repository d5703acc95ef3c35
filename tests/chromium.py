"""A headless Chromium that pages are looked at with, over the pipe of its DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
"""The browser; None where this machine has none."""

TALLEST = 16_000
"""Pixels of a screenshot: Chromium's own limit is a little above."""


class Chromium:
    """One page of a running browser.

    Attributes:
        errors: what the page's scripts and its policy complained about.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, os.fdopen(answers, "rb")
        self._count, self._session, self._rest = 0, "", b""
        self.errors: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        found = self.ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = found["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Return the answer to one command of the protocol."""
        self._count += 1
        command: dict[str, Any] = {"id": self._count, "method": method, "params": arguments}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._count:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                found: dict[str, Any] = message["result"]
                return found

    def open(self, page: Path, width: int, *, dark: bool = False, media: str = "screen") -> None:
        """Show a file at a width in pixels, and wait until it is drawn."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._resize(width, 900)
        self.ask("Page.navigate", url=page.resolve().as_uri())
        self.run("""new Promise(done => { const drawn = () => setTimeout(done, 300);
            document.readyState === "complete" ? drawn() : addEventListener("load", drawn); })""")

    def run(self, script: str) -> Any:
        """Return the value of an expression on the page."""
        found = self.ask("Runtime.evaluate", expression=script, awaitPromise=True,
                         returnByValue=True)  # fmt: skip
        if "exceptionDetails" in found:
            raise RuntimeError(found["exceptionDetails"]["exception"]["description"])
        return found["result"].get("value")

    def picture(self, file: Path, *, height: int | None = None) -> Path:
        """Write the page as PNG: all of it, or so many pixels from its top."""
        width = int(self.run("innerWidth"))
        full = int(self.run("document.documentElement.scrollHeight"))
        self._resize(width, min(height or full, TALLEST))
        found = self.ask("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(found["data"]))
        return file

    def pdf(self, file: Path) -> Path:
        """Write the page as it is printed on A4."""
        self.ask("Emulation.setEmulatedMedia", media="print", features=[])
        found = self.ask("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        file.write_bytes(base64.b64decode(found["data"]))
        return file

    def _resize(self, width: int, height: int) -> None:
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height,
                 deviceScaleFactor=1, mobile=False)  # fmt: skip

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._answers.fileno(), 1 << 20)
            if not more:
                raise RuntimeError("Chromium has gone")
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(message["params"]["exceptionDetails"]))
        if message.get("method") == "Log.entryAdded":
            self.errors.append(message["params"]["entry"]["text"])
        return message


@contextmanager
def chromium() -> Iterator[Chromium]:
    """Start the browser with a profile of its own, and end it."""
    assert PROGRAM is not None
    commands_out, commands = os.pipe()
    answers, answers_in = os.pipe()

    with tempfile.TemporaryDirectory(prefix="chromium-") as profile:
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--no-first-run", "--disable-background-networking", "--disable-sync",
                   "--disable-component-update", "--disable-quic", "--remote-debugging-pipe",
                   f"--user-data-dir={profile}")  # fmt: skip
        places = f'exec "$0" "$@" 3<&{commands_out} 4>&{answers_in}'  # where it looks for them
        browser = subprocess.Popen(
            ["bash", "-c", places, PROGRAM, *options],
            pass_fds=(commands_out, answers_in),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands_out)
        os.close(answers_in)
        try:
            yield Chromium(commands, answers)
        finally:
            browser.terminate()
            browser.wait(timeout=20)
            os.close(commands)
