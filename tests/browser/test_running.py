"""A task that runs: how far it is, and how it is cancelled and asked to end."""

import uuid

import pytest
from playwright.sync_api import Browser, Locator, expect

from hourhand import Settings
from hourhand.scheduler.cli.http_running import AdminRunning
from hourhand.scheduler.tasks.inspector import TaskState
from tests.browser.importing import TOTAL
from tests.browser.looking import Looking

pytestmark = pytest.mark.browser


def an_id() -> str:
    """Return an ordering id that no other test has."""
    return f"running-{uuid.uuid4().hex[:8]}"


def done_of(bar: Locator) -> int:
    """Return how far a bar says that its task is."""
    return int(bar.get_attribute("aria-valuenow") or 0)


def test_a_task_that_runs_shows_how_far_it_is_until_it_is_asked_to_end(looking: Looking) -> None:
    """A cancel alone lets it run on, and both screens say so; asked to end, it ends."""
    name, page = an_id(), looking.page
    key = looking.schedule(name, in_s=0.2, kind="importing")
    looking.open("task", key=str(key))
    bar = page.get_by_role("progressbar")
    bar.wait_for()
    assert bar.get_attribute("aria-valuemax") == f"{TOTAL}"
    before = done_of(bar)
    looking.until(lambda: done_of(bar) > before)
    assert " of 1,000, " in page.locator(".card", has=bar).inner_text()

    looking.press("Cancel")
    looking.confirm(1)
    pill = page.locator(".task-head .pill")
    expect(pill).to_have_text("cancelling")
    page.get_by_text("Cancelled, and still running").wait_for()
    looking.open("tasks", find=name)
    expect(looking.row(name).locator(".pill")).to_have_text("cancelling")

    looking.open("task", key=str(key))
    looking.press("Cancel what runs")
    looking.confirm(1, reason="it takes too long")
    expect(pill).to_have_text("cancelled")
    looking.until(lambda: looking.state(key) is TaskState.CANCELLED)
    looking.open("activity")
    assert name in looking.row("cancel-running").first.inner_text()


def test_a_task_that_runs_is_asked_to_end_at_once(looking: Looking) -> None:
    """Without a cancel before."""
    key = looking.schedule(an_id(), in_s=0.2, kind="importing")
    looking.open("task", key=str(key))
    looking.press("Cancel what runs")

    looking.confirm(1)

    expect(looking.page.locator(".task-head .pill")).to_have_text("cancelled")


def test_a_hidden_checkpoint_keeps_its_bar(
    browser: Browser, settings: Settings, looking: Looking
) -> None:
    """With ``admin.show_data=false`` the value is nowhere on the page."""
    key = looking.schedule(an_id(), in_s=0.2, kind="importing")
    looking.open("task", key=str(key))
    looking.page.get_by_role("progressbar").wait_for()
    hiding = settings.admin.model_copy(update={"show_data": False})

    with (
        AdminRunning(settings.model_copy(update={"admin": hiding})) as running,
        browser.new_page() as page,
    ):
        hidden = Looking(page, running, None)
        hidden.open("task", key=str(key))
        bar = page.get_by_role("progressbar")
        bar.wait_for()
        told = page.locator(".card", has=bar).inner_text()

    looking.press("Cancel what runs")
    looking.confirm(1)
    assert "Hidden by admin.show_data." in told
    assert '"done"' not in told
