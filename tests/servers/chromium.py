"""A real browser without a window: Debian's Chromium, steered by Playwright.

Playwright's own downloads of browsers are not used: a distribution's package is kept up to date
by whoever runs the machine.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.servers.maven import ToolMissing

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str:
    """Return the path of a Chromium; raises ToolMissing with one line to act on."""
    for name in (os.environ.get("CHROMIUM", ""), *_NAMES):
        path = shutil.which(name) if name else None
        if path is not None:
            return path
    raise ToolMissing(
        "no Chromium is on the PATH: install it (Debian: chromium), or name one by CHROMIUM"
    )


@contextmanager
def open_browser() -> "Iterator[Browser]":
    """Yield a browser; ToolMissing where Chromium or Playwright is not installed."""
    path = find_chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        raise ToolMissing(
            "Playwright is not installed: make test-browser installs it into .venv"
        ) from None
    # As root, as in a container, Chromium refuses to run in its own sandbox.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        try:
            yield browser
        finally:
            browser.close()
