"""Pictures of every screen, in both colour schemes and as a phone shows them.

WebP, because it is a third of a PNG's size; Chromium itself writes it.
"""

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page

Scheme = Literal["light", "dark"]

SCREENS: Mapping[str, str] = {
    "now": "now",
    "ahead": "ahead",
    "lateness": "lateness",
    "buckets": "buckets",
    "tasks": "tasks",
    "blocked": "blocked",
    "dead-letters": "dead-letters",
    "recurring": "recurring",
    "timers": "timers",
    "relay": "relay",
    "nodes": "nodes",
    "activity": "activity",
    "settings": "settings",
}
"""Name of a picture to the address of what it shows."""
ON_A_PHONE = ("now", "blocked")
WIDE = {"width": 1_360, "height": 850}
PHONE = {"width": 390, "height": 844}
BYTES_MAX = 1_500_000
"""All pictures together, so that a clone stays small."""
_QUALITY = 80
_SETTLED_MS = 1_500
_SHOWN_MS = 20_000


@dataclass(slots=True)
class Seen:
    """Complaints of a browser while it looked."""

    errors: list[str]
    hosts: set[str]


@contextmanager
def open_page(
    browser: Browser, address: str, scheme: Scheme, seen: Seen, *, phone: bool = False
) -> Iterator[Page]:
    """Yield one page, and note what it logs and whom it asks."""
    context = browser.new_context(
        color_scheme=scheme,
        viewport={"width": PHONE["width"], "height": PHONE["height"]}
        if phone
        else {"width": WIDE["width"], "height": WIDE["height"]},
        is_mobile=phone,
        device_scale_factor=2 if phone else 1,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.on("console", lambda said: _note(seen, said.type, said.text))
    page.on("pageerror", lambda error: seen.errors.append(str(error)))
    page.on("request", lambda asked: seen.hosts.add(asked.url.split("/")[2]))
    page.goto(f"{address}/#/now")
    page.locator(".pulse[data-state=live]").wait_for(timeout=_SHOWN_MS)
    try:
        yield page
    finally:
        context.close()


def show(page: Page, address: str, place: str) -> None:
    """Open a screen and wait until it has drawn itself."""
    page.goto(f"{address}/#/{place}")
    name = place.partition("?")[0]
    page.locator(f"body[data-place={name}] .content > .screen").wait_for(timeout=_SHOWN_MS)
    page.wait_for_timeout(_SETTLED_MS)


def write(page: Page, path: Path) -> int:
    """Write what a page shows right now; return the size in bytes."""
    session = page.context.new_cdp_session(page)
    told: dict[str, Any] = {"format": "webp", "quality": _QUALITY}
    picture = base64.b64decode(session.send("Page.captureScreenshot", told)["data"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(picture)
    session.detach()
    return len(picture)


def write_all(browser: Browser, address: str, folder: Path, seen: Seen, task: str) -> int:
    """Write a picture of every screen, of a task too; return the size of all together."""
    places = {**SCREENS, "task": f"task?key={task}"}
    schemes: tuple[Scheme, ...] = ("light", "dark")
    size = 0
    for scheme in schemes:
        with open_page(browser, address, scheme, seen) as page:
            for name, place in places.items():
                show(page, address, place)
                size += write(page, folder / f"{name}-{scheme}.webp")
    with open_page(browser, address, "dark", seen, phone=True) as page:
        for name in ON_A_PHONE:
            show(page, address, places[name])
            size += write(page, folder / f"{name}-phone.webp")
    return size


def _note(seen: Seen, kind: str, text: str) -> None:
    if kind in ("error", "warning"):
        seen.errors.append(text)
