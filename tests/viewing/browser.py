"""A real Chromium for the tests of pages: one for each file of tests, skipped with the reason where there is none."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 10_000  # milliseconds that a test waits at most


def chromium() -> str:
    """The browser of the system."""
    found = next((path for name in NAMES if (path := shutil.which(name)) is not None), None)
    if found is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed")
    return found


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a window, with a profile of its own."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'graphad[dev]'")
    executable = chromium()
    with tempfile.TemporaryDirectory() as home, playwright.sync_playwright() as driver:
        environment = {**os.environ, "HOME": home}
        browser = driver.chromium.launch(executable_path=executable, args=FLAGS, env=environment)
        yield browser
        browser.close()


class Window:
    """A page in the browser; what goes wrong in it is remembered."""

    def __init__(self, browser: Browser, width: int = 1400, height: int = 900, scheme: str = "light") -> None:
        dark = scheme == "dark"
        self.context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            has_touch=width < 500,
            accept_downloads=True,
        )
        self.context.set_default_timeout(PATIENCE)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type in ("error", "warning") else None)
        self.page.on("request", lambda request: self.requests.append(request.url))

    def open(self, path: Path, hash: str = "") -> Page:
        """Show a file, anew also if only what follows # is another."""
        self.page.goto("about:blank")
        self.page.goto(f"{path.as_uri()}{hash}")
        self.page.get_by_role("option").first.wait_for()
        return self.page

    def settled(self) -> Page:
        """The page once it has drawn, and noted its state in the address."""
        self.page.evaluate("() => new Promise((go) => setTimeout(() => requestAnimationFrame(go), 90))")
        return self.page

    def close(self) -> None:
        assert self.errors == []
        self.context.close()
