"""Since when a task is blocked, over restarts of its node."""

from datetime import datetime, timedelta
from operator import itemgetter
from pathlib import Path

from hourhand import RetryPolicy, Scheduler, TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from tests.unit.scheduler.cli.commands import answer, settings_of
from tests.waiting import until


class Fails(TaskExecutor):
    """Fails at once, and blocks its ordering id."""

    retry = RetryPolicy(attempts_max=1, on_exhausted="block")

    def execute(self, task: Task) -> None:
        """Fail."""
        raise ValueError("no such customer")


def test_a_task_is_blocked_since_its_first_failure_over_restarts(tmp_path: Path) -> None:
    """With its error, its attempts and its kind; one that is held since it was first held."""
    due: datetime = from_millis(SystemClock().now_ms()) + timedelta(milliseconds=10)
    known = Task(ordering_id="a", scheduled_time=due, uniqueness_key="1", kind="mail")
    unknown = Task(ordering_id="b", scheduled_time=due, uniqueness_key="1", kind="charge")

    looks: list[list[dict[str, object]]] = []

    def told() -> list[dict[str, object]]:
        """Leave out what a node said that has ended: it counts for a few seconds more."""
        ended = {row["node"] for look in looks for row in look}
        rows = answer(tmp_path, "blocked")["blocked"]["blocked"]
        return sorted((row for row in rows if row["node"] not in ended), key=itemgetter("key"))

    for _ in range(3):
        with Scheduler(settings_of(tmp_path), executors={"mail": Fails}) as scheduler:
            if not looks:
                for task in (known, unknown):
                    scheduler.schedule_task(task).result(60)
            until(lambda: len(told()) == 2)
            looks.append(told())

    names = ("since", "error", "attempts", "kind")
    first, *later = [[[row[name] for name in names] for row in look] for look in looks]
    assert later == [first, first]
    (blocked, held) = first
    assert blocked[1:] == ["ValueError", 1, "mail"]
    assert held[1:] == ["UnknownKind", 0, "charge"]
