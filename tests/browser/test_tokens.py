"""Tokens: the page asks for one, keeps it only in the tab, and offers what it allows."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from hourhand import Settings
from hourhand.scheduler.cli.http_running import AdminRunning

pytestmark = pytest.mark.browser
READ, WRITE = "r" * 32, "w" * 32
KEPT = "[document.cookie, JSON.stringify(localStorage), sessionStorage.length]"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminRunning]:
    """An admin API that asks for tokens; no node is needed to be refused."""
    folder: Path = tmp_path_factory.mktemp("guarded")
    admin: Any = {"port": 0, "read_tokens": {"eve": READ}, "write_tokens": {"ann": WRITE}}
    with AdminRunning(Settings(embedded={"folder": folder / "data"}, admin=admin)) as running:
        yield running


@pytest.fixture
def asked(browser: Browser, guarded: AdminRunning) -> Iterator[Page]:
    """A page that asks for a token."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(guarded.address)
    page.locator("dialog[open]", has_text="Sign in").wait_for()
    yield page
    context.close()


def sign_in(page: Page, token: str) -> None:
    """Give a token."""
    page.locator("dialog[open] input").fill(token)
    page.locator("dialog[open] button.main").click()


@pytest.mark.parametrize(("token", "may_act"), [(READ, False), (WRITE, True)])
def test_a_token_offers_what_it_may_do(asked: Page, token: str, may_act: bool) -> None:
    """One that looks sees the buttons, and why they do nothing."""
    sign_in(asked, token)
    asked.locator(".pulse[data-state=live]").wait_for()
    asked.goto(asked.url.split("#")[0] + "#/nodes")
    button = asked.get_by_role("button", name="Pause everything")
    button.wait_for()

    assert button.is_enabled() is may_act
    assert asked.locator(".places .foot").inner_text().startswith("ann" if may_act else "eve")


def test_a_wrong_token_is_said_to_be_wrong(asked: Page) -> None:
    """And a right one is taken afterwards."""
    sign_in(asked, "x" * 32)
    asked.locator("dialog[open] .problem").wait_for()
    sign_in(asked, READ)

    asked.locator(".pulse[data-state=live]").wait_for()


def test_a_token_stays_in_its_tab(asked: Page, guarded: AdminRunning) -> None:
    """No cookie, nothing that outlives the tab; it can be forgotten."""
    sign_in(asked, WRITE)
    asked.locator(".pulse[data-state=live]").wait_for()
    cookie, local, session = asked.evaluate(KEPT)
    assert cookie == ""
    assert WRITE not in local
    assert session == 1
    other = asked.context.new_page()
    other.goto(guarded.address)
    other.locator("dialog[open]", has_text="Sign in").wait_for()

    asked.goto(asked.url.split("#")[0] + "#/settings")
    asked.get_by_role("button", name="Sign out").click()
    asked.locator("dialog[open]", has_text="Sign in").wait_for()
