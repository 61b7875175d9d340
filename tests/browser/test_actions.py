"""Every action: asked for on a screen, confirmed after its preview, done by the node."""

import uuid

import pytest

from hourhand.scheduler.tasks.inspector import TaskState
from tests.browser.looking import Looking

pytestmark = pytest.mark.browser


def an_id(name: str) -> str:
    """Return an ordering id that no other test has."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


SAID = {
    "Run now": ": moved to now",
    "Reschedule": ": moved",
    "Cancel": ": cancelled, and will not run",
    "Drop": ": closed for good without running",
    "Retry": ": opened again with all attempts",
}
"""What the dialog says of an act that was done."""


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("Run now", TaskState.MOVED),
        ("Reschedule", TaskState.MOVED),
        ("Cancel", TaskState.CANCELLED),
        ("Drop", TaskState.DROPPED),
    ],
)
def test_one_task_is_acted_on(looking: Looking, word: str, state: TaskState) -> None:
    """From its own page; the audit log keeps the reason."""
    key = looking.schedule(an_id("one"))
    looking.open("task", key=str(key))
    looking.press(word)

    assert SAID[word] in looking.confirm(1, reason=f"because of {word}")
    looking.until(lambda: looking.state(key) is state)
    looking.open("activity")
    assert f"{key}" in looking.row(word.lower().replace(" ", "-")).first.inner_text()


def test_a_failed_task_is_retried(looking: Looking) -> None:
    """A dropped one is opened again by it."""
    key = looking.schedule(an_id("again"), in_s=1_000)
    looking.open("task", key=str(key))
    looking.press("Drop")
    looking.confirm(1)
    looking.page.locator(".task-head .pill", has_text="dropped").wait_for()
    looking.press("Retry")

    assert SAID["Retry"] in looking.confirm(1)
    looking.until(lambda: looking.state(key) is TaskState.PENDING)


def test_nothing_is_done_before_it_is_confirmed(looking: Looking) -> None:
    """Cancel closes the question, and so does Escape."""
    key = looking.schedule(an_id("asked"))
    looking.open("task", key=str(key))
    for leave in ("button", "key"):
        looking.press("Drop")
        dialog = looking.page.locator("dialog[open]")
        looking.until(dialog.locator("button.main").is_enabled)
        if leave == "key":
            looking.page.keyboard.press("Escape")
        else:
            dialog.get_by_role("button", name="Cancel", exact=True).click()
        dialog.wait_for(state="detached")

    assert looking.state(key) is TaskState.PENDING


def test_chosen_tasks_are_acted_on_together(looking: Looking) -> None:
    """By their boxes, with the number that is concerned."""
    name = an_id("many")
    keys = [looking.schedule(name, str(number), in_s=1_800 + number) for number in range(3)]
    looking.open("tasks", find=name)
    looking.row(name).nth(2).wait_for()
    for number in (0, 2):
        looking.row(name).nth(number).locator("input").check()
    looking.press("Cancel", looking.page.locator(".bulk"))

    assert SAID["Cancel"] in looking.confirm(2)
    states = [looking.state(key) for key in keys]
    assert states == [TaskState.CANCELLED, TaskState.PENDING, TaskState.CANCELLED]


def test_all_that_match_are_acted_on(looking: Looking) -> None:
    """With the filter's own count; the number that was seen is the number that is done."""
    name = an_id("all")
    keys = [looking.schedule(name, str(number), in_s=1_800) for number in range(4)]
    looking.open("tasks", find=name, state="pending")
    looking.row(name).nth(3).wait_for()
    looking.press("Drop")

    assert SAID["Drop"] in looking.confirm(4)
    assert {looking.state(key) for key in keys} == {TaskState.DROPPED}


@pytest.mark.parametrize("how", ["Retry", "Drop"])
def test_a_blocked_id_is_unblocked(looking: Looking, how: str) -> None:
    """It is shown with why and how many wait behind; dropping lets them run."""
    name = an_id(f"stuck-{how.lower()}")
    key = looking.block(name, behind=2)
    looking.open("blocked")
    row = looking.row(name)
    row.wait_for()
    assert "BillingUnavailable" in row.inner_text()
    looking.until(lambda: row.locator("td[data-name=behind]").inner_text() == "2")
    looking.press(how, row)

    assert SAID[how] in looking.confirm(1)
    if how == "Drop":
        looking.until(lambda: looking.state(key) is TaskState.DROPPED)
        row.wait_for(state="detached")


def test_many_blocked_ids_are_dropped_at_once(looking: Looking) -> None:
    """By their boxes; the rows go as their ids go on."""
    names = [an_id("bulk") for _ in range(3)]
    keys = [looking.block(name) for name in names]
    looking.open("blocked")
    for name in names:
        looking.row(name).locator("input").check()
    looking.press("Drop", looking.page.locator(".bulk"))

    assert SAID["Drop"] in looking.confirm(3)
    looking.until(lambda: {looking.state(key) for key in keys} == {TaskState.DROPPED})
    for name in names:
        looking.row(name).wait_for(state="detached")


