"""What somebody reads: nothing cut, nothing escaped, nothing that axe complains of."""

from itertools import count
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from examples.demo_dashboard.pictures import SCREENS, Scheme, Seen, open_page, show
from hourhand import Settings
from hourhand.actors.model.values.instant import parse_instant
from hourhand.scheduler.cli.http_running import AdminRunning
from hourhand.scheduler.tasks.inspector import TaskState
from tests.browser.looking import Looking

pytestmark = pytest.mark.browser
FILLED = count()
LONG = "a-schedule-with-a-name-of-many-letters"
CUT_TABLES = """
() => [...document.querySelectorAll(".table-room")]
  .map((each) => each.scrollWidth - each.clientWidth)
  .filter((each) => each > 0)
"""
NARROW_CELLS = """
() => [...document.querySelectorAll(".task-table td.key, .task-table td.brief")]
  .filter((each) => each.offsetParent && each.clientWidth < 200)
  .map((each) => each.className)
"""
ROW_HEIGHT = "Math.max(...[...document.querySelectorAll('tbody tr')].map((e) => e.clientHeight))"


def _fill(looking: Looking) -> None:
    """Have something on most screens: what is blocked, waits, runs and recurs."""
    looking.block(f"blocked-for-reading-{next(FILLED)}", behind=1)
    looking.schedule("an-ordering-id-of-many-letters-indeed", "invoice-0000000001", in_s=900)
    looking.schedule("works", in_s=0.2, work_ms=20_000)
    service = looking.running.service
    rule = {"cron": "0 3 * * 1-5", "time_zone": "America/Argentina/ComodRivadavia"}
    service.recurring.set_rule(LONG, rule, 10.0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_screen(
    browser: Browser, looking: Looking, running: AdminRunning, scheme: Scheme
) -> None:
    """Contrasts, names of heads and fields, the order of headings."""
    _fill(looking)
    # axe is a script of its own, which the page's policy refuses.
    context = browser.new_context(color_scheme=scheme, bypass_csp=True, reduced_motion="reduce")
    page = context.new_page()
    page.goto(f"{running.address}/#/now")
    page.locator(".pulse[data-state=live]").wait_for()

    found = [each for place in SCREENS.values() for each in _violations(page, running, place)]

    context.close()
    assert found == []


def _violations(page: Page, running: AdminRunning, place: str) -> list[str]:
    show(page, running.address, place)
    violations = Axe().run(page).response["violations"]
    return [f"{place} {each['id']} {node['html']}" for each in violations for node in each["nodes"]]


def test_no_table_is_cut_on_a_small_screen(
    browser: Browser, looking: Looking, running: AdminRunning
) -> None:
    """At 1280 pixels every column and every button is there."""
    _fill(looking)
    seen = Seen([], set())
    with open_page(browser, running.address, "light", seen) as page:
        page.set_viewport_size({"width": 1_280, "height": 800})
        for place in ("recurring", "tasks", "blocked", "nodes", "activity", "dead-letters"):
            show(page, running.address, place)
            assert page.evaluate(CUT_TABLES) == [], place


def test_tasks_on_a_phone_are_read_in_lines(
    browser: Browser, looking: Looking, running: AdminRunning
) -> None:
    """No cell is one word wide, and a hundred tasks are no book."""
    _fill(looking)
    seen = Seen([], set())
    with open_page(browser, running.address, "light", seen, phone=True) as page:
        show(page, running.address, "tasks")
        page.locator("tbody tr", has_text="blocked-for-reading").first.wait_for()

        assert page.evaluate(NARROW_CELLS) == []
        assert page.evaluate(ROW_HEIGHT) < 190


def test_an_address_of_no_screen_is_said(looking: Looking) -> None:
    """Rather than to show another one without a word."""
    looking.page.goto(f"{looking.running.address}/#/nowhere?x=1")

    looking.page.get_by_text('The address names "nowhere"').wait_for()
    assert looking.page.locator(".top h1").inner_text() == "No such screen"
    looking.open("tasks")


def test_keys_are_shown_as_they_are_read(looking: Looking) -> None:
    """Escapes are for commands and addresses; a copy still has them."""
    key = looking.schedule("customer 7 / ü", "invoice 42")
    looking.open("task", key=str(key))

    looking.page.locator(".pairs code", has_text=",customer 7 / ü,invoice 42").wait_for()
    looking.press("Drop")
    looking.page.locator("dialog[open] .preview li", has_text="customer 7 / ü").wait_for()
    looking.confirm(1)


def test_large_data_is_cut_until_all_is_asked_for(looking: Looking) -> None:
    """A megabyte is not drawn unless somebody wants it."""
    key = looking.schedule("large-data", text="x" * 30_000)
    looking.open("task", key=str(key))
    code = looking.page.locator("pre.code").first
    code.wait_for()
    assert len(code.inner_text()) < 5_000

    looking.page.get_by_role("button", name="Show all").click()

    looking.until(lambda: len(looking.page.locator("pre.code").first.inner_text()) > 30_000)


def test_what_was_cancelled_and_runs_on_is_cancelling(looking: Looking) -> None:
    """With the attempt and how long it has run; its code can be asked to end."""
    key = looking.schedule("runs-on", in_s=0.2, work_ms=12_000)
    looking.until(lambda: str(key) in looking.running.service.cluster.executions())
    looking.open("task", key=str(key))
    looking.press("Cancel")

    said = looking.confirm(1)

    assert "cancelled while an attempt runs" in said
    looking.page.locator(".task-head .pill", has_text="cancelling").wait_for()
    looking.page.get_by_text("Cancelled, and still running").wait_for()
    assert "in a thread (attempt 1, for" in looking.page.locator(".pairs").inner_text()
    looking.press("Cancel what runs")
    assert "asked to end" in looking.confirm(1)


def test_an_empty_installation_names_the_command_and_draws_no_axes(
    browser: Browser, tmp_path: Path
) -> None:
    """The first thing that somebody sees."""
    settings = Settings(embedded={"folder": tmp_path / "data"}, admin={"port": 0})
    seen = Seen([], set())
    with (
        AdminRunning(settings) as empty,
        open_page(browser, empty.address, "light", seen) as page,
    ):
        page.get_by_text("hourhand run --executor MODULE:CLASS").wait_for()
        page.get_by_text("Not enough data yet").first.wait_for()
        assert page.locator(".u-axis").count() == 0
    assert seen.errors == []


def test_a_time_is_picked_in_the_zone_that_is_shown(looking: Looking) -> None:
    """Nobody types RFC 3339; the task moves to the moment that was meant."""
    key = looking.schedule("moved-by-a-picker")
    looking.open("task", key=str(key))
    looking.press("Reschedule")
    field = looking.page.locator("dialog[open]").get_by_label("New time, UTC")
    assert field.get_attribute("type") == "datetime-local"
    field.fill("2031-02-09T01:41:12")

    looking.confirm(1)

    looking.until(lambda: looking.state(key) is TaskState.MOVED)
    moved = key._replace(scheduled_ms=parse_instant("2031-02-09T01:41:12Z"))
    assert looking.state(moved) is TaskState.PENDING


def test_a_stretch_of_time_is_picked_and_kept_in_the_address(looking: Looking) -> None:
    """As an instant, so that a colleague in another zone sees the same tasks."""
    looking.open("tasks", **{"from": "2031-02-09T01:00:00Z", "to": "2031-02-09T02:00:00.500Z"})
    first = looking.page.locator("input[type=datetime-local]").first
    looking.until(lambda: first.input_value() == "2031-02-09T01:00")

    looking.press("Search")

    looking.until(lambda: "2031-02-09T02%3A00%3A00.500Z" in looking.page.url)
    looking.page.get_by_text("No matching tasks").or_(
        looking.page.locator("tbody tr")
    ).first.wait_for()
