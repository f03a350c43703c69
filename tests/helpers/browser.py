"""Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

NEEDED = "ENERGYALIGN_NEEDS_BROWSER"
"""Set by .ci/run: without a browser its tests fail there, elsewhere they are skipped."""


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a headless browser. Without one, skip the test, or fail it if `NEEDED` is set."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        missing = "no Chromium on this machine (Debian: apt-get install chromium)"
        if os.environ.get(NEEDED):
            pytest.fail(missing)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Watched:
    """A page whose errors and requests are recorded."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.page = browser.new_context(**options).new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.problems.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: (self.problems.append(dialog.message), dialog.dismiss()))
        self.page.goto(url)
        self.settle()

    def text(self, selector: str) -> str:
        return str(self.page.locator(selector).inner_text())

    def table(self, selector: str) -> list[list[str]]:
        """Return the cells of the table's body."""
        script = "table => [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.textContent))"
        found: list[list[str]] = self.page.locator(selector).evaluate(script)
        return found

    def settle(self) -> None:
        """Wait until the page has updated."""
        self.page.locator("#live[aria-busy=false]").wait_for()

    def slide(self, strength: float) -> None:
        self.page.locator("#strength").fill(str(strength))
        self.settle()

    def choose(self, control: str, **option: str) -> None:
        """Choose an option of a list, for example ``value="ea"`` or ``label="after step 1"``."""
        self.page.locator(f"#{control}").select_option(**option)
        self.settle()
