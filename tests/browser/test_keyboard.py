"""The keyboard alone: from screen to screen, through a table, into a question and out of it."""

import pytest

from hourhand.scheduler.tasks.inspector import TaskState
from tests.browser.looking import Looking
from tests.browser.test_actions import an_id

pytestmark = pytest.mark.browser

PLACES = {
    "n": "now",
    "a": "ahead",
    "l": "lateness",
    "m": "buckets",
    "t": "tasks",
    "b": "blocked",
    "e": "dead-letters",
    "c": "recurring",
    "i": "timers",
    "y": "relay",
    "o": "nodes",
    "p": "activity",
    "s": "settings",
}


def test_g_and_a_letter_go_to_every_screen(looking: Looking) -> None:
    """From wherever one is."""
    looking.open("now")
    for letter, place in PLACES.items():
        looking.page.keyboard.press("g")
        looking.page.keyboard.press(letter)
        looking.until(lambda place=place: f"#/{place}" in looking.page.url)


def test_a_slash_searches_and_a_key_opens_its_task(looking: Looking) -> None:
    """What is typed there is no shortcut."""
    key = looking.schedule(an_id("typed"))
    looking.open("now")
    looking.page.keyboard.press("/")
    field = looking.page.locator("#find")
    field.wait_for()
    looking.until(lambda: field.evaluate("each => each === document.activeElement"))
    looking.page.keyboard.type(str(key))
    looking.page.keyboard.press("Enter")

    looking.page.locator("h2", has_text=key.ordering_id).wait_for()


def test_a_table_is_walked_through_chosen_from_and_opened(looking: Looking) -> None:
    """Two letters move, x chooses, Enter opens, Escape goes back."""
    name = an_id("walked")
    for number in range(3):
        looking.schedule(name, str(number), in_s=1_800 + number)
    looking.open("tasks", find=name)
    looking.row(name).nth(2).wait_for()
    keyboard = looking.page.keyboard
    for pressed in ("j", "j", "j", "k", "x"):
        keyboard.press(pressed)
    looking.page.locator(".bulk", has_text="1 task selected").wait_for()
    assert looking.row(name).nth(1).get_attribute("aria-selected") == "true"

    keyboard.press("Enter")
    looking.page.locator(".task-head").wait_for()
    keyboard.press("Escape")
    looking.row(name).nth(2).wait_for()


def test_a_question_keeps_the_focus_and_gives_it_back(looking: Looking) -> None:
    """Whoever presses Enter at once does nothing: the focus is on leaving."""
    key = looking.schedule(an_id("focus"))
    looking.open("task", key=str(key))
    looking.press("Drop")
    dialog = looking.page.locator("dialog[open]")
    looking.until(dialog.locator("button.main").is_enabled)
    looking.page.keyboard.press("Enter")
    dialog.wait_for(state="detached")

    assert looking.state(key) is TaskState.PENDING
    assert looking.page.evaluate("document.activeElement.textContent") == "Drop"


def test_the_keys_are_listed(looking: Looking) -> None:
    """By a question mark."""
    looking.open("now")
    looking.page.keyboard.press("?")
    listed = looking.page.locator("dialog[open] .keys-list")

    assert "Blocked keys" in listed.inner_text()
