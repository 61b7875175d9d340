"""A window of the schedule: its rows and its statuses, one after the other or side by side."""

from hourhand.actors.messages import LoadStatuses, LoadTasks, TasksLoaded
from hourhand.actors.model.execution.attempts import KeyStatus
from hourhand.actors.model.task.task import AttemptState
from hourhand.actors.model.window.checkpoint import SHORT_WINDOW_MS
from tests.builders import NOW_MS, a_completion
from tests.unit.actors.task_persistence_bench import LAG_MS, Bench, task_due_in


def test_the_statuses_of_a_short_window_are_read_beside_its_rows() -> None:
    """A new owner's tasks wait for both; of a long one too much would be read for each page."""
    short, long = Bench(), Bench()
    for bench, ahead_ms in (
        (short, SHORT_WINDOW_MS - LAG_MS),
        (long, SHORT_WINDOW_MS - LAG_MS + 1),
    ):
        bench.store(task_due_in(-20), task_due_in(-10))
        bench.requests.hold("load_tasks")
        bench.tell(LoadTasks(NOW_MS + ahead_ms, 1))
    asked_early = short.tracker.has(LoadStatuses), long.tracker.has(LoadStatuses)

    closed = KeyStatus(a_completion(key=task_due_in(-20).key), AttemptState())
    short.answer_statuses({task_due_in(-20).key: closed, task_due_in(-10).key: closed})
    short.serve("load_tasks")

    assert asked_early == (True, False)
    assert not short.scheduled()
    assert short.loaded() == TasksLoaded(NOW_MS - 20, complete=False)
