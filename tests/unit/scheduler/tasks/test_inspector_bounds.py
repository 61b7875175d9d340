"""How much one listing of tasks looks at, over the memory stores."""

import pytest

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.scheduler.tasks import inspector
from hourhand.scheduler.tasks.inspector import TaskState
from tests.builders import NOW_MS, a_stored_task
from tests.unit.scheduler.tasks.test_inspector import Installation


@pytest.mark.parametrize("wanted", [TaskState.FAILURE, TaskState.SUCCESS])
def test_a_search_looks_at_so_many_tasks_and_no_more(
    monkeypatch: pytest.MonkeyPatch, wanted: TaskState
) -> None:
    """A state that few tasks have, or none, is cut into pages; together they hold all of them."""
    monkeypatch.setattr(inspector, "LOOKED_MAX", 10)
    installation = Installation()
    tasks = [a_stored_task(ordering_id=f"id-{n}", due_in_ms=n) for n in range(35)]
    installation.insert(*tasks)
    done = tasks[28]
    installation.complete(Completion(done.key, CompletionResult.SUCCESS, 1, NOW_MS))

    pages: list[list[TaskKey]] = []
    after: TaskKey | None = None
    while not pages or after is not None:
        page = installation.list(states={wanted}, after=after, limit=5)
        pages.append([view.key for view in page.tasks])
        after = page.next_after

    found = [done.key] if wanted is TaskState.SUCCESS else []
    assert pages == [[], [], found, []]


def test_a_page_that_is_asked_for_is_looked_at_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the caller's word."""
    monkeypatch.setattr(inspector, "LOOKED_MAX", 10)
    installation = Installation()
    installation.insert(*(a_stored_task(ordering_id=f"id-{n}", due_in_ms=n) for n in range(35)))

    assert len(installation.list(limit=30).tasks) == 30
    assert installation.list(limit=35).next_after is None
