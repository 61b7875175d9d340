"""Limits on the dashboard: changed and reset there, and shown as somebody else changed them."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator

from hourhand import Hourhand, Limit, Scheduler, Settings
from tests.browser.looking import Looking
from tests.unit.scheduler.cli.commands import invoke, settings_of

pytestmark = pytest.mark.browser

app = Hourhand()


@app.task("mail", limits=Limit(rate=50, burst=5))
def mail(payload: dict[str, Any]) -> None:
    """Do nothing."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """An installation that commands of this process find too."""
    settings = settings_of(tmp_path_factory.mktemp("limits") / "data")
    return settings.model_copy(
        update={"admin": settings.admin.model_copy(update={"port": 0})},
    )


@pytest.fixture(scope="module")
def node(settings: Settings) -> Iterator[Scheduler]:
    """A node that declares a limit."""
    with Scheduler(settings, executors=app) as scheduler:
        yield scheduler


def row(looking: Looking, table: str = "Limits") -> Locator:
    """Return the row of the limit, or the sum of its rates."""
    rows = looking.page.locator(f"table[aria-label={table}] tbody tr", has_text="mail#1")
    return rows.last


def rate(looking: Looking) -> float | None:
    """Return what the store says of the limit."""
    (limit,) = looking.running.service.limits.settings().limits
    assert limit.effective is not None, "its node runs"
    return limit.effective.rate


def test_a_limit_is_changed_and_reset(looking: Looking) -> None:
    """With a reason in the audit log; what each node may start follows."""
    looking.open("activity")
    row(looking).locator(".pill", has_text="as declared").wait_for()
    looking.press("Change", row(looking))
    looking.page.locator("dialog[open]").get_by_label("Starts", exact=True).fill("20")
    looking.confirm(reason="the provider is slow")

    row(looking).locator(".pill", has_text="changed").wait_for()
    assert rate(looking) == 20
    looking.until(lambda: "20 per 1" in row(looking, "Rates").inner_text())
    entry = looking.page.locator("table[aria-label='Audit log'] tbody tr").first
    assert "50 per 1 s" in entry.inner_text() and "20 per 1 s" in entry.inner_text()

    looking.press("Reset", row(looking))
    looking.confirm(1)
    row(looking).locator(".pill", has_text="as declared").wait_for()
    assert rate(looking) == 50


def test_a_change_by_the_command_line_is_shown(looking: Looking, settings: Settings) -> None:
    """On a screen that is open, with the reason."""
    looking.open("activity")
    row(looking).locator(".pill", has_text="as declared").wait_for()
    done = invoke(
        settings.embedded.folder, "limits", "set", "mail#1", "--rate", "30", "--reason", "at night"
    )
    assert done.exit_code == 0, done.output

    row(looking).locator(".pill", has_text="changed").wait_for()
    looking.until(lambda: "30 per 1" in row(looking).inner_text())
    assert "at night" in row(looking).inner_text()
    assert invoke(settings.embedded.folder, "limits", "reset", "mail#1").exit_code == 0
    row(looking).locator(".pill", has_text="as declared").wait_for()
