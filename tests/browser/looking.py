"""What somebody does at the dashboard, in words: schedule, open a screen, act, read the answer."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Locator, Page

from hourhand import Scheduler, Task
from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler.cli.http_running import AdminRunning
from hourhand.scheduler.tasks.inspector import TaskState

WAIT_MS = 20_000
_ACCEPTED_S = 60.0


class Looking:
    """A page, and the installation behind it."""

    def __init__(self, page: Page, running: AdminRunning, node: Scheduler | None) -> None:
        self.page = page
        self.running = running
        self._node = node
        page.set_default_timeout(WAIT_MS)

    # What there is to see.

    def schedule(
        self,
        ordering_id: str,
        name: str = "u",
        *,
        in_s: float = 3_600,
        kind: str | None = None,
        **data: Any,
    ) -> TaskKey:
        """Schedule a task and wait until it is stored."""
        assert self._node is not None, "there is a node to schedule by"
        at = datetime.now(UTC) + timedelta(seconds=in_s)
        task = Task(
            ordering_id=ordering_id, scheduled_time=at, uniqueness_key=name, data=data, kind=kind
        )
        self._node.schedule_task(task).result(_ACCEPTED_S)
        self.until(lambda: self.state(task.key) is not TaskState.UNKNOWN)
        return task.key

    def block(self, ordering_id: str, behind: int = 0) -> TaskKey:
        """Have a task fail for good, with others behind it, and wait until it blocks its id."""
        key = self.schedule(ordering_id, "0", in_s=0.2, fails=999)
        for number in range(behind):
            self.schedule(ordering_id, str(number + 1), in_s=0.3)
        self.until(lambda: self.state(key) is TaskState.BLOCKED)
        return key

    def state(self, key: TaskKey) -> TaskState:
        """Return what the store says of a task."""
        return self.running.service.inspector.show(key).state

    def until(self, holds: Any) -> None:
        """Wait until something holds."""
        for _ in range(WAIT_MS // 100):
            if holds():
                return
            self.page.wait_for_timeout(100)
        raise AssertionError("it never came to hold")

    # What somebody does.

    def open(self, place: str, **parameters: str) -> None:
        """Open a screen."""
        query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
        self.page.goto(f"{self.running.address}/#/{place}{f'?{query}' if query else ''}")
        self.page.locator(f"body[data-place={place}] .content > .screen").wait_for()

    def row(self, text: str) -> Locator:
        """Return the row of a table that holds a text."""
        return self.page.locator("tbody tr", has_text=text)

    def press(self, word: str, within: Locator | None = None) -> None:
        """Press a button by what it says."""
        place = within or self.page.locator(".content")
        place.get_by_role("button", name=word, exact=True).first.click()

    def confirm(self, count: int | None = None, reason: str = "") -> str:
        """See what the dialog says it concerns, confirm it, and return what came of it."""
        dialog = self.page.locator("dialog[open]")
        main = dialog.locator("button.main")
        self.until(main.is_enabled)
        if count is not None:
            shown = dialog.locator(".preview .count").inner_text()
            assert shown.startswith(f"{count} "), shown
        if reason:
            dialog.get_by_label("Reason").fill(reason)
        main.click()
        self.until(lambda: not dialog.count() or dialog.locator("h2").all_inner_texts() == ["Done"])
        if not dialog.count():
            return ""
        said = dialog.locator(".preview").inner_text()
        main.click()
        dialog.wait_for(state="detached")
        return str(said)
