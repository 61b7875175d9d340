"""What the other doors keep: recurring schedules, timers, messages; looked at and acted on."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from hourhand import Scheduler, Settings
from hourhand.scheduler.cli.http_running import TimersRunning
from tests.browser.looking import WAIT_MS, Looking
from tests.browser.test_actions import an_id

pytestmark = pytest.mark.browser
ACCEPTED_S = 60.0


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """An installation whose timers are served on any free port."""
    folder = tmp_path_factory.mktemp("doors") / "data"
    return Settings(embedded={"folder": folder}, admin={"port": 0}, timers={"port": 0})


@pytest.fixture(scope="module")
def timers(settings: Settings) -> Iterator[TimersRunning]:
    """The timer service, whose node runs everything else too."""
    with TimersRunning(settings) as running:
        yield running


@pytest.fixture(scope="module")
def node(timers: TimersRunning) -> Scheduler:
    """Its node."""
    return timers.scheduler


def schedule(looking: Looking, node: Scheduler, name: str) -> None:
    """Make a recurring schedule, and open the screen once it is there."""
    node.schedule_recurring(name, every=timedelta(hours=1)).result(ACCEPTED_S)
    looking.until(lambda: node.find_recurring(name) is not None)
    looking.open("recurring")
    looking.row(name).wait_for()


def test_a_recurring_schedule_is_paused_and_resumed(looking: Looking, node: Scheduler) -> None:
    """From its row."""
    name = an_id("hourly")
    schedule(looking, node, name)
    looking.press("Pause", looking.row(name))
    assert "1: paused" in looking.confirm(1)
    looking.row(name).locator(".pill", has_text="paused").wait_for()
    looking.press("Resume", looking.row(name))

    assert "1: resumed" in looking.confirm(1)
    looking.row(name).locator(".pill", has_text="active").wait_for()


def test_a_recurring_schedule_is_triggered_shown_and_deleted(
    looking: Looking, node: Scheduler
) -> None:
    """Its runs are told with what became of them."""
    name = an_id("triggered")
    schedule(looking, node, name)
    looking.press("Trigger", looking.row(name))
    assert "1: one run is scheduled now" in looking.confirm(1)
    looking.row(name).locator("td a").wait_for()

    looking.row(name).locator("td").nth(2).click()
    dialog = looking.page.locator("dialog[open]")
    dialog.get_by_text("Next times").wait_for()
    assert dialog.locator("ul li").count() >= 9, "eight next times and a run"
    looking.page.keyboard.press("Escape")

    looking.row(name).locator("input").check()
    looking.press("Delete", looking.page.locator(".bulk"))
    assert "1: ended for good" in looking.confirm(1)
    looking.row(name).wait_for(state="detached")


def test_past_times_of_a_recurring_schedule_are_made(looking: Looking, node: Scheduler) -> None:
    """After a preview of their tasks; those that are there are not made again."""
    name, now = an_id("past"), datetime.now(UTC)
    day = now.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    node.schedule_recurring(name, cron="0 12 * * *", time_zone="UTC").result(ACCEPTED_S)
    looking.until(lambda: node.find_recurring(name) is not None)
    looking.open("recurring")
    dialog = looking.page.locator("dialog[open]")
    for made, there in ((3, 0), (0, 3)):
        looking.press("Backfill", looking.row(name))
        dialog.get_by_label("From").fill((day - timedelta(days=3)).strftime("%Y-%m-%dT%H:%M"))
        dialog.get_by_label("To").fill(day.strftime("%Y-%m-%dT%H:%M"))
        dialog.get_by_label("Reason").focus()
        if made:
            dialog.locator(".preview .count", has_text="3 tasks").wait_for()
            said = looking.confirm(made, reason="outage")
            assert f"made: {made}" in said and f"there already: {there}" in said
        else:
            dialog.get_by_text("3 tasks there already").wait_for()
            assert dialog.locator("button.main").is_disabled()
            looking.page.keyboard.press("Escape")
        looking.until(lambda: len(list(node.list_tasks(ordering_id=name))) >= 3)


def test_a_recurring_schedule_is_made_and_changed(looking: Looking, node: Scheduler) -> None:
    """After a preview of its next times."""
    name = an_id("made")
    looking.open("recurring")
    looking.press("New schedule")
    dialog = looking.page.locator("dialog[open]")
    dialog.get_by_label("Name").fill(name)
    dialog.get_by_label("Cron expression", exact=True).fill("30 2 * * *")
    dialog.get_by_label("Data of the tasks").fill('{"a": 1}')
    dialog.get_by_label("Reason").focus()
    dialog.locator(".preview li", has_text="02:30").first.wait_for()
    assert "1: set" in looking.confirm(1)
    looking.row(name).wait_for()

    looking.press("Edit", looking.row(name))
    dialog.get_by_label("Cron expression", exact=True).fill("")
    dialog.get_by_label("interval").fill("2h")
    dialog.get_by_label("Reason").focus()
    assert "1: set" in looking.confirm(1)
    looking.until(lambda: "every 2" in looking.row(name).inner_text())
    found = node.find_recurring(name)
    assert found is not None
    assert (found.rule.every_ms, found.rule.data) == (7_200_000, {"a": 1})


def test_hourhands_own_tasks_are_listed_on_demand(looking: Looking, node: Scheduler) -> None:
    """Hidden otherwise: a user did not schedule them."""
    schedule(looking, node, an_id("internal"))
    looking.open("tasks", span="hour")
    own = looking.row("hourhand:recurring:")
    looking.page.locator(".table-foot").wait_for()
    assert own.count() == 0
    looking.page.get_by_label("Show internal tasks").check()

    own.first.wait_for()
    assert "system=yes" in looking.page.url


def test_a_timer_is_shown_and_ended(looking: Looking, timers: TimersRunning) -> None:
    """It is found by its tag, and pops no more."""
    tag = "CALLTAG"
    body = {
        "timing": {"interval": 3_600, "repeat-for": 36_000},
        "callback": {"http": {"uri": "http://localhost:1/pop", "opaque": "o"}},
        "statistics": {"tag-info": [{"type": tag, "count": 1}]},
    }
    made = httpx.post(f"http://127.0.0.1:{timers.port}/timers", json=body, timeout=ACCEPTED_S)
    assert made.status_code == 200
    looking.open("timers", tag=tag)
    row = looking.row(tag)
    row.wait_for(timeout=WAIT_MS)
    row.locator("td").nth(2).click()
    looking.page.locator("dialog[open]").get_by_text("Next pops").wait_for()
    looking.page.keyboard.press("Escape")

    looking.press("End", row)
    assert "1: ended" in looking.confirm(1)
    row.wait_for(state="detached")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("Cancel", "1: cancelled, and will not be sent"),
        ("Reschedule", "1: moved"),
        ("Send now", "1: sent now"),
    ],
)
def test_a_message_that_waits_is_acted_on(
    looking: Looking, node: Scheduler, word: str, said: str
) -> None:
    """Chosen by its box; what is cancelled or passed on waits no longer."""
    topic = an_id("topic")
    node.send_later(b"k", b"v", topic, timedelta(hours=2)).result(ACCEPTED_S)
    looking.until(lambda: _waits(looking, topic))
    looking.open("relay")
    row = looking.row(topic)
    row.wait_for()
    row.locator("input").check()
    looking.press(word, looking.page.locator(".bulk"))

    assert said in looking.confirm(1)
    if word == "Cancel":
        row.wait_for(state="detached")


def _waits(looking: Looking, topic: str) -> bool:
    relayed, clock = looking.running.service.relayed, looking.running.service.clock
    found = relayed.page(None, 100, clock.now_ms() + 86_400_000).tasks
    return any(view.task is not None and topic.encode() in view.task.data for view in found)