def test_all_that_one_error_blocks_are_dropped_at_once(looking: Looking) -> None:
    """Chosen by a chip; what another error blocks stays."""
    names = [an_id("lost") for _ in range(2)]
    keys = [looking.schedule(name, in_s=0.2, missing=name) for name in names]
    other = looking.block(an_id("other"))
    looking.until(lambda: {looking.state(key) for key in keys} == {TaskState.BLOCKED})
    looking.open("blocked")
    looking.row(other.ordering_id).wait_for()
    looking.page.locator(".chip", has_text="LookupError").click()
    looking.row(other.ordering_id).wait_for(state="detached")
    looking.press("Drop all with this error")

    assert SAID["Drop"] in looking.confirm(2)
    looking.until(lambda: {looking.state(key) for key in keys} == {TaskState.DROPPED})
    assert looking.state(other) is TaskState.BLOCKED


def test_a_task_is_scheduled(looking: Looking) -> None:
    """What cannot be read is told before anything is sent; the audit log names who did it."""
    name = an_id("by-hand")
    looking.open("tasks")
    looking.press("Schedule a task")
    dialog = looking.page.locator("dialog[open]")
    dialog.get_by_label("Ordering id").fill(name)
    dialog.get_by_label("Data").fill("{")
    dialog.get_by_label("Reason").focus()
    dialog.locator(".problem", has_text="not valid JSON").wait_for()
    assert not dialog.locator("button.main").is_enabled()
    dialog.get_by_label("Data").fill('{"work_ms": 1}')
    dialog.get_by_label("Reason").focus()

    assert name in looking.confirm(1, reason="a test")
    looking.row(name).wait_for()
    assert "pending" in looking.row(name).inner_text()
    looking.open("activity")
    assert "schedule" in looking.row(name).inner_text()


def test_what_is_active_stands_first_with_its_error(looking: Looking) -> None:
    """What runs, what failed, what is blocked, then what waits; Hourhand's own only on demand."""
    waits = looking.schedule(an_id("waits"))
    blocked = looking.block(an_id("blocks"))
    runs = looking.schedule(an_id("runs"), in_s=0.2, work_ms=15_000)
    looking.until(lambda: str(runs) in looking.running.service.cluster.executions())
    looking.open("tasks")
    rows = looking.page.locator("tbody tr")
    rows.nth(2).wait_for()

    told = rows.all_inner_texts()
    places = [
        next(place for place, text in enumerate(told) if key.ordering_id in text)
        for key in (runs, blocked, waits)
    ]
    assert places == sorted(places)
    assert "BillingUnavailable" in told[places[1]]
    assert "running" in told[places[0]]


def test_tasks_of_a_kind_are_scheduled_and_found(looking: Looking) -> None:
    """The column is there where a task has one."""
    name = an_id("kinds")
    looking.schedule(name, "plain")
    looking.open("tasks")
    looking.press("Schedule a task")
    dialog = looking.page.locator("dialog[open]")
    dialog.get_by_label("Ordering id").fill(name)
    dialog.get_by_label("Kind").fill("send-mail")
    dialog.get_by_label("Reason").focus()
    looking.confirm(1)

    looking.open("tasks", kind="send-mail", find=name)
    looking.row(name).wait_for()
    assert looking.row(name).locator("td.kind").inner_text() == "send-mail"


def test_a_failing_task_is_dropped(looking: Looking) -> None:
    """Before its attempts are used up."""
    name = an_id("failing")
    key = looking.schedule(name, in_s=0.1, again_s=600)
    looking.open("blocked", kind="failing")
    looking.press("Drop", looking.row(name))

    said = looking.confirm(1)
    assert SAID["Drop"] in said
    looking.until(lambda: looking.state(key) is TaskState.DROPPED)


def test_everything_is_paused_and_resumed(looking: Looking) -> None:
    """A notice says so on every screen; what is due waits meanwhile."""
    looking.open("nodes")
    looking.press("Pause everything")
    looking.confirm(1, reason="maintenance")
    notice = looking.page.locator(".notice", has_text="Everything is paused")
    notice.wait_for()
    looking.page.locator("tbody .pill", has_text="paused").first.wait_for()
    key = looking.schedule(an_id("paused"), in_s=0.2)
    looking.page.wait_for_timeout(1_000)
    assert looking.state(key) is TaskState.PENDING

    looking.open("activity")
    assert "maintenance" in looking.row("everything").first.inner_text()
    looking.press("Resume", looking.row("everything").first)
    looking.confirm(1)
    notice.wait_for(state="detached")
    looking.until(lambda: looking.state(key) is TaskState.SUCCESS)


def test_a_partition_is_paused_and_resumed(looking: Looking) -> None:
    """From its row."""
    looking.open("nodes")
    row = looking.page.locator("table[aria-label=Partitions] tbody tr").nth(2)
    looking.press("Pause", row)
    looking.confirm(1)
    row.locator(".pill", has_text="paused").wait_for()
    looking.press("Resume", row)
    looking.confirm(1)
    row.locator(".pill", has_text="running").wait_for()


def test_an_ordering_id_is_paused_and_resumed(looking: Looking) -> None:
    """From its task; lifted where all pauses are listed."""
    name = an_id("rest")
    key = looking.schedule(name)
    looking.open("task", key=str(key))
    looking.press("Pause ordering id")
    looking.confirm(1)
    looking.open("activity")
    looking.press("Resume", looking.row(name).first)
    looking.confirm(1)
    assert looking.running.service.pauses.config().pauses == ()
