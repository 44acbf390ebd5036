"""Pages in a real browser: Chromium from the system's packages, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

# The first lets it run as root; the rest keep it from looking for hosts outside this machine.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def start_browser() -> Iterator[Any]:
    """Yield a headless browser; skip the test where there is none."""
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="browser tests need playwright: pip install playwright"
    )
    if CHROMIUM is None:
        pytest.skip("browser tests need Chromium from the system's packages, such as: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class WatchedPage:
    """A page that notes what goes wrong on it.

    Attributes
    ----------
    page : playwright.sync_api.Page
    problems : list of str
        Errors and warnings on the console, exceptions, requests that failed, and requests to other hosts.
    """

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on("console", self._note_message)
        page.on("pageerror", lambda error: self.problems.append(f"exception: {error}"))
        page.on("requestfailed", lambda request: self.problems.append(f"failed: {request.url} ({request.failure})"))
        page.on("request", self._note_request)

    def _note_message(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console: {message.text}")

    def _note_request(self, request: Any) -> None:
        if not request.url.startswith(("file:", "data:", "blob:", "http://127.0.0.1:", "http://localhost:")):
            self.problems.append(f"request to another host: {request.url}")


@contextmanager
def open_page(browser: Any, *, dark: bool = False, width: int = 1280, height: int = 800) -> Iterator[WatchedPage]:
    """Yield a new page of a browser, light or dark, of a size in pixels. What goes wrong on it fails the test in the end."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    try:
        watched = WatchedPage(context.new_page())
        yield watched
        assert watched.problems == []
    finally:
        context.close()
