"""What the other doors keep: recurring schedules, timers, messages; looked at and acted on."""

from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest

from scheduler import Scheduler, Settings
from scheduler.cli.timers_running import TimersRunning
from tests.browser.looking import WAIT_MS, Looking
from tests.browser.test_actions import an_id

pytestmark = pytest.mark.browser
ACCEPTED_S = 30.0


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
    assert "applied: 1" in looking.confirm(1)
    looking.row(name).locator(".pill", has_text="paused").wait_for()
    looking.press("Resume", looking.row(name))

    assert "applied: 1" in looking.confirm(1)
    looking.row(name).locator(".pill", has_text="active").wait_for()


def test_a_recurring_schedule_is_triggered_shown_and_deleted(
    looking: Looking, node: Scheduler
) -> None:
    """Its runs are told with what became of them."""
    name = an_id("triggered")
    schedule(looking, node, name)
    looking.press("Trigger", looking.row(name))
    assert "applied: 1" in looking.confirm(1)
    looking.row(name).locator("td a").wait_for()

    looking.row(name).locator("td").nth(2).click()
    dialog = looking.page.locator("dialog[open]")
    dialog.get_by_text("Next times").wait_for()
    assert dialog.locator("ul li").count() >= 9, "eight next times and a run"
    looking.page.keyboard.press("Escape")

    looking.row(name).locator("input").check()
    looking.press("Delete", looking.page.locator(".bulk"))
    assert "applied: 1" in looking.confirm(1)
    looking.row(name).wait_for(state="detached")


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
    assert "deleted: 1" in looking.confirm(1)
    row.wait_for(state="detached")


@pytest.mark.parametrize("word", ["Cancel", "Reschedule", "Send now"])
def test_a_message_that_waits_is_acted_on(looking: Looking, node: Scheduler, word: str) -> None:
    """Chosen by its box; what is cancelled or passed on waits no longer."""
    topic = an_id("topic")
    node.send_later(b"k", b"v", topic, timedelta(hours=2)).result(ACCEPTED_S)
    looking.until(lambda: _waits(looking, topic))
    looking.open("relay")
    row = looking.row(topic)
    row.wait_for()
    row.locator("input").check()
    looking.press(word, looking.page.locator(".bulk"))

    assert "applied: 1" in looking.confirm(1)
    if word == "Cancel":
        row.wait_for(state="detached")


def _waits(looking: Looking, topic: str) -> bool:
    relayed, clock = looking.running.service.relayed, looking.running.service.clock
    found = relayed.page(None, 100, clock.now_ms() + 86_400_000).tasks
    return any(view.task is not None and topic.encode() in view.task.data for view in found)
